"""Examining an agent and a goal before a run, as `goal agents` and `goal check` do."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.agents.facts import find_program, versions, ways_of
from goalrunner.agents.program_files import program_path
from goalrunner.app.agent_findings import Finding
from goalrunner.app.external_agent import ResolvedAgent
from goalrunner.app.readiness import PROGRAM, WARNING, described, readiness
from goalrunner.app.resolve import RunConfig, resolve, resolve_new
from goalrunner.app.run_options import Callback, RunOptions, only_checks
from goalrunner.app.session import arun
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import ExitCode, GoalError, ValidatorMissing
from goalrunner.core.events import BaselineTaken, Event
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.core.outcome import GoalOutcome, GoalStatus, Usage
from goalrunner.engine.conversations import ONLY_CHECKS, NoAgent
from goalrunner.records.run_folder import goal_home
from goalrunner.system.bubblewrap import choose

# A line of pytest's summary: "FAILED tests/test_a.py::test_b - AssertionError".
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
_FILE, _TEXT = "goal-doctor.txt", "it works"
_OUTDATED = (
    "this version of the agent may have another output format: check its preset, or "
    "report this"
)
_IN_SANDBOX = (
    "see what the sandbox hides (home = [...] of the preset, folders in PATH), or "
    'write sandbox = "none"'
)


@dataclass(frozen=True)
class Diagnosis:
    """The findings about one agent, and what a real round has used."""

    agent: str
    checks: tuple[Finding, ...]
    used: Usage | None = None

    @property
    def usable(self) -> bool:
        """Whether nothing is bad."""
        return all(item.state != "bad" for item in self.checks)


def examine(
    goal: Goal, environ: Mapping[str, str], *, with_round: bool = False
) -> Diagnosis:
    """Examine the goal's agent, in the sandbox of the goal.

    `with_round`: run a real round if nothing is bad.
    """
    options = RunOptions(environ=environ, home=goal_home(environ).resolve())
    config = resolve(_trial(goal, goal.workspace, goal.agent), options)
    # Warnings are about the goal, which is only made up for the trial.
    findings = [finding for finding in readiness(config) if finding.name != WARNING]
    findings += more_findings(config, findings)
    if config.goal.workspace.sandbox == "none" and "sandbox" not in config.problems:
        findings.append(sandbox_finding(config.workspace, config.options.environ))
    if not with_round or any(finding.state == "bad" for finding in findings):
        return Diagnosis(goal.agent.use, tuple(findings))
    used = Usage()
    # None stands for the built-in agent.
    for agent in config.agents or (None,):
        finding, usage = _try_round(goal, agent, dict(environ))
        findings.append(finding)
        used += usage
    return Diagnosis(goal.agent.use, tuple(findings), used)


def _trial(goal: Goal, workspace: WorkspaceConfig, agent: AgentConfig) -> Goal:
    """Return the goal of a round that only shows whether the agent works."""
    return Goal(
        objective=f"Create the file {_FILE} with the text: {_TEXT}",
        validators=(
            ValidatorSpec(name="file", run=f'test "$(cat {_FILE})" = "{_TEXT}"'),
        ),
        agent=agent,
        agents=goal.agents,
        workspace=workspace,
        max_iterations=1,
        timeout=300.0,
    )


def _try_round(
    goal: Goal, agent: ResolvedAgent | None, environ: dict[str, str]
) -> tuple[Finding, Usage]:
    """Let the agent create a file in a temporary folder; return its usage as well.

    The folder is kept if that fails.
    """
    folder = Path(tempfile.mkdtemp(prefix="goal-doctor-")).resolve()
    workspace = folder / "workspace"
    workspace.mkdir()
    temporary = WorkspaceConfig(
        path=str(workspace),
        sandbox=goal.workspace.sandbox,
        network=goal.workspace.network,
    )
    config = agent.goal.agent if agent else goal.agent
    trial = _trial(goal, temporary, _with_absolute_program(config, goal, environ))
    try:
        outcome = asyncio.run(
            arun(trial, RunOptions(environ=environ, home=folder / "home"))
        )
    except GoalError as error:
        shutil.rmtree(folder, ignore_errors=True)
        message = f"the round could not be tried: {error.message}"
        return Finding("round", "bad", message, error.hint), Usage()
    # Judge and critic have none, so this is the agent's.
    used = sum(outcome.usage.values(), Usage())
    if outcome.status is not GoalStatus.COMPLETE:
        return _failed_round(outcome, sandbox=goal.workspace.sandbox), used
    shutil.rmtree(folder, ignore_errors=True)
    # An agent that should report tokens, and does not, has another output format.
    reports_tokens = agent and "tokens" in agent.preset.reports_by(agent.protocol)
    if reports_tokens and not used.tokens:
        message = "the file was created, but the agent reported no tokens"
        return Finding("round", "bad", message, _OUTDATED), used
    message = f"the agent created a file in {outcome.duration:.1f} s"
    return Finding("round", "good", message), used


def _with_absolute_program(
    config: AgentConfig, goal: Goal, environ: Mapping[str, str]
) -> AgentConfig:
    """Return the agent with the whole path of a program in the goal's workspace.

    The trial has another workspace, in which a relative path leads nowhere.
    """
    folder = Path(goal.workspace.path or ".").resolve()
    program, path = find_program(config.command, environ, folder)
    if not (config.command and "/" in program and path):
        return config
    command = (config.command[0].replace(program, path, 1), *config.command[1:])
    return config.model_copy(update={"command": command})


def _failed_round(outcome: GoalOutcome, *, sandbox: str) -> Finding:
    hints = outcome.message.splitlines()
    # A trial is not resumed.
    hints = [line for line in hints if not line.startswith("goal resume")]
    if sandbox != "none":
        hints.append(_IN_SANDBOX)
    hints.append(f"goal show {outcome.run_path}")
    message = "the agent did not create the file"
    return Finding("round", "bad", message, "\n".join(hints))


def more_findings(config: RunConfig, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what is good to know, but not needed.

    This is the version of each agent, and other ways to drive it.
    """
    good = [finding.name for finding in findings if finding.state == "good"]
    for agent in config.usable_agents:
        environ = agent.environment(config.sandbox.environ)
        if agent.preset.version and config.finding_name(PROGRAM, agent) in good:
            yield _version_finding(config, agent, environ)
        for way in ways_of(agent.preset, environ, config.workspace):
            # This way has a finding already.
            if way.by == agent.protocol:
                continue
            message = f"{way.program} is not on PATH"
            if way.is_installed:
                message = f'{way.path}; use it with protocol = "{way.by}"'
            protocol = "ACP" if way.by == "acp" else "command"
            yield Finding(config.finding_name(protocol, agent), "note", message)
        if not config.goal.has_judge and agent.preset.judge.argv:
            yield judge_finding(agent.name, agent.preset, config)


