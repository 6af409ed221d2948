"""`goal restore`: the workspace as it was. Asks first; owns the asking, and what is said when a run works there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.errors import UsageError, WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goalrunner.model.snapshot import Change

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

    from goalrunner import review, runs
    from goalrunner.eventlog import read_records
    from goalrunner.reports.restoring import done_text, nothing_text, plan_text

    if number is not None and snapshot is not None:
        raise UsageError("ROUND and --snapshot cannot be combined", "use one of them")
    if not yes and not sys.stdin.isatty():
        raise UsageError("goal restore asks before it changes files, and stdin is not a terminal", "add --yes")
    home = runs.goal_home(os.environ)
    folder = runs.find_run(home, reference)
    known = review.snapshots_of(read_records(folder.events))
    columns = output.columns(sys.stdout)
    if snapshot is None:
        number, target = known.end(number)
        moment = f"as round {number} left it" if number else "as it was at the start of the run"
    work = review.Restoration(Path(known.workspace), home, os.environ, folder.path / "start")
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
    from goalrunner.reports.restoring import question

    output.say(question(changes))
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        output.say("\n")
    return answer.strip().lower() in ("y", "yes")


def _named(error: WorkspaceError, home: Path, workspace: str) -> WorkspaceError:
    """The error, naming the run that works in the workspace where one does."""
    from goalrunner import runs
    from goalrunner.reports.summary import RUNNING, Summary

    for values in runs.list_runs(home):
        summary = Summary(values)
        if summary.text("workspace") == workspace and summary.status == RUNNING:
            pid = summary.integer("pid")
            who = f"run {summary.text('run_id')} works in {workspace} (process {pid})"
            return WorkspaceError(who, f"wait for it to end, or stop it: kill -INT {pid}")
    return error
