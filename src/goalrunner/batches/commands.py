"""The command `goal batch`."""

from __future__ import annotations

import math
import os
import re
import sys
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from goalrunner.batches.batch_folder import (
    BatchFolder,
    BatchLog,
    event_time,
    find_batch,
    newest_batch,
)
from goalrunner.batches.displays import BatchDisplay, BatchView, open_display
from goalrunner.batches.history import BatchResumed, EntryIntegrated
from goalrunner.batches.integration import refuse_without_repository
from goalrunner.batches.integration_command import apply_batch, apply_open_batch
from goalrunner.batches.option_values import (
    DOLLARS,
    GOALS,
    TOKENS,
    UNTIL,
    AgentModel,
    goal_keys,
    goals_argument,
)
from goalrunner.batches.plan import BatchLimits, BatchPlan
from goalrunner.batches.result_files import BatchFiles
from goalrunner.batches.scheduler import Scheduler
from goalrunner.batches.submission import Submission, submit
from goalrunner.cli import main, options, output, runs
from goalrunner.cli.options import (
    COUNT,
    ROUND,
    File,
    Text,
    flag,
    option,
)
from goalrunner.core.errors import ExitCode, UsageError, quoted
from goalrunner.records.run_search import new_run_id

if TYPE_CHECKING:
    from goalrunner.fleet.batch_following import FleetBatch

_DEFAULT_JOBS = 4
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
"""The name is that of a folder, and a part of the name of a branch."""