def _version_finding(
    config: RunConfig, agent: ResolvedAgent, environ: Mapping[str, str]
) -> Finding:
    name = config.finding_name("version", agent)
    printed = asyncio.run(versions({agent.name: agent.preset}, environ))[agent.name]
    if printed:
        return Finding(name, "good", printed)
    command = " ".join(agent.preset.version)
    return Finding(name, "note", f"{command} printed no version")


def judge_finding(name: str, preset: Preset, config: RunConfig) -> Finding:
    """Return where the program is with which an agent can be a judge."""
    path = program_path(preset, config.options.environ, [config.workspace])
    if not path:
        return Finding("judge", "note", f"{preset.judge.argv[0]} is not on PATH")
    tools = "; it keeps some tools" if preset.judge.tools else ""
    return Finding("judge", "note", f'{path}; use it with judge = "{name}"{tools}')


def sandbox_finding(workspace: Path, environ: Mapping[str, str]) -> Finding:
    """Return whether a sandbox works on this machine, for a goal that asks for none."""
    choice = choose(environ, (workspace,))
    if choice.sandbox is not None:
        works = (
            f"{choice.sandbox.name} works here; a goal with [workspace] sandbox uses it"
        )
        return Finding("sandbox", "good", works)
    why = f"{choice.why}; only a goal with [workspace] sandbox needs it"
    return Finding("sandbox", "note", why, choice.remedy)


