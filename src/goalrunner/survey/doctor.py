"""Whether one agent can be used on this machine. Owns which things are looked at, and which of them stand in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.errors import WorkspaceError
from goalrunner.model.goal import CHAT, AgentConfig, WorkspaceConfig
from goalrunner.model.preset import Preset
from goalrunner.presets import ACP, COMMAND, protocol_of
from goalrunner.survey.agents import Way, ways_of
from goalrunner.survey.check import Check
from goalrunner.survey.sandbox import sandbox_check
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

    @property
    def folder(self) -> Path:
        """The workspace."""
        return Path(self.workspace.path or Path.cwd())


def examine(patient: Patient, environ: Mapping[str, str]) -> Diagnosis:
    """Look at everything, the program by a round against a scripted server where it can be pointed at one."""
    checks = [_git(patient, environ), sandbox_check(patient.workspace, patient.folder, environ)]
    checks = [*_of_agent(patient, environ), *checks]
    return Diagnosis(patient.agent.use, tuple(checks))


def _of_agent(patient: Patient, environ: Mapping[str, str]) -> Sequence[Check]:
    agent, preset = patient.agent, patient.preset
    if agent.use == CHAT:
        return [model_check(agent)]
    if agent.use in (COMMAND, ACP):
        preset = Preset.model_validate({"argv" if agent.use == COMMAND else "acp": agent.command})
    added = {**preset.env, **agent.env}
    surrounding, environ = environ, {**environ, **added}
    ways = ways_of(preset, environ, patient.folder)
    protocol = protocol_of(agent, preset)
    way = next(way for way in ways if way.by == protocol)
    checks = [_program(way, preset)]
    if way.is_there and preset.version:
        checks.append(_version(agent.use, preset, environ))
    if agent.use not in (COMMAND, ACP):
        checks.append(sign_in_check(preset, environ))
    checks += [_other(other) for other in ways if other is not way]
    return [*checks, trial_check(Subject(agent.use, preset, added, protocol), surrounding)] if way.is_there else checks


def _program(way: Way, preset: Preset) -> Check:
    if way.is_there:
        return Check("program", "good", way.path)
    place = "does not exist, or cannot be run" if "/" in way.program else "is not on PATH"
    install = preset.installing("acp" if way.by == "acp" else "command")
    return Check("program", "bad", f"{way.program} {place}", install or f"install {way.program}")


def _version(name: str, preset: Preset, environ: Mapping[str, str]) -> Check:
    version = asyncio.run(versions({name: preset}, environ))[name]
    if version:
        return Check("version", "good", version)
    return Check("version", "note", f"{' '.join(preset.version)} said none")


def _other(way: Way) -> Check:
    name = "ACP" if way.by == "acp" else "command"
    said = f'{way.path}: protocol = "{way.by}" drives it so' if way.is_there else f"{way.program} is not on PATH"
    return Check(name, "note", said)


def _git(patient: Patient, environ: Mapping[str, str]) -> Check:
    try:
        return Check("git", "good", git_program(patient.folder, environ))
    except WorkspaceError as error:
        return Check("git", "bad", error.message, error.hint)