def batch(
    goals: Annotated[
        list[Path] | None,
        goals_argument(f"{GOALS}; with --resume: the name of a batch."),
    ] = None,
    jobs: Annotated[
        int | None,
        option(
            "N",
            "The most runs at the same time; default: 4.",
            "--jobs",
            "-j",
            parser=COUNT,
        ),
    ] = None,
    template: Annotated[
        File,
        option(
            "FILE",
            "The goal file for the rows of tables: {column} stands for a value.",
        ),
    ] = None,
    agent: options.Agent = None,
    model: AgentModel = None,
    judge: options.Judge = None,
    cost: Annotated[
        float | None,
        option("USD", "Budget of all runs together, in US dollars.", parser=DOLLARS),
    ] = None,
    tokens: Annotated[
        float | None,
        option("N", "Budget of tokens of all runs together.", parser=TOKENS),
    ] = None,
    until: Annotated[
        str | None,
        option("TIME", "Stop the runs at 07:30, or at 2026-01-31T07:30.", parser=UNTIL),
    ] = None,
    max_failures: Annotated[
        int | None,
        option(
            "N", "Start no more goals once N have ended without success.", parser=COUNT
        ),
    ] = None,
    retries: Annotated[
        int, option("N", "Resume a failed run up to N times.", parser=ROUND)
    ] = 0,
    at_least: Annotated[
        int | None,
        option(
            "N",
            "Exit with 0 if N goals are complete; default: all goals.",
            parser=COUNT,
        ),
    ] = None,
    name: Annotated[Text, option("NAME", "The name of the new batch.")] = None,
    resume: Annotated[
        bool,
        flag("--resume", "Continue a batch; default: the newest one."),
    ] = False,
    apply: Annotated[
        bool,
        flag(
            "--apply",
            "At the end, commit the verified changes on the branch goal/BATCH.",
        ),
    ] = False,
    junit: options.JUnit = None,
    html: Annotated[
        File,
        option(
            "FILE",
            "Write an HTML page there, and the pages of the runs beside it.",
            "--html",
        ),
    ] = None,
    json: Annotated[
        bool,
        flag("--json", "Print each event, then the result, as JSON lines."),
    ] = False,
    quiet: options.Quiet = False,
    fleet: Annotated[
        bool, flag("--fleet", "Let the workers of a fleet run the goals.")
    ] = False,
    db: Annotated[
        Text, option("URL", "With --fleet: its database; default: GOAL_FLEET.")
    ] = None,
    queue: Annotated[
        Text, option("NAME", "With --fleet: the queue; default: default.")
    ] = None,
    labels: Annotated[
        Text, option("LIST", "With --fleet: what the worker must have: gpu.")
    ] = None,
) -> int:
    """Run many goals, each in a copy of its workspace, several at a time.

    The goals are read once: a goal file that changes later does not change the batch.
    After Ctrl-C or a crash, --resume continues each run where it stopped. With --apply
    and the name of an earlier batch, no goal is run: its changes are applied, as
    `goal apply BATCH` does. The exit code is 0 if all goals are complete and no change
    is left out, else 1; 130 after Ctrl-C.

    With --fleet, the workers of a fleet run the goals, and their progress is shown
    here; Ctrl-C then ends only the display.
    """
    _refuse_without_fleet(
        {"--db": db, "--queue": queue, "--labels": labels}, has_fleet=fleet
    )
    limits = _limits(cost, tokens, until, max_failures)
    if fleet:
        from goalrunner.fleet.batch_following import refuse_machine_options

        refuse_machine_options(
            {
                "--resume": resume,
                "--apply": apply,
                "--jobs": jobs,
                "--cost": cost,
                "--tokens": tokens,
                "--max-failures": max_failures,
                "--retries": retries,
            }
        )
    if resume:
        _refuse_old_options(
            template, agent, model, judge, retries or None, at_least, name
        )
    paths = goals or []
    # A name in place of goals: that batch was run, and is only applied.
    if apply and not resume and (earlier := _earlier_batch(paths)):
        return apply_batch(earlier, json=json)
    display = open_display(sys.stdout, json_lines=json, quiet=quiet)
    printed = _Output(
        BatchView(display),
        # Opened before an agent could redirect them.
        BatchFiles.open(junit, html),
        applies=apply,
        json=json,
    )
    if resume:
        return _resume(paths, limits, jobs, printed)
    if not paths:
        raise UsageError(
            "there is no goal to run", "name goal files or folders: goal batch goals/"
        )
    submission = submit(paths, template, goal_keys(agent, model, judge))
    if apply:
        refuse_without_repository(submission.entries, os.environ)
    _refuse_too_many(at_least, len(submission.entries))
    batch_id = _batch_id(name, paths[0])
    if fleet:
        from goalrunner.fleet import DEFAULT_QUEUE
        from goalrunner.fleet.batch_following import FleetBatch
        from goalrunner.fleet.queue import labels_of
        from goalrunner.fleet.submission import SubmitOptions

        fleet_batch = FleetBatch(batch_id, db, at_least)
        submit_options = SubmitOptions(
            queue=queue or DEFAULT_QUEUE, labels=labels_of(labels or ""), deadline=until
        )
        fleet_batch.submit(submission, submit_options)
        return _follow(fleet_batch, display, printed.files)
    plan = BatchPlan(
        batch_id=batch_id,
        created_at=event_time(),
        entries=submission.entries,
        jobs=jobs or _DEFAULT_JOBS,
        limits=limits,
        retries=retries,
        at_least=at_least,
    )
    return _run_here(plan, submission, printed)


def _run_here(plan: BatchPlan, submission: Submission, printed: _Output) -> int:
    """Run a new batch on this machine, and return its exit code."""
    folder = BatchFolder.create(runs.home(), plan, submission.texts)
    with folder.writing() as log:
        code = _drive(folder, log, printed)
    printed.files.write(folder)
    return code


def _refuse_without_fleet(
    options_of_fleets: dict[str, str | None], *, has_fleet: bool
) -> None:
    """Raise UsageError if an option is given that only a fleet has."""
    for name, value in options_of_fleets.items():
        if value is not None and not has_fleet:
            raise UsageError(f"{name} is for a batch of a fleet", "add --fleet")


def _follow(batch: FleetBatch, display: BatchDisplay, files: BatchFiles) -> int:
    """Show a batch of a fleet to its end, and write the files about it."""
    moment, was_interrupted = batch.follow(display)
    if was_interrupted and batch.db:
        output.complain("these commands find the fleet by the variable GOAL_FLEET")
    files.write_moment(moment)
    return int(ExitCode.INTERRUPTED) if was_interrupted else moment.exit_code