@dataclass(frozen=True)
class BaselineResult:
    """The results before any work.

    `problem` is why a run would end there; `interrupted` is the exit code if a signal
    ended it.
    """

    event: BaselineTaken | None = None
    problem: str = ""
    interrupted: int = 0

    @property
    def is_green(self) -> bool:
        """Whether every validator passes before any work is done."""
        return self.event is not None and self.event.standing == "green"

    @property
    def failing(self) -> tuple[str, ...]:
        """The tests of pytest that fail, as far as the end of its output names them."""
        results = self.event.results if self.event is not None else ()
        names: list[str] = []
        for result in results:
            names += _FAILED.findall(result.feedback)
        return tuple(names)


def take_baseline(goal: Goal, options: RunOptions) -> BaselineResult:
    """Run the validators once as `goal run` does before round 1.

    No agent works, no judge is asked, and no run is kept.
    """
    baselines: list[BaselineTaken] = []

    def on_event(event: Event) -> None:
        if isinstance(event, BaselineTaken):
            baselines.append(event)

    only_baseline = replace(
        options,
        observers=(*options.observers, Callback(on_event)),
        # It fails if the run would go on to a round.
        conversation=NoAgent(),
        needs_round=True,
        keeps_run=False,
    )
    try:
        outcome = asyncio.run(arun(only_checks(goal), only_baseline))
    except GoalError as error:
        return BaselineResult(problem=str(error))
    # No run is kept that could be resumed.
    message = outcome.message.replace(f"goal resume {outcome.run_id}", "goal check")
    return BaselineResult(
        baselines[-1] if baselines else None,
        problem="" if message.startswith(ONLY_CHECKS) else message,
        interrupted=outcome.exit_code if outcome.status is GoalStatus.CANCELLED else 0,
    )


@dataclass(frozen=True)
class Readiness:
    """Whether a run of a goal can start: findings, the baseline, and an exit code.

    `lines` are about its checks, a label and a text each.
    """

    findings: tuple[Finding, ...]
    lines: tuple[tuple[str, str], ...] = ()
    baseline: BaselineResult | None = None
    # Used if a run cannot start.
    exit_code: int = int(ExitCode.FAILED)
    # Whether there are commands that run before round 1, and none of them is missing.
    can_check: bool = False

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems that keep a run from starting."""
        messages = [item.message for item in self.findings if item.state == "bad"]
        if self.baseline is not None:
            messages.append(self.baseline.problem)
        return tuple(filter(None, messages))

    def with_baseline(self, baseline: BaselineResult) -> Readiness:
        """Return this with a baseline.

        One that a reported problem kept from running is left out.
        """
        # Its error may have a hint after the message, so the beginning is compared.
        if baseline.event is None and baseline.problem.startswith(self.problems):
            return self
        return replace(self, baseline=baseline)


def check_readiness(goal: Goal, options: RunOptions) -> Readiness:
    """Return whether a run of the goal could start, without the baseline.

    No model is called. Raise UsageError.
    """
    config = resolve_new(goal, options)
    findings = readiness(config)
    errors = [finding.error for finding in findings if finding.error is not None]
    # Hidden validators and callables have no baseline.
    has_baseline = any(spec.run and not spec.hidden for spec in config.goal.validators)
    is_missing = any(isinstance(error, ValidatorMissing) for error in errors)
    not_warnings = [finding for finding in findings if finding.name != WARNING]
    return Readiness(
        (*not_warnings, *more_findings(config, findings)),
        described(config, findings),
        exit_code=int(errors[0].exit_code if errors else ExitCode.FAILED),
        can_check=config.check is not None and has_baseline and not is_missing,
    )


def dry_run(goal: Goal, options: RunOptions) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Check a goal as a run does before its baseline.

    Raise the first GoalError that would keep it from starting.

    Return name and command of an external agent (empty for the built-in one), and lines
    about the checks: label and text.
    """
    config = resolve_new(goal, options)
    findings = readiness(config)
    for finding in findings:
        if finding.error is not None:
            raise finding.error
    return config.agent_command, described(config, findings)
