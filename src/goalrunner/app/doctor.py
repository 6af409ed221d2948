"""Whether an agent can be used on this machine: program, version, login, sandbox."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from goalrunner.agents.failure import HIDDEN_HINT
from goalrunner.app.agents import Way, versions, ways_of
from goalrunner.app.check_environment import choose
from goalrunner.app.sandbox_check import Box, Check, sandbox_check
from goalrunner.app.trial import Subject, trial_check
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import GoalError, WorkspaceError
from goalrunner.core.goal import CHAT, AgentConfig, Goal, WorkspaceConfig
from goalrunner.llm import LLM
from goalrunner.presets import ACP, COMMAND, protocol_of
from goalrunner.records.run_folder import goal_home
from goalrunner.snapshots.git import git_program

_NAME = "sign-in"


def sign_in_check(
    preset: Preset, environ: Mapping[str, str], box: Box | None = None, *, configured: bool = False
) -> Check:
    """The key or the login of an external agent. Whether they are right, only its provider can say.

    A login must be in view where the agent will be: in `box`. `configured`: the goal adds words or variables to it, with
    which it may ask somebody else and sign in there.
    """
    for name in preset.keys:
        if environ.get(name, "").strip():
            return Check(_NAME, "good", f"{name} is set")
    home = environ.get("HOME", "")
    for path in preset.login:
        if home and Path(home, path).exists():
            if box is not None and not box.sees(str(Path(home, path))):
                hidden = f"~/{path} is there, and not seen in the sandbox"
                return Check(_NAME, "bad", hidden, f'add it to home = ["{path}"] of its preset')
            return Check(_NAME, "good", f"~/{path} is there")
    if not (preset.keys or preset.login):
        return Check(_NAME, "note", "its preset names neither a key nor a login")
    missing = _either(preset)
    if sys.platform == "darwin" and preset.login:
        return Check(_NAME, "note", f"{missing}; its login may be in the keychain", preset.sign_in)
    if configured:
        return Check(_NAME, "note", f"{missing}; what [agent] adds may sign it in", preset.sign_in)
    return Check(_NAME, "bad", missing, preset.sign_in or _exports(preset))


def model_check(agent: AgentConfig) -> Check:
    """The model of the built-in agent, and its key as far as it is known without asking. Imports LiteLLM."""
    if not agent.model:
        return Check("model", "bad", "no model is named", "export GOAL_MODEL=provider/name, or give --goal FILE")
    try:
        llm = LLM(agent.model, api_base=agent.api_base, api_key_env=agent.api_key_env, params=agent.params)
        llm.check()
        asyncio.run(llm.foresee())
    except GoalError as error:
        return Check("model", "bad", f"{agent.model}: {error.message}", error.hint)
    return Check("model", "good", f"{agent.model} can be asked, as far as is known without asking")


def _either(preset: Preset) -> str:
    keys = f"none of {', '.join(preset.keys)} is set" if len(preset.keys) > 1 else ""
    keys = keys or (f"{preset.keys[0]} is not set" if preset.keys else "")
    files = " or ".join(f"~/{path}" for path in preset.login)
    return ", and ".join(part for part in (keys, f"there is no {files}" if files else "") if part)


def _exports(preset: Preset) -> str:
    return f"export {preset.keys[0]}=..." if preset.keys else "sign in with the agent itself"


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
