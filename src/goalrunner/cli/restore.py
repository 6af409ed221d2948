"""`goal restore` and `goal prune`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.core.errors import UsageError, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goalrunner.app.pruning import OldRun
    from goalrunner.core.base import Change


DECLINED = 1
"""Exit code when the answer was no."""


def restore_run(
    reference: str | None,
    number: int | None,
    *,
    snapshot: str | None = None,
    paths: Sequence[str] = (),
    yes: bool = False,
) -> int:
    """Restore the end of a round (0: the start of the run; None: the newest that ended) or a snapshot; return 0, or 1.

    `paths` restores these files alone.
    Raises UsageError without a terminal to ask on and without `yes`, for no such round and no such snapshot;
    WorkspaceError where the workspace or its store is gone, or a run works there.
    """
    import asyncio

    from goalrunner.app.run_snapshots import Restoration, snapshots_of
    from goalrunner.records.reading import read_records
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run
    from goalrunner.reports.patch import done_text, nothing_text, plan_text

    if number is not None and snapshot is not None:
        raise UsageError("ROUND and --snapshot cannot be combined", "use one of them")
    if not yes and not sys.stdin.isatty():
        raise UsageError("goal restore asks before it changes files, and stdin is not a terminal", "add --yes")
    home = goal_home(os.environ)
    folder = find_run(home, reference)
    known = snapshots_of(read_records(folder.events))
    columns = output.columns(sys.stdout)
    if snapshot is None:
        number, target = known.end(number)
        moment = f"as round {number} left it" if number else "as it was at the start of the run"
    work = Restoration(Path(known.workspace), home, os.environ, folder.path / "start")
    try:
        if snapshot is not None:
            target = asyncio.run(work.find(snapshot))
            moment = f"as snapshot {target.id[:12]} holds it"
        try:
            changes = asyncio.run(work.plan(target, paths))
        except WorkspaceError as error:
            raise _named(error, home, known.workspace) from error
        if not changes:
            output.say(nothing_text(known.workspace, moment))
            return 0
        if not yes:
            output.say(plan_text(known.workspace, moment, changes, columns=columns))
            if not _agreed(changes):
                output.complain("nothing was changed")
                return DECLINED
        done = asyncio.run(work.perform(target, paths))
    finally:
        work.close()
    output.say(done_text(folder.run_id, known.workspace, moment, done.changes, done.before, columns=columns))
    return 0


def _agreed(changes: tuple[Change, ...]) -> bool:
    from goalrunner.reports.patch import question

    output.say(question(changes))
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        output.say("\n")
    return answer.strip().lower() in ("y", "yes")


def _named(error: WorkspaceError, home: Path, workspace: str) -> WorkspaceError:
    """The error, naming the run that works in the workspace where one does."""
    from goalrunner.records.run_index import list_runs
    from goalrunner.reports.summary import RUNNING, Summary

    for values in list_runs(home):
        summary = Summary(values)
        if summary.text("workspace") == workspace and summary.status == RUNNING:
            pid = summary.integer("pid")
            who = f"run {summary.text('run_id')} works in {workspace} (process {pid})"
            return WorkspaceError(who, f"wait for it to end, or stop it: kill -INT {pid}")
    return error


def prune_runs(older_than: str, *, yes: bool = False, dry_run: bool = False, json: bool = False) -> int:
    """Remove every run that ended longer ago than that, and the snapshots that no run needs; gives exit code 0.

    Asks first, unless told not to; each run is named, and why it may go.
    """
    from datetime import UTC, datetime

    from goalrunner.app.pruning import (
        StoresPruned,
        finish_removals,
        half_removed,
        old_runs,
        orphans,
        prune_stores,
        remove_run,
    )
    from goalrunner.goalfile import parse_duration
    from goalrunner.records.run_folder import goal_home
    from goalrunner.reports.summary import json_text

    seconds = parse_duration(older_than)
    if seconds is None:
        raise UsageError(f'--older-than: "{older_than}" is not a valid duration', 'use "30d", "12h" or "90m"')
    home, now = goal_home(os.environ), datetime.now(UTC)
    found = old_runs(home, seconds, now)
    names = [run.folder.run_id for run in found]
    if found and not (dry_run or yes or _prune_agreed(found)):
        output.complain("nothing was removed")
        return 0
    if dry_run:
        stores, alone, half = StoresPruned(), orphans(home, names), len(half_removed(home))
    else:
        half = finish_removals(home)
        for run in found:
            remove_run(home, run.folder)
        stores, alone = prune_stores(home, os.environ, now.timestamp() - seconds), ()
    if json:
        why = {run.folder.run_id: {"why": run.why, "resumable": run.resumable} for run in found}
        kept = {
            "stores": list(stores.removed),
            "snapshots": stores.dropped,
            "left": list(stores.left),
            "half_removed": half,
        }
        output.say(json_text({"removed": [] if dry_run else names, "found": names, "why": why, **kept}))
        return 0
    verb = "would remove" if dry_run else "removed"
    output.say("".join(f"{verb}  {line}\n" for line in _lines(found)) or "no run ended that long ago\n")
    output.say("".join(f"{verb}  the snapshots of {place}, which has no runs left\n" for place in alone))
    if half:
        output.say(f"{verb}  what an interrupted goal prune left: {half} folder{'s' if half > 1 else ''}\n")
    if stores.removed or stores.dropped:
        others = f"{len(stores.removed)} snapshot stores, and {stores.dropped} snapshots in other stores"
        output.say(f"removed  {others}, which no run needs\n")
    for why_left in stores.left:
        output.complain(f"left  {why_left}")
    return 0


def _lines(found: Sequence[OldRun]) -> list[str]:
    return [f"{run.folder.run_id}  {run.why}" for run in found]


def _prune_agreed(found: Sequence[OldRun]) -> bool:
    count = f"{len(found)} runs" if len(found) > 1 else "1 run"
    if not sys.stdin.isatty():
        raise UsageError(
            f"{count} would be removed for good, and stdin is not a terminal", "add --yes, or --dry-run to list them"
        )
    output.complain("\n".join(_lines(found)))
    output.complain(f"remove {count} for good? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
