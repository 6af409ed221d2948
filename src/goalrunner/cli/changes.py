"""What a run changed, undoing it, and removing old runs.

These are `goal diff`, `goal restore` and `goal prune`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from goalrunner.cli import dialog, main, options, output, runs
from goalrunner.cli.options import ROUND, Text, Texts, argument, flag, option
from goalrunner.core.errors import UsageError

if TYPE_CHECKING:
    from goalrunner.app.previous_run import LoadedRun
    from goalrunner.app.pruning import OldRun, Pruned
    from goalrunner.core.observation import Change


def diff(
    run: options.Run = None,
    number: Annotated[
        int | None,
        argument("ROUND", "Number of a round; default: the whole run.", parser=ROUND),
    ] = None,
    stat: Annotated[
        bool, flag("--stat", "Print the paths and how many lines changed, no patch.")
    ] = False,
    json: Annotated[
        bool, flag("--json", "Print round, changes and patch as JSON.")
    ] = False,
    no_pager: options.NoPager = False,
) -> int:
    """Print what a run or a round changed, as a unified patch.

    Caches of tools are left out. At a terminal the patch has colours (unless NO_COLOR
    is set), and a long one is shown with PAGER, by default less. In a pipe or a file it
    is plain, so that `git apply` and `patch` can read it.
    """
    from goalrunner.app.previous_run import load_run
    from goalrunner.app.run_snapshots import RunSnapshots, round_patch
    from goalrunner.reports.patches import patch_text, patch_value, stat_text

    run, number = _arguments(run, number)
    folder = runs.find(run)
    snapshots = RunSnapshots.of(load_run(folder))
    patch = main.wait_for(round_patch(snapshots, runs.home(), os.environ, number))
    if json:
        output.say(patch_value(folder.run_id, patch))
        return 0
    if not patch.changes:
        part = "Run" if patch.round is None else f"Round {patch.round} of run"
        output.complain(f"{part} {folder.run_id} changed no files.")
    if stat:
        output.say(stat_text(patch))
    elif output.columns() is None:
        output.say(patch.text.encode(errors="surrogateescape"))
    else:
        output.page(patch_text(patch, colours=output.has_colours()), pager=not no_pager)
    return 0


def _arguments(run: str | None, number: int | None) -> tuple[str | None, int | None]:
    """Return run and round. A number alone is a round of the default run."""
    # No id of a run begins with a digit.
    if number is None and run is not None and run.isdecimal():
        return None, int(run)
    return run, number


def restore(
    run: options.Run = None,
    number: Annotated[
        int | None,
        argument(
            "ROUND", "Number of a round; 0 is the start of the run.", parser=ROUND
        ),
    ] = None,
    snapshot: Annotated[
        Text, option("ID", "Restore this snapshot instead of a round.")
    ] = None,
    path: Annotated[
        Texts, option("PATH", "Restore this file only; may be repeated.", "--path")
    ] = None,
    yes: options.Yes = False,
) -> int:
    """Restore the workspace to the end of a round.

    Default: the newest round; 0 is the start of the run. Asks first. The state before
    is kept as a snapshot; its id and the command that undoes the restore are printed.
    Ignored files, and HEAD, refs and index of your repositories stay as they are.
    """
    from goalrunner.app.preflight import undo_interrupted
    from goalrunner.app.previous_run import load_run
    from goalrunner.app.run_snapshots import KeptStore, RunSnapshots
    from goalrunner.reports.restore_lines import done_lines
    from goalrunner.reports.short_forms import home_path

    run, number = _arguments(run, number)
    if number is not None and snapshot is not None:
        raise UsageError("ROUND and --snapshot cannot be combined", "use one of them")
    folder, paths = runs.find(run), path or ()
    loaded = load_run(folder)
    snapshots = RunSnapshots.of(loaded)
    workspace = snapshots.workspace
    if snapshot is None:
        _refuse_copy(loaded, workspace)
        number, target = snapshots.end(number)
        moment = "as it was at the start of the run"
        if number:
            moment = f"as round {number} left it"
    store = KeptStore(Path(workspace), runs.home(), os.environ, start=folder.start)
    try:
        if snapshot is not None:
            target = main.wait_for(store.find(snapshot))
            moment = f"as snapshot {target.id[:12]} holds it"
        for line in undo_interrupted(Path(workspace), runs.home()):
            output.complain(line)
        changes = main.wait_for(store.plan(target, paths))
        if not changes:
            line = f"Nothing to restore: {home_path(workspace)} is {moment}.\n"
            if number:
                line += f"To undo the whole run: goal restore {folder.run_id} 0\n"
            output.say(line)
            return 0
        if not yes and not _confirms_restore(loaded, workspace, moment, changes):
            return 1
        done, before = main.wait_for(store.perform(target, paths))
    finally:
        store.store.close()
    lines = done_lines(folder.run_id, workspace, moment, done, before)
    output.say(output.terminal_text(lines))
    return 0


def _refuse_copy(loaded: LoadedRun, workspace: str) -> None:
    """Raise UsageError for a run that did not work in the workspace itself."""
    run_id = loaded.state.goal.run_id
    if loaded.started.isolated:
        raise UsageError(
            f"run {run_id} worked in a copy, and did not change {workspace}",
            f"goal apply {run_id} brings its change there; goal diff {run_id} shows it",
        )


def _confirms_restore(
    loaded: LoadedRun, workspace: str, moment: str, changes: Sequence[Change]
) -> bool:
    """Print the run and the changes, and return whether a person agrees."""
    from goalrunner.core.run_summary import RunSummary
    from goalrunner.reports.figures import count
    from goalrunner.reports.restore_lines import plan_lines
    from goalrunner.reports.status import naming_lines

    output.say(output.terminal_text(naming_lines(RunSummary.of(loaded.state))))
    output.say(output.terminal_text(plan_lines("restore", workspace, moment, changes)))
    number = count(len(changes), "path")
    return dialog.confirmed(
        f"Change {number}? The state before is kept as a snapshot. [y/N]",
        "goal restore asks before it changes files",
    )


def prune(
    older_than: Annotated[
        float, option("AGE", '"30d", "12h", "90m".', parser=options.DURATION)
    ],
    yes: options.Yes = False,
    dry_run: Annotated[
        bool, flag("--dry-run", "Print what would be removed, and remove nothing.")
    ] = False,
    copies: Annotated[
        bool,
        flag(
            "--copies",
            "Remove only the copies of these runs; they can then be applied, "
            "and not resumed.",
        ),
    ] = False,
    json: options.Json = False,
) -> int:
    """Remove runs of all workspaces that ended long ago.

    Asks first. Snapshots that no run needs are removed, too, batches of which no run is
    left, and what copies began with if no copy needs it. A run that is running or waits
    for a person is kept.
    """
    from goalrunner.app import pruning
    from goalrunner.batches.batch_folder import remove_old_batches
    from goalrunner.copies import copy_pruning
    from goalrunner.reports.figures import count
    from goalrunner.reports.run_table import old_run_line

    home, now = runs.home(), datetime.now(UTC)
    since = now.timestamp() - older_than
    old_runs = pruning.old_runs(home, older_than, now)
    if copies:
        old_runs = copy_pruning.with_copies(old_runs)
    run_lines = [old_run_line(run) for run in old_runs]
    if old_runs and not (dry_run or yes):
        output.complain(_whole_lines(run_lines, output.columns(sys.stderr)))
        noun = "copy of a run" if copies else "run"
        number = count(len(old_runs), noun, "copies of runs" if copies else "")
        if not dialog.confirmed(
            f"Remove {number} for good? [y/N]",
            f"{number} would be removed for good",
            "add --yes, or --dry-run to list them",
            "nothing was removed",
        ):
            return 0
    if copies:
        done = pruning.Pruned()
        if not dry_run:
            done.left = copy_pruning.discard_copies(old_runs)
    else:
        done = pruning.prune_runs(home, old_runs, os.environ, since, dry_run=dry_run)
        run_ids = {run.folder.run_id for run in old_runs}
        done.batches = remove_old_batches(home, run_ids, since, dry_run=dry_run)
    done.bases = copy_pruning.remove_unused_bases(home, since, dry_run=dry_run)
    if json:
        output.say(_pruned_value(old_runs, done, dry_run=dry_run))
        return 0
    what = "copy of " if copies else ""
    lines = [f"{what}{line}" for line in run_lines]
    output.say(_whole_lines(_pruned_lines(lines, done, dry_run), output.columns()))
    for reason in done.left:
        output.complain(f"left  {reason}")
    return 0


def _pruned_lines(run_lines: list[str], done: Pruned, dry_run: bool) -> list[str]:
    """Return what was removed, or would be, a line each."""
    from goalrunner.reports.figures import count

    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb}  {line}" for line in run_lines]
    if not lines:
        lines.append("no run ended that long ago")
    if done.half_removed:
        folders = count(done.half_removed, "folder")
        lines.append(
            f"{verb}  what an interrupted goal prune or goal check left: {folders}"
        )
    if done.bases:
        bases = count(done.bases, "frozen base")
        lines.append(f"{verb}  {bases}, which no copy uses")
    if done.batches:
        batches = count(done.batches, "batch", "batches")
        lines.append(f"{verb}  {batches}, of which no run is left")
    if done.stores or done.snapshots:
        lines.append(
            f"removed  {len(done.stores)} snapshot stores, and {done.snapshots}"
            " snapshots in other stores, which no run needs"
        )
    return lines


def _whole_lines(lines: Iterable[str], columns: int | None) -> str:
    """Return lines for a terminal, without cutting them."""
    from goalrunner.reports.layout import Quoted, laid_out

    return laid_out((Quoted(line, "", whole=True) for line in lines), columns)


def _pruned_value(
    old_runs: Sequence[OldRun], done: Pruned, *, dry_run: bool
) -> dict[str, object]:
    run_ids = [run.folder.run_id for run in old_runs]
    reasons = {
        run.folder.run_id: {"why": run.why, "resumable": run.resumable}
        for run in old_runs
    }
    return {
        "removed": [] if dry_run else run_ids,
        "found": run_ids,
        "why": reasons,
        **asdict(done),
    }
