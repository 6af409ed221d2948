"""`goal doctor` and `goal check`: whether an agent can be used, whether a run of a goal could start, and its baseline."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.agents.external_agents import ACP, COMMAND
from goalrunner.app.agents import Check, find_program, model_check, sign_in_check, versions, ways_of
from goalrunner.app.build import check
from goalrunner.app.external_agent import check_installed, resolve_agent
from goalrunner.app.preflight import choose_environment, describe_checks, needs_environment
from goalrunner.app.run_options import Callback, RunOptions, only_checks
from goalrunner.app.sandbox import Sandbox, choose_sandbox, workspace_of
from goalrunner.app.session import arun
from goalrunner.core.errors import AgentNotInstalled, ExitCode, GoalError, UsageError, ValidatorMissing
from goalrunner.core.events import BaselineTaken, Event
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import (
    AGENT_MODEL,
    ValidatorSpec,
    WorkspaceConfig,
)
from goalrunner.core.outcome import GoalStatus, Usage
from goalrunner.engine.turns import ONLY_CHECKS, NoAgent
from goalrunner.records.run_folder import goal_home
from goalrunner.snapshots.git import git_program
from goalrunner.system.sandbox import choose

_FILE, _TEXT = "goal-doctor.txt", "it works"
_OUTDATED = "this version of the agent may have another output format: check its preset, or report this"
_IN_SANDBOX = 'see what the sandbox hides (home = [...] of the preset, folders in PATH), or write sandbox = "none"'


def try_round(goal: Goal, environ: dict[str, str]) -> tuple[Check, Usage]:
    """Let the goal's agent create a file in a temporary folder, which is kept if that fails; return the usage as well."""
    folder = Path(tempfile.mkdtemp(prefix="goal-doctor-")).resolve()
    workspace = folder / "workspace"
    workspace.mkdir()
    config, own = goal.workspace, goal.agent
    program, path = find_program(own.command, environ, Path(config.path or ".").resolve())
    if own.command and "/" in program and path:  # it lies in the goal's own workspace
        own = own.model_copy(update={"command": (own.command[0].replace(program, path, 1), *own.command[1:])})
    trial = Goal(
        objective=f"Create the file {_FILE} with the text: {_TEXT}",
        validators=(ValidatorSpec(name="file", run=f'test "$(cat {_FILE})" = "{_TEXT}"'),),
        agent=own,
        agents=goal.agents,
        workspace=WorkspaceConfig(path=str(workspace), sandbox=config.sandbox, network=config.network),
        max_iterations=1,
        timeout=300.0,
    )
    try:
        agent = resolve_agent(goal, environ)
        outcome = asyncio.run(arun(trial, RunOptions(environ=environ, home=folder / "home")))
    except GoalError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return Check("round", "bad", f"the round could not be tried: {error.message}", error.hint), Usage()
    used = sum(outcome.usage.values(), Usage())
    if outcome.status is not GoalStatus.COMPLETE:
        hints = [line for line in outcome.message.splitlines() if not line.startswith("goal resume")]
        hints += [_IN_SANDBOX] if config.sandbox != "none" else []
        hint = "\n".join([*hints, f"goal show {outcome.run_path}"])
        return Check("round", "bad", "the agent did not create the file", hint), used
    shutil.rmtree(folder, ignore_errors=True)
    if agent and "tokens" in agent.preset.reports_by(agent.protocol) and not used.tokens:
        return Check("round", "bad", "the file was created, but the agent reported no tokens", _OUTDATED), used
    return Check("round", "good", f"the agent created a file in {outcome.duration:.1f} s"), used


@dataclass(frozen=True)
class Diagnosis:
    """The checks of one agent, and what a real round has used."""

    agent: str
    checks: tuple[Check, ...]
    used: Usage | None = None

    @property
    def usable(self) -> bool:
        """Whether no check failed."""
        return all(item.state != "bad" for item in self.checks)


def examine(goal: Goal, environ: Mapping[str, str], *, with_round: bool = False) -> Diagnosis:
    """Check the goal's agent, in the sandbox of the goal. `with_round`: run a real round if all else is good."""
    folder = Path(goal.workspace.path or Path.cwd())
    sandboxed, sandbox = sandbox_check(goal, environ)
    git = _found("git", lambda: git_program(folder, environ))
    kind = _found("checks", lambda: str(choose_environment(goal, folder.resolve(), goal_home(environ).resolve())))
    checks, used = [*_agent_checks(goal, folder, environ, sandbox), git, sandboxed, kind], None
    if with_round and all(item.state != "bad" for item in checks):
        tried, used = try_round(goal, dict(environ))
        checks.append(tried)
    return Diagnosis(goal.agent.use, tuple(checks), used)


def _found(name: str, find: Callable[[], str]) -> Check:
    try:
        return Check(name, "good", find())
    except GoalError as error:
        return Check(name, "bad", error.message, error.hint)


