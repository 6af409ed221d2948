"""The commands that run a goal: `goal run` and `goal resume`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from goalrunner.batches.candidates import GroupChoice, refuse_options
from goalrunner.cli import goals, options, output, runs
from goalrunner.cli.background import is_detached, start_detached
from goalrunner.cli.drive import Results, drive, workspace_state
from goalrunner.cli.options import (
    File,
    Text,
    Texts,
    argument,
    checked,
    flag,
    goal_files,
    option,
)
from goalrunner.cli.result_file import ResultFile
from goalrunner.core.errors import ExitCode, UsageError, one_line, quoted
from goalrunner.core.labels import STRICT_LABELS
from goalrunner.core.run_summary import RunSummary
from goalrunner.exports.result_files import open_files
from goalrunner.records.run_summaries import read_summary

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from goalrunner.app.resuming import Limits
    from goalrunner.app.run_options import RunOptions
    from goalrunner.core.goal import Goal
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.records.run_folder import RunFolder

GoalArgument = Annotated[
    Text,
    argument(
        "GOAL_FILE | TEXT",
        "A goal file or an objective; default: goal.toml, here or above.",
        goal_files,
    ),
]
ContinueFrom = Annotated[
    Text,
    option("RUN", "Continue the conversation of that run.", values=options.run_ids),
]


def run(
    goal_file_or_text: GoalArgument = None,
    objective: Annotated[
        Text, option("TEXT", "The objective; replaces that of the goal file.")
    ] = None,
    criterion: options.Criteria = None,
    constraint: Annotated[
        Texts, option("TEXT", "A constraint; may be repeated.")
    ] = None,
    validator: options.Validators = None,
    agent: options.Agents = None,
    model: Annotated[
        Texts,
        option(
            "NAME",
            "The agent's model: openai/..., scripted/FILE, ...; may be repeated, as"
            " --agent.",
        ),
    ] = None,
    best_of: Annotated[
        int | None,
        option(
            "N",
            "Work on the goal in N copies at once, and take the best verified run."
            " --cost and --tokens are limits of all of them together.",
            parser=checked(int, "a whole number from 2"),
        ),
    ] = None,
    first: Annotated[
        bool | None,
        flag(
            "--first/--all",
            "With several runs: end the others when one is verified, or wait for all"
            " and rank them; default: --first.",
        ),
    ] = None,
    judge: Annotated[
        Text, option("NAME", "The judge's model; \"agent\" is the agent's own.")
    ] = None,
    max_iterations: options.MaxIterations = None,
    timeout: options.Timeout = None,
    wait: options.Wait = None,
    tokens: options.Tokens = None,
    cost: options.Cost = None,
    workspace: Annotated[
        Text, option("DIR", "The folder that the agent works in.")
    ] = None,
    output_file: options.OutputFile = None,
    junit: options.JUnit = None,
    summary: options.SummaryFile = None,
    gitlab: options.GitLab = None,
    parent: Annotated[
        Text,
        option("RUN", "The run that this goal is a part of.", values=options.run_ids),
    ] = None,
    run_id: Annotated[
        Text,
        option(
            "ID",
            "The id of the run. If it exists, it goes on, or its outcome is printed"
            " again: a job can be tried again.",
            "--id",
        ),
    ] = None,
    json: options.OutcomeJson = False,
    quiet: options.Quiet = False,
    detach: options.Detach = False,
    isolate: options.Isolate = False,
    verbose: options.Verbose = False,
    dry_run: Annotated[
        bool, flag("--dry-run", "Resolve, check and print the goal; spend nothing.")
    ] = False,
    record: Annotated[
        File,
        option(
            "FILE",
            "Record the replies of the models that goal calls; scripted/FILE replays"
            " them.",
        ),
    ] = None,
    continue_from: ContinueFrom = None,
    strict: Annotated[
        bool,
        flag(
            "--strict",
            "Let results be reviewed that rest on changed files or tests, or have"
            " similar labels.",
        ),
    ] = False,
    fresh: options.Fresh = False,
    canary: Annotated[
        bool, flag("--canary", "Do not run if the judge accepts work without proof.")
    ] = False,
) -> int:
    """Work on a goal until it is proven complete or a limit stops it.

    Options override the environment (GOAL_AGENT, GOAL_MODEL, GOAL_JUDGE), which
    overrides the goal file. The exit code is the outcome's: 0 complete, 1 capped, 2
    usage or goal file, 3 blocked, 4 failed, 129, 130 or 143 by signal.
    """
    group = GroupChoice(agent or (), model or (), best_of, first)
    is_group = group.is_group()
    if is_group:
        refuse_options(
            {
                "--record": record,
                "--continue-from": continue_from,
                "--detach": detach,
                "--dry-run": dry_run,
                "--fresh": fresh,
                "--id": run_id,
            }
        )
    if detach and not is_detached():
        return start_detached(runs.home(), json=json)
    overrides = {
        "objective": objective,
        "success_criteria": criterion,
        "constraints": constraint,
        "validators": validator,
        "agent.use": agent[0] if agent else None,
        "agent.model": model[0] if model else None,
        "judge.model": judge,
        "max_iterations": max_iterations,
        "timeout": timeout,
        "wait": wait,
        # Limits of several runs together are none of each.
        "budget.tokens": None if is_group else tokens,
        "budget.cost_usd": None if is_group else cost,
        "workspace.path": workspace,
        "parent": parent,
    }
    loaded = _load_goal(goal_file_or_text, overrides, strict=strict)
    goal = loaded.goal
    from goalrunner.app.run_options import RunOptions
    from goalrunner.app.session import arun

    results = Results(
        _open_copy(output_file, loaded.own_file),
        open_files(junit, summary, gitlab),
        json=json,
        quiet=quiet,
        verbose=verbose,
    )
    run_options = RunOptions(
        home=runs.home(),
        goal_file=loaded.own_file,
        record=record,
        continues=runs.find(continue_from) if continue_from is not None else None,
        reuses_baseline=not fresh,
        run_id=run_id or "",
    )
    if record and goal.agent.external:
        _check_record(goal)
    if dry_run:
        return _print_resolved(goal, replace(run_options, record=None), json=json)
    earlier_run = runs.with_id(run_id) if run_id is not None else None
    if earlier_run is not None:
        _refuse_other_goal(earlier_run, goal)
        return _try_again(earlier_run, results)
    if canary:
        from goalrunner.audits.commands import require_careful_judge

        require_careful_judge(goal)
    if is_group:
        from goalrunner.batches.group_command import run_group, shared_limits

        return run_group(loaded, group, shared_limits(tokens, cost), results)
    if isolate or goal.workspace.isolate:
        from goalrunner.copies.commands import in_copy

        run_options = in_copy(goal, run_options, _choices(overrides, loaded))
    return drive(lambda options: arun(goal, options), run_options, results)


def _load_goal(
    named: str | None, overrides: Mapping[str, Any], *, strict: bool
) -> goals.LoadedGoal:
    """Return the goal of the command line, as `goal run` runs it."""
    from goalrunner.goalfile.loading import with_default_wait

    loaded = goals.load(named, overrides)
    goal = with_default_wait(loaded.goal)
    if strict:
        goal = with_strict_labels(goal)
    return replace(loaded, goal=goal)


def _open_copy(path: Path | None, goal_file: Path | None = None) -> ResultFile | None:
    """Open the file of `--output`, which must not be the goal file."""
    if path is None:
        return None
    inputs = {"the goal file": goal_file} if goal_file is not None else {}
    return ResultFile(path, inputs)


def _refuse_other_goal(folder: RunFolder, goal: Goal) -> None:
    """Raise UsageError if the run of that id is one of another goal."""
    from goalrunner.app.goal_models import goal_redactor

    recorded_objective = RunSummary.read(read_summary(folder)).objective
    objective = goal_redactor(goal, os.environ).text(goal.objective)
    if recorded_objective != objective:
        raise UsageError(
            f"run {folder.run_id} has another objective: {quoted(recorded_objective)}",
            "choose another --id for this goal",
        )


def _try_again(folder: RunFolder, results: Results) -> int:
    """Resume a run that can go on as it is; otherwise, print its outcome again."""
    from goalrunner.app.previous_run import load_run
    from goalrunner.app.run_options import RunOptions

    loaded = load_run(folder)
    # A run that a signal ended can go on: a job that is preempted gets SIGTERM.
    if not loaded.state.is_over:
        return _resume(folder, results)

    # A retry gives no higher limit, and does not undo what a person decided.
    async def recorded_outcome(_: RunOptions) -> GoalOutcome:
        return loaded.outcome(folder)

    return drive(recorded_outcome, RunOptions(home=runs.home()), results)


def _choices(overrides: Mapping[str, Any], loaded: goals.LoadedGoal) -> Iterator[str]:
    """Yield options for the agent and the validators that were chosen for the person.

    With them, the process in the copy does not ask again.
    """
    if not overrides["agent.use"] and "agent.use" in loaded.options:
        yield f"--agent={loaded.options['agent.use']}"
    if not overrides["validators"]:
        for command in loaded.options.get("validators", ()):
            yield f"--validator={command}"


def _check_record(goal: Goal) -> None:
    """Print what --record records with an external agent.

    Raise UsageError if that is nothing.
    """
    agent = goal.agent.use
    tables = goal.model_tables
    if not any(tables[account].model for account in tables if account != "agent"):
        raise UsageError(
            f"--record has nothing to record: {agent} calls its own model, and the goal"
            " has no judge",
            "remove --record, add a judge (--judge NAME), or use a built-in agent"
            " (--model NAME)",
        )
    output.complain(
        "--record keeps the replies of the models that goal calls, not those of"
        f" {agent}"
    )


def with_strict_labels(goal: Goal) -> Goal:
    """Return the goal that also lets the labels of `--strict` be reviewed."""
    labels = tuple(dict.fromkeys((*goal.approvals.labels, *STRICT_LABELS)))
    approvals = goal.approvals.model_copy(update={"labels": labels})
    return goal.model_copy(update={"approvals": approvals})


def _print_resolved(goal: Goal, run_options: RunOptions, *, json: bool) -> int:
    from goalrunner.app.doctor import dry_run
    from goalrunner.reports.run_header import resolved_lines

    named, checked = dry_run(goal, run_options)
    lines = resolved_lines(goal, named, workspace_state(goal.workspace.path), checked)
    output.say(goal.model_dump(mode="json") if json else output.terminal_text(lines))
    return int(ExitCode.COMPLETE)


def resume(
    run: options.Run = None,
    max_iterations: options.MaxIterations = None,
    timeout: options.Timeout = None,
    wait: options.Wait = None,
    tokens: options.Tokens = None,
    cost: options.Cost = None,
    allow_unenforced: options.Unenforced = None,
    note: Annotated[str, option("TEXT", "A note to the agent.")] = "",
    output_file: options.OutputFile = None,
    junit: options.JUnit = None,
    summary: options.SummaryFile = None,
    gitlab: options.GitLab = None,
    json: options.OutcomeJson = False,
    quiet: options.Quiet = False,
    detach: options.Detach = False,
    verbose: options.Verbose = False,
) -> int:
    """Continue a run: after a crash, Ctrl-C, a limit or a decision.

    The conversation, counters, usage and evidence of the run are kept, and completed
    steps are not repeated. A limit that is used up must be raised. A run that waited
    for a usage limit to reset waits on; with --wait 0, it tries at once. For a run that
    is complete, its outcome is printed again; without RUN, only if no later `goal run`
    in this folder failed to start. A run that was ended by `goal cancel` cannot be
    resumed.
    """
    if detach and not is_detached():
        return start_detached(runs.home(), json=json)
    from goalrunner.goalfile.loading import resolve_limits

    limits = resolve_limits(
        {
            "max_iterations": max_iterations,
            "timeout": timeout,
            "budget.tokens": tokens,
            "budget.cost_usd": cost,
            "wait": wait,
            "budget.allow_unenforced": allow_unenforced or None,
        }
    )
    folder = runs.to_resume() if run is None else runs.find(run)
    # Without RUN, the newest run must be that of the last `goal run`. An older complete
    # one would hide that the last one failed.
    last_goal_run = runs.last_goal_run() if run is None else None
    earlier = RunSummary.read(read_summary(folder))
    if earlier.status == "complete":
        objective = quoted(one_line(earlier.objective))
        output.complain(
            f"run {folder.run_id}, {objective}, is complete since"
            f" {earlier.finished_at}; nothing is run"
        )
    results = Results(
        _open_copy(output_file),
        open_files(junit, summary, gitlab),
        json=json,
        quiet=quiet,
        verbose=verbose,
    )
    return _resume(folder, results, _Resume(limits, note, last_goal_run))


@dataclass(frozen=True)
class _Resume:
    """What a person asked for with `goal resume`."""

    limits: Limits = field(default_factory=dict)
    note: str = ""
    last_goal_run: datetime | None = None


def _resume(folder: RunFolder, results: Results, request: _Resume = _Resume()) -> int:
    """Resume a run, in its copy if it has one."""
    from goalrunner.app.run_options import RunOptions
    from goalrunner.app.session import resume_run
    from goalrunner.copies.commands import resume_in_copy

    run_options = resume_in_copy(folder, RunOptions(home=runs.home()))

    def start(complete_options: RunOptions) -> Coroutine[Any, Any, GoalOutcome]:
        return resume_run(
            folder,
            complete_options,
            request.limits,
            note=request.note,
            last_goal_run=request.last_goal_run,
        )

    return drive(start, run_options, results)
