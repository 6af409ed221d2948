"""Whether one agent can be used on this machine. Owns which things are looked at, and which of them stand in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from goalrunner.agents.external import HIDDEN_HINT
from goalrunner.compose.check_environment import choose
from goalrunner.errors import GoalError, WorkspaceError
from goalrunner.model.goal import CHAT, AgentConfig, Goal, WorkspaceConfig
from goalrunner.model.preset import Preset
from goalrunner.presets import ACP, COMMAND, protocol_of
from goalrunner.runs import goal_home
from goalrunner.survey.agents import Way, ways_of
from goalrunner.survey.check import Check
from goalrunner.survey.sandbox import Box, sandbox_check
from goalrunner.survey.sign_in import model_check, sign_in_check
from goalrunner.survey.trial import Subject, trial_check
from goalrunner.survey.version import versions
from goalrunner.workspace.git import git_program


@dataclass(frozen=True)
class Diagnosis:
    """What was found of one agent."""

    agent: str
    checks: tuple[Check, ...]

    @property
    def usable(self) -> bool:
        """Whether nothing stands in the way."""
        return all(check.state != "bad" for check in self.checks)


@dataclass(frozen=True)
class Patient:
    """The agent in question, its preset, and where it is to work."""

    agent: AgentConfig
    preset: Preset
    workspace: WorkspaceConfig = WorkspaceConfig()  # noqa: RUF009  frozen
    agents: Mapping[str, Preset] = field(default_factory=dict)
    """Presets of the goal's own."""

    @property
    def folder(self) -> Path:
        """The workspace."""
        return Path(self.workspace.path or Path.cwd())

    @property
    def goal(self) -> Goal:
        """What a run of it would be told of agent and sandbox."""
        return Goal(objective="doctor", agent=self.agent, workspace=self.workspace, agents=dict(self.agents))


def examine(patient: Patient, environ: Mapping[str, str]) -> Diagnosis:
    """Look at everything, the program by a round against a scripted server where it can be pointed at one.

    The agent is looked at where it would be: in the sandbox that the goal asks for.
    """
    sandbox, box = sandbox_check(patient.goal, environ)
    checks = [*_of_agent(patient, environ, box), _git(patient, environ), sandbox, _environment(patient, environ)]
    return Diagnosis(patient.agent.use, tuple(checks))


def _environment(patient: Patient, environ: Mapping[str, str]) -> Check:
    """Return which check environment validators would have in the workspace."""
    try:
        choice = choose(patient.goal, patient.folder.resolve(), goal_home(environ).resolve())
    except GoalError as error:
        return Check("checks", "bad", error.message, error.hint)
    return Check("checks", "good", f"{choice.kind} ({choice.why})" if choice.why else choice.kind)


def _of_agent(patient: Patient, environ: Mapping[str, str], box: Box | None) -> Sequence[Check]:
    agent, preset = patient.agent, patient.preset
    if agent.use == CHAT:
        return [model_check(agent)]
    if agent.use in (COMMAND, ACP):
        preset = Preset.model_validate({"argv" if agent.use == COMMAND else "acp": agent.command})
    box = replace(box, paths=preset.home) if box else None
    added = {**preset.env, **(preset.jailed_env if box else {}), **agent.env}
    surrounding = box.environ if box else environ
    environ = {**surrounding, **added}
    ways = ways_of(preset, environ, patient.folder)
    protocol = protocol_of(agent, preset)
    way = next(way for way in ways if way.by == protocol)
    checks = [_program(way, preset, box)]
    starts = checks[0].state == "good"
    if starts and preset.version:
        checks.append(_version(agent.use, preset, environ, box))
    if agent.use not in (COMMAND, ACP):
        checks.append(sign_in_check(preset, environ, box, configured=bool(agent.args or agent.env)))
    checks += [_other(other) for other in ways if other is not way]
    subject = Subject(agent.use, preset, added, protocol, patient.folder)
    return [*checks, trial_check(subject, surrounding, box)] if starts else checks


def _program(way: Way, preset: Preset, box: Box | None) -> Check:
    if way.is_there and box is not None and way.path and not box.sees(way.path):
        return Check("program", "bad", f"{way.path} is not seen in the sandbox", HIDDEN_HINT)
    if way.is_there:
        return Check("program", "good", way.path)
    place = "does not exist, or cannot be run" if "/" in way.program else "is not on PATH"
    install = preset.installing("acp" if way.by == "acp" else "command")
    own = f"put a program there that can be run (chmod +x {way.program}), or name another in [agent] command"
    usual = own if "/" in way.program else f"install {way.program}, or name its whole path"
    return Check("program", "bad", f"{way.program} {place}", install or usual)


def _version(name: str, preset: Preset, environ: Mapping[str, str], box: Box | None) -> Check:
    version = asyncio.run(versions({name: preset}, environ, box.launcher if box else None))[name]
    if version:
        return Check("version", "good", version)
    where = " in the sandbox" if box else ""
    return Check("version", "note", f"{' '.join(preset.version)} said none{where}")


def _other(way: Way) -> Check:
    name = "ACP" if way.by == "acp" else "command"
    said = f'{way.path}: protocol = "{way.by}" drives it so' if way.is_there else f"{way.program} is not on PATH"
    return Check(name, "note", said)


def _git(patient: Patient, environ: Mapping[str, str]) -> Check:
    try:
        return Check("git", "good", git_program(patient.folder, environ))
    except WorkspaceError as error:
        return Check("git", "bad", error.message, error.hint)
