"""`goal agents AGENT` and `goal check`: whether an agent can be used, whether a run of
a goal could start, and its baseline.
"""

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
from goalrunner.app.external_agent import Finding, ResolvedAgent
from goalrunner.app.readiness import PROGRAM, WARNING, described, readiness
from goalrunner.app.resolve import RunConfig, resolve, resolve_new
from goalrunner.app.run_options import Callback, RunOptions, only_checks
from goalrunner.app.session import arun
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import ExitCode, GoalError, ValidatorMissing
from goalrunner.core.events import BaselineTaken, Event
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.core.outcome import GoalStatus, Usage
from goalrunner.engine.conversations import ONLY_CHECKS, NoAgent
from goalrunner.records.run_folder import goal_home
from goalrunner.system.bubblewrap import choose

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
    """What was found about one agent, and what a real round has used."""

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
    """Look at the goal's agent, in the sandbox of the goal.

    `with_round`: run a real round if nothing is bad.
    """
    options = RunOptions(environ=environ, home=goal_home(environ).resolve())
    config = resolve(_trial(goal, goal.workspace, goal.agent), options)
    findings = [finding for finding in readiness(config) if finding.name != WARNING]
    findings += more_findings(config, findings)
    if config.goal.workspace.sandbox == "none" and "sandbox" not in config.problems:
        findings.append(sandbox_finding(config.workspace, config.options.environ))
    used = None
    if with_round and all(finding.state != "bad" for finding in findings):
        tried = [
            _try_round(goal, agent, dict(environ)) for agent in config.agents or (None,)
        ]
        findings += [finding for finding, _ in tried]
        used = sum((usage for _, usage in tried), Usage())
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
    """Let the agent create a file in a temporary folder, which is kept if that fails;
    return the usage as well.
    """
    folder = Path(tempfile.mkdtemp(prefix="goal-doctor-")).resolve()
    workspace = folder / "workspace"
    workspace.mkdir()
    place, config = goal.workspace, agent.goal.agent if agent else goal.agent
    program, path = find_program(
        config.command, environ, Path(place.path or ".").resolve()
    )
    # It lies in the goal's own workspace.
    if config.command and "/" in program and path:
        command = (config.command[0].replace(program, path, 1), *config.command[1:])
        config = config.model_copy(update={"command": command})
    temporary = WorkspaceConfig(
        path=str(workspace), sandbox=place.sandbox, network=place.network
    )
    trial = _trial(goal, temporary, config)
    try:
        outcome = asyncio.run(
            arun(trial, RunOptions(environ=environ, home=folder / "home"))
        )
    except GoalError as error:
        shutil.rmtree(folder, ignore_errors=True)
        return Finding(
            "round", "bad", f"the round could not be tried: {error.message}", error.hint
        ), Usage()
    used = sum(outcome.usage.values(), Usage())
    if outcome.status is not GoalStatus.COMPLETE:
        hints = [
            line
            for line in outcome.message.splitlines()
            if not line.startswith("goal resume")
        ]
        hints += [_IN_SANDBOX] if place.sandbox != "none" else []
        hint = "\n".join([*hints, f"goal show {outcome.run_path}"])
        return Finding("round", "bad", "the agent did not create the file", hint), used
    shutil.rmtree(folder, ignore_errors=True)
    if (
        agent
        and "tokens" in agent.preset.reports_by(agent.protocol)
        and not used.tokens
    ):
        return Finding(
            "round",
            "bad",
            "the file was created, but the agent reported no tokens",
            _OUTDATED,
        ), used
    return Finding(
        "round", "good", f"the agent created a file in {outcome.duration:.1f} s"
    ), used