def _agent_checks(goal: Goal, folder: Path, environ: Mapping[str, str], sandbox: Sandbox | None) -> list[Check]:
    agent, config = resolve_agent(goal, environ), goal.agent
    if agent is None:
        return [model_check(config)]
    preset = agent.preset
    policy = sandbox.agent_policy(goal_home(environ), preset.home) if sandbox else None
    added = {**preset.env, **(preset.sandbox_env if sandbox else {}), **config.env}
    environ = {**(sandbox.environ if sandbox else environ), **added}
    ways = ways_of(preset, environ, folder)
    way = next(way for way in ways if way.by == agent.protocol)
    try:
        check_installed(agent, folder, environ, policy)
        checks = [Check("program", "good", way.path)]
    except AgentNotInstalled as error:
        checks = [Check("program", "bad", error.message, error.hint)]
    if checks[0].state == "good" and preset.version:
        version = asyncio.run(versions({agent.name: preset}, environ))[agent.name]
        unknown = f"{' '.join(preset.version)} printed no version"
        checks.append(Check("version", "good" if version else "note", version or unknown))
    if agent.name not in (COMMAND, ACP):
        checks.append(sign_in_check(preset, environ, policy, configured=bool(config.args or config.env)))
    for other in ways:
        if other is not way:
            found = f'{other.path}; use it with protocol = "{other.by}"'
            message = found if other.is_installed else f"{other.program} is not on PATH"
            checks.append(Check("ACP" if other.by == "acp" else "command", "note", message))
    return checks


def sandbox_check(goal: Goal, environ: Mapping[str, str]) -> tuple[Check, Sandbox | None]:
    """Check the sandbox by running a program in it; return it if the goal's commands will run in it."""
    folder = workspace_of(goal)
    if goal.workspace.sandbox == "none" and goal.workspace.network:
        choice = choose(environ, (folder,))
        if choice.sandbox is not None:
            works = f"{choice.sandbox.name} works here; a goal with [workspace] sandbox uses it"
            return Check("sandbox", "good", works), None
        why = f"{choice.why}; only a goal with [workspace] sandbox needs it"
        return Check("sandbox", "note", why, choice.remedy), None
    try:
        sandbox = choose_sandbox(goal, goal_home(environ), environ)
    except GoalError as error:
        return Check("sandbox", "bad", error.message, error.hint), None
    choice = sandbox.choice
    if choice.sandbox is None:
        return Check("sandbox", "note", f"{choice.why}; the goal runs without a sandbox", choice.remedy), None
    who = ", and the agent runs in it" if goal.agent.external else ""
    return Check("sandbox", "good", f"{choice.sandbox.name} works here{who}"), sandbox


@dataclass(frozen=True)
class Baseline:
    """The results before any work, why a run would end there (`problem`), and the exit code if a signal ended it."""

    event: BaselineTaken | None = None
    problem: str = ""
    interrupted: int = 0

    @property
    def is_green(self) -> bool:
        """Whether every validator passes before any work is done."""
        return self.event is not None and self.event.standing == "green"


def take_baseline(goal: Goal, options: RunOptions) -> Baseline:
    """Run the validators once as `goal run` does before round 1, without agent and judge, and keep no run."""
    seen: list[Event] = []
    own = replace(
        options, observers=(Callback(seen.append),), conversation=NoAgent(), needs_round=True, keeps_run=False
    )
    try:
        outcome = asyncio.run(arun(only_checks(goal), own))
    except GoalError as error:
        return Baseline(problem=str(error))
    problem = "" if outcome.message.startswith(ONLY_CHECKS) else outcome.message
    event = next((event for event in reversed(seen) if isinstance(event, BaselineTaken)), None)
    return Baseline(event, problem, outcome.exit_code if outcome.status is GoalStatus.CANCELLED else 0)


@dataclass(frozen=True)
class Readiness:
    """The checks of a goal, lines about its checks, the baseline, and the exit code if a run cannot start."""

    checks: tuple[Check, ...]
    lines: tuple[tuple[str, str], ...] = ()
    baseline: Baseline | None = None
    exit_code: int = int(ExitCode.FAILED)
    can_check: bool = False  # whether there are commands that run before round 1, and none of them is missing

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems that keep a run from starting."""
        failed = self.baseline.problem if self.baseline else ""
        return tuple(filter(None, (*(item.message for item in self.checks if item.state == "bad"), failed)))

    def with_baseline(self, baseline: Baseline) -> Readiness:
        """Return this with a baseline, unless a problem that a check names already kept it from running."""
        is_known = baseline.event is None and any(baseline.problem.startswith(text) for text in self.problems)
        return self if is_known else replace(self, baseline=baseline)


def _add(checks: list[Check], new: Check) -> None:
    """Add a check, unless another one names the same problem: two models with one missing key, for example."""
    if new.state != "bad" or not any(one.state == "bad" and new.message in one.message for one in checks):
        checks.append(new)


def check_readiness(goal: Goal, options: RunOptions) -> Readiness:
    """Return whether a run of the goal could start, without the baseline. No model is called."""
    checks = list(examine(goal, options.environ).checks)
    for account, table in goal.model_tables.items():
        if account != "agent" and table.model not in ("", AGENT_MODEL):
            _add(checks, model_check(table, account))
    lines: tuple[tuple[str, str], ...] = ()
    code = int(ExitCode.FAILED)
    can_check = needs_environment(goal) and any(spec.run and not spec.hidden for spec in goal.validators)
    try:
        lines = check(goal, options)[1]
    except GoalError as error:
        code = int(error.exit_code)
        if isinstance(error, UsageError) or all(item.state != "bad" for item in checks):
            is_missing = isinstance(error, ValidatorMissing)
            can_check = can_check and not is_missing
            name = "validator" if is_missing else "start"
            _add(checks, Check(name, "bad", error.message, error.hint))
        workspace = workspace_of(goal)
        with contextlib.suppress(GoalError):
            choice = choose_environment(goal, workspace, options.home)
            lines = tuple(describe_checks(goal, choice, workspace, options.environ, options.goal_file))
    return Readiness(tuple(checks), lines, exit_code=code, can_check=can_check)
