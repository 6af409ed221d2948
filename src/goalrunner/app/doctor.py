"""Checks whether an agent can be used on this machine: program, version, login or key, git, sandbox."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.agents.failure import HIDDEN_HINT
from goalrunner.agents.registry import ACP, COMMAND, protocol_of
from goalrunner.app.agents import Way, versions, ways_of
from goalrunner.app.check_environment import choose_environment
from goalrunner.app.sandbox_check import Check, SandboxProbe, sandbox_check
from goalrunner.app.trial import try_round
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import GoalError, WorkspaceError
from goalrunner.core.goal import CHAT, AgentConfig, Goal
from goalrunner.core.outcome import Usage
from goalrunner.goalfile import preset_named
from goalrunner.llm import LLM
from goalrunner.records.run_folder import goal_home
from goalrunner.snapshots.git import git_program

_SIGN_IN = "sign-in"


@dataclass(frozen=True)
class Diagnosis:
    """The checks of one agent, and what a real round has used."""

    agent: str
    checks: tuple[Check, ...]
    used: Usage | None = None

    @property
    def usable(self) -> bool:
        """Whether no check failed."""
        return all(check.state != "bad" for check in self.checks)


def examine(goal: Goal, environ: Mapping[str, str], *, with_round: bool = False) -> Diagnosis:
    """Check the goal's agent, in the sandbox of the goal. `with_round`: run a real round if all else is good."""
    folder = Path(goal.workspace.path or Path.cwd())
    sandbox, probe = sandbox_check(goal, environ)
    checks = [*_agent_checks(goal, folder, environ, probe), _git(folder, environ), sandbox]
    found = Diagnosis(goal.agent.use, (*checks, _check_environment(goal, folder, environ)))
    if not (with_round and found.usable):
        return found
    check, used = try_round(goal, dict(environ))
    return replace(found, checks=(*found.checks, check), used=used)


def _agent_checks(goal: Goal, folder: Path, environ: Mapping[str, str], probe: SandboxProbe | None) -> Sequence[Check]:
    agent = goal.agent
    if agent.use == CHAT:
        return [_model(agent)]
    own_command = agent.use in (COMMAND, ACP)
    preset = preset_named(agent.use, goal.agents, environ)
    if own_command:
        preset = Preset.model_validate({"argv" if agent.use == COMMAND else "acp": agent.command})
    probe = replace(probe, paths=preset.home) if probe else None
    added = {**preset.env, **(preset.jailed_env if probe else {}), **agent.env}
    environ = {**(probe.sandbox.environ if probe else environ), **added}
    ways = ways_of(preset, environ, folder)
    protocol = protocol_of(agent, preset)
    way = next(way for way in ways if way.by == protocol)
    checks = [_program(way, preset, probe)]
    if checks[0].state == "good" and preset.version:
        checks.append(_version(agent.use, preset, environ, probe))
    if not own_command:
        checks.append(sign_in_check(preset, environ, probe, configured=bool(agent.args or agent.env)))
    return [*checks, *(_other(other) for other in ways if other is not way)]


def _model(agent: AgentConfig) -> Check:
    """Check the model of the built-in agent and its key without calling the model. Imports LiteLLM."""
    if not agent.model:
        return Check("model", "bad", "no model is set", "export GOAL_MODEL=provider/name, or give --goal FILE")
    try:
        llm = LLM(agent.model, api_base=agent.api_base, api_key_env=agent.api_key_env, params=agent.params)
        llm.check()
        warned = asyncio.run(llm.foresee())
    except GoalError as error:
        message = error.message if agent.model in error.message else f"{agent.model}: {error.message}"
        return Check("model", "bad", message, error.hint)
    if warned:
        return Check("model", "note", warned)
    return Check("model", "good", f"{agent.model} can be used, as far as is known without calling it")


def _program(way: Way, preset: Preset, probe: SandboxProbe | None) -> Check:
    if way.is_there and probe is not None and way.path and not probe.sees(way.path):
        return Check("program", "bad", f"{way.path} is not visible in the sandbox", HIDDEN_HINT)
    if way.is_there:
        return Check("program", "good", way.path)
    install = preset.installing("acp" if way.by == "acp" else "command")
    if "/" in way.program:
        hint = f"create it (chmod +x {way.program}), or name another program in [agent] command"
        return Check("program", "bad", f"{way.program} does not exist or is not executable", install or hint)
    hint = f"install {way.program}, or give its full path"
    return Check("program", "bad", f"{way.program} is not on PATH", install or hint)


def _version(name: str, preset: Preset, environ: Mapping[str, str], probe: SandboxProbe | None) -> Check:
    version = asyncio.run(versions({name: preset}, environ, probe.launcher if probe else None))[name]
    if version:
        return Check("version", "good", version)
    where = " in the sandbox" if probe else ""
    return Check("version", "note", f"{' '.join(preset.version)} printed no version{where}")


def sign_in_check(
    preset: Preset, environ: Mapping[str, str], probe: SandboxProbe | None = None, *, configured: bool = False
) -> Check:
    """Check that an external agent has a key or a login; only a real round shows whether it is valid.

    In a sandbox, a login must be visible there. `configured`: the goal gives the agent arguments or variables, which may
    select another provider.
    """
    for name in preset.keys:
        if environ.get(name, "").strip():
            return Check(_SIGN_IN, "good", f"{name} is set")
    home = environ.get("HOME", "")
    for path in preset.login:
        if home and Path(home, path).exists():
            if probe is not None and not probe.sees(str(Path(home, path))):
                hint = f'add it to home = ["{path}"] of the preset'
                return Check(_SIGN_IN, "bad", f"~/{path} exists, but is not visible in the sandbox", hint)
            return Check(_SIGN_IN, "good", f"~/{path} exists")
    if not (preset.keys or preset.login):
        return Check(_SIGN_IN, "note", "the preset names neither keys nor login files")
    missing = _missing_login(preset)
    if sys.platform == "darwin" and preset.login:
        return Check(_SIGN_IN, "note", f"{missing}; the login may be in the keychain", preset.sign_in)
    if configured:
        return Check(_SIGN_IN, "note", f"{missing}; the args or env of [agent] may sign it in", preset.sign_in)
    export = f"export {preset.keys[0]}=..." if preset.keys else "sign in with the agent itself"
    return Check(_SIGN_IN, "bad", missing, preset.sign_in or export)


def _missing_login(preset: Preset) -> str:
    keys = f"none of {', '.join(preset.keys)} is set" if len(preset.keys) > 1 else ""
    keys = keys or (f"{preset.keys[0]} is not set" if preset.keys else "")
    files = " or ".join(f"~/{path}" for path in preset.login)
    return ", and ".join(part for part in (keys, f"there is no {files}" if files else "") if part)


def _other(way: Way) -> Check:
    name = "ACP" if way.by == "acp" else "command"
    if way.is_there:
        return Check(name, "note", f'{way.path}; use it with protocol = "{way.by}"')
    return Check(name, "note", f"{way.program} is not on PATH")


def _git(folder: Path, environ: Mapping[str, str]) -> Check:
    try:
        return Check("git", "good", git_program(folder, environ))
    except WorkspaceError as error:
        return Check("git", "bad", error.message, error.hint)


def _check_environment(goal: Goal, folder: Path, environ: Mapping[str, str]) -> Check:
    """Return which check environment validators would have in the workspace."""
    try:
        choice = choose_environment(goal, folder.resolve(), goal_home(environ).resolve())
    except GoalError as error:
        return Check("checks", "bad", error.message, error.hint)
    return Check("checks", "good", f"{choice.kind} ({choice.why})" if choice.why else choice.kind)