def more_findings(config: RunConfig, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield what is good to know, but not needed: the agent's version, and other ways
    to drive it.
    """
    installed = [finding.name for finding in findings if finding.state == "good"]
    for agent in config.usable_agents:
        environ = agent.environment(config.sandbox.environ)
        if agent.preset.version and config.finding_name(PROGRAM, agent) in installed:
            version = asyncio.run(versions({agent.name: agent.preset}, environ))[
                agent.name
            ]
            unknown = f"{' '.join(agent.preset.version)} printed no version"
            name = config.finding_name("version", agent)
            yield Finding(name, "good" if version else "note", version or unknown)
        for way in ways_of(agent.preset, environ, config.workspace):
            if way.by != agent.protocol:
                usable = f'{way.path}; use it with protocol = "{way.by}"'
                message = (
                    usable if way.is_installed else f"{way.program} is not on PATH"
                )
                name = config.finding_name(
                    "ACP" if way.by == "acp" else "command", agent
                )
                yield Finding(name, "note", message)
        if not config.goal.has_judge and agent.preset.judge.argv:
            yield judge_finding(agent.name, agent.preset, config)


def judge_finding(name: str, preset: Preset, config: RunConfig) -> Finding:
    """Return where the program is with which an agent can be a judge."""
    path = program_path(preset, config.options.environ, [config.workspace])
    tools = "; it keeps some tools" if preset.judge.tools else ""
    found = f'{path}; use it with judge = "{name}"{tools}'
    return Finding(
        "judge", "note", found if path else f"{preset.judge.argv[0]} is not on PATH"
    )


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
    """The results before any work, why a run would end there (`problem`), and the exit
    code if a signal ended it.
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
        return tuple(
            name for result in results for name in _FAILED.findall(result.feedback)
        )


def take_baseline(goal: Goal, options: RunOptions) -> BaselineResult:
    """Run the validators once as `goal run` does before round 1, without agent and
    judge, and keep no run.
    """
    seen: list[Event] = []
    own = replace(
        options,
        observers=(*options.observers, Callback(seen.append)),
        conversation=NoAgent(),
        needs_round=True,
        keeps_run=False,
    )
    try:
        outcome = asyncio.run(arun(only_checks(goal), own))
    except GoalError as error:
        return BaselineResult(problem=str(error))
    # No run is kept that could be resumed.
    message = outcome.message.replace(f"goal resume {outcome.run_id}", "goal check")
    problem = "" if message.startswith(ONLY_CHECKS) else message
    event = next(
        (event for event in reversed(seen) if isinstance(event, BaselineTaken)), None
    )
    return BaselineResult(
        event,
        problem,
        outcome.exit_code if outcome.status is GoalStatus.CANCELLED else 0,
    )


@dataclass(frozen=True)
class Readiness:
    """What was found about a goal, lines about its checks, the baseline, and the exit
    code if a run cannot start.
    """

    findings: tuple[Finding, ...]
    lines: tuple[tuple[str, str], ...] = ()
    baseline: BaselineResult | None = None
    exit_code: int = int(ExitCode.FAILED)
    # Whether there are commands that run before round 1, and none of them is missing.
    can_check: bool = False

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems that keep a run from starting."""
        failed = self.baseline.problem if self.baseline else ""
        return tuple(
            filter(
                None,
                (
                    *(item.message for item in self.findings if item.state == "bad"),
                    failed,
                ),
            )
        )

    def with_baseline(self, baseline: BaselineResult) -> Readiness:
        """Return this with a baseline, unless a problem that was found already kept it
        from running.
        """
        is_known = baseline.event is None and any(
            baseline.problem.startswith(text) for text in self.problems
        )
        return self if is_known else replace(self, baseline=baseline)


def check_readiness(goal: Goal, options: RunOptions) -> Readiness:
    """Return whether a run of the goal could start, without the baseline.

    No model is called. Raise UsageError.
    """
    config = resolve_new(goal, options)
    findings = readiness(config)
    errors = [finding.error for finding in findings if finding.error is not None]
    runs_before = any(spec.run and not spec.hidden for spec in config.goal.validators)
    is_missing = any(isinstance(error, ValidatorMissing) for error in errors)
    shown = [finding for finding in findings if finding.name != WARNING]
    return Readiness(
        (*shown, *more_findings(config, findings)),
        described(config, findings),
        exit_code=int(errors[0].exit_code if errors else ExitCode.FAILED),
        can_check=config.check is not None and runs_before and not is_missing,
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
