"""What the command line does for several runs of one goal: `goal run --best-of`."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, TextIO

from goalrunner.app.previous_run import load_run
from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.displays import BatchView, open_display
from goalrunner.batches.frozen_goal import FrozenGoal
from goalrunner.batches.group_runs import group_runs
from goalrunner.batches.group_table import group_lines, group_rows
from goalrunner.batches.plan import BatchLimits
from goalrunner.batches.run_figures import moment_of
from goalrunner.batches.scheduler import Scheduler
from goalrunner.batches.values import result_value
from goalrunner.cli import main, output, runs
from goalrunner.goalfile.loading import resolve_limits
from goalrunner.goalfile.toml_text import read_text
from goalrunner.records.run_search import find_run, new_run_id
from goalrunner.reports.ci_log import json_text
from goalrunner.reports.layout import laid_out

if TYPE_CHECKING:
    from goalrunner.batches.candidates import GroupChoice
    from goalrunner.batches.ranking import GroupRun
    from goalrunner.cli.drive import Results
    from goalrunner.cli.goals import LoadedGoal


def shared_limits(tokens: str | None, cost: str | None) -> BatchLimits:
    """Return the limits of all runs together. Raise GoalFileError."""
    values: dict[str, Any] = resolve_limits(
        {"budget.tokens": tokens, "budget.cost_usd": cost}
    )
    return BatchLimits.model_validate(values)


def run_group(
    loaded: LoadedGoal,
    choice: GroupChoice,
    limits: BatchLimits,
    results: Results,
) -> int:
    """Run a goal several times at once, print the order of the runs, and write the
    results of the best one.

    Return 0 if a run is verified. Raise UsageError and GoalFileError.
    """
    goal = FrozenGoal(
        loaded.goal,
        text=read_text(loaded.path) if loaded.path else "",
        source=str(loaded.path.absolute()) if loaded.path else "",
        # Also those of --strict.
        options={**loaded.options, "approvals.labels": loaded.goal.approvals.labels},
    )
    home = runs.home()
    plan = choice.plan(goal, limits, new_run_id(home, goal.goal.objective))
    texts = {entry.key: goal.text for entry in plan.entries}
    folder = BatchFolder.create(home, plan, texts)
    stream = results.progress_stream
    view = BatchView(open_display(stream, quiet=results.quiet))
    with folder.writing() as log, closing(view):
        scheduler = Scheduler(folder, log, view)
        main.wait_for(scheduler.run())
    ranked_runs = print_ranking(folder, stream)
    if results.json:
        output.say(_json_value(folder, ranked_runs))
    _write_results(ranked_runs, results, stream)
    return scheduler.exit_code


def print_ranking(folder: BatchFolder, stream: TextIO) -> list[GroupRun]:
    """Print the verified runs of a group and what to do with them; return all runs, the
    best first.
    """
    ranked_runs = group_runs(folder, runs.home())
    lines = group_lines(folder.batch_id, group_rows(ranked_runs))
    stream.write(laid_out(lines, output.columns(stream)))
    stream.flush()
    return ranked_runs


def _json_value(folder: BatchFolder, ranked_runs: list[GroupRun]) -> dict[str, Any]:
    """Return the result of a group; `ranking` has the verified runs, the best first."""
    ranking = [run.run_id for run in ranked_runs if run.is_verified]
    return {**result_value(moment_of(folder)), "ranking": ranking}


def _write_results(
    ranked_runs: list[GroupRun], results: Results, stream: TextIO
) -> None:
    """Write the outcome of the best run to the files that options name.

    Without a verified one, that is the first run that has records.
    """
    with_records = [run for run in ranked_runs if run.run_id]
    if not with_records:
        return
    folder = find_run(runs.home(), with_records[0].run_id)
    outcome = load_run(folder).outcome(folder)
    # If one file cannot be written, the others are.
    with ExitStack() as writes:
        writes.callback(results.files.write, folder, stream, outcome)
        if results.copy is not None:
            text = json_text(outcome.model_dump(mode="json"))
            writes.callback(results.copy.write, text)