def _refuse_too_many(at_least: int | None, goals: int) -> None:
    """Raise UsageError if more goals must be complete than there are."""
    if at_least is not None and at_least > goals:
        raise UsageError(
            f"--at-least {at_least} is more than the number of goals: {goals}",
            "name more goals, or a smaller number",
        )


def _refuse_old_options(*options_of_new_batches: object) -> None:
    """Raise UsageError if `--resume` is given with an option that it would ignore."""
    if any(value is not None for value in options_of_new_batches):
        raise UsageError(
            "--resume takes new limits only: --jobs, --cost, --tokens, --until and "
            "--max-failures",
            "the goals and their other options are those of the submission",
        )


@dataclass(frozen=True)
class _Output:
    """Where a batch is shown, and what is made of it at its end."""

    view: BatchView
    files: BatchFiles
    applies: bool
    """Whether the verified changes are brought onto a branch."""
    json: bool


def _drive(
    folder: BatchFolder,
    log: BatchLog,
    printed: _Output,
    resumed: BatchResumed | None = None,
) -> int:
    """Drive a batch to its end, apply it if that is asked, and return the exit code.

    A batch that was interrupted, or of which no goal is complete, is not applied.
    """
    view = printed.view
    scheduler = Scheduler(folder, log, view)
    with closing(view):
        main.wait_for(scheduler.run(resumed))
    code = scheduler.exit_code
    if not printed.applies or code > 1 or not log.state.complete:
        return code
    if not printed.json:
        return max(code, apply_open_batch(folder, log))

    def show(decision: EntryIntegrated) -> None:
        view.changed(log.state, decision)

    code = max(code, apply_open_batch(folder, log, on_decision=show))
    # The last line is the whole result, now with the commits.
    view.end(folder, log.state)
    return code


def _earlier_batch(references: list[Path]) -> BatchFolder | None:
    """Return the batch of that name; None if there is a file of that name."""
    if len(references) != 1 or references[0].exists():
        return None
    return find_batch(runs.home(), str(references[0]))


def _resume(
    references: list[Path], limits: BatchLimits, jobs: int | None, printed: _Output
) -> int:
    """Go on with a batch, whose limits are replaced by those that are given."""
    if len(references) > 1:
        raise UsageError("--resume goes on with one batch", "goal batch --resume NAME")
    home = runs.home()
    folder = find_batch(home, str(references[0])) if references else newest_batch(home)
    with folder.writing() as log:
        stopped = log.state.stopped
        if stopped is not None and stopped.cancelled:
            raise UsageError(
                f"batch {folder.batch_id} was cancelled, which is final",
                "submit the goals again: goal batch GOALS",
            )
        new_limits = limits.model_dump(exclude_unset=True)
        resumed = BatchResumed(
            at=event_time(),
            # A limit that is not typed again stays; inf lifts one.
            limits=log.state.limits.model_copy(update=new_limits),
            jobs=jobs or log.state.jobs,
        )
        code = _drive(folder, log, printed, resumed)
        is_group = log.state.plan.kind == "group"
    if is_group and not printed.json:
        from goalrunner.batches.group_command import print_ranking

        print_ranking(folder, sys.stdout)
    printed.files.write(folder)
    return code


def _limits(
    cost: float | None,
    tokens: float | None,
    until: str | None,
    max_failures: int | None,
) -> BatchLimits:
    """Return the limits of the options that are given; inf is no limit."""
    values: dict[str, Any] = {}
    if cost is not None:
        values["cost_usd"] = None if cost == math.inf else cost
    if tokens is not None:
        values["tokens"] = None if tokens == math.inf else int(tokens)
    if until is not None:
        if datetime.fromisoformat(until) <= datetime.now(UTC):
            raise UsageError(f"--until {until} is over", "name a later moment")
        values["until"] = until
    if max_failures is not None:
        values["max_failures"] = max_failures
    return BatchLimits(**values)


def _batch_id(name: str | None, first: Path) -> str:
    """Return the name that is given, or a new one. Raise UsageError."""
    if name is None:
        return new_run_id(runs.home(), first.resolve().stem)
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"--name {quoted(name)} is not valid",
            "write up to 60 letters, digits, dashes and underscores",
        )
    return name
