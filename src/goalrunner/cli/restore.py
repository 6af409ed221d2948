"""`goal restore`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from goalrunner.cli import output, runs
from goalrunner.cli.options import Run, Yes
from goalrunner.core.errors import UsageError, WorkspaceError

DECLINED = 1
"""Exit code if the answer was no."""


def restore(
    run: Run = None,
    number: Annotated[
        int | None, Argument(metavar="ROUND", help="Number of a round; 0 is the start of the run.")
    ] = None,
    snapshot: Annotated[str | None, Option(metavar="ID", help="Restore this snapshot instead of a round.")] = None,
    path: Annotated[
        list[str] | None, Option("--path", metavar="PATH", help="Restore this file only; may be repeated.")
    ] = None,
    yes: Yes = False,
) -> int:
    """Restore the workspace to the end of a round.

    Asks first. The state before is kept as a snapshot; its id and the command that undoes the restore are printed. Ignored
    files, and HEAD, refs and index of your repositories stay as they are.
    """
    import asyncio

    from goalrunner.app.run_snapshots import Restoration, snapshots_of
    from goalrunner.reports.patch import done_text, nothing_text, plan_text, question

    if number is not None and snapshot is not None:
        raise UsageError("ROUND and --snapshot cannot be combined", "use one of them")
    if not yes and not sys.stdin.isatty():
        raise UsageError("goal restore asks before it changes files, and stdin is not a terminal", "add --yes")
    folder, paths, columns = runs.find(run), path or (), output.columns()
    known = snapshots_of(runs.records(folder))
    if snapshot is None:
        number, target = known.end(number)
        moment = f"as round {number} left it" if number else "as it was at the start of the run"
    work = Restoration(Path(known.workspace), runs.home(), os.environ, folder.path / "start")
    try:
        if snapshot is not None:
            target = asyncio.run(work.find(snapshot))
            moment = f"as snapshot {target.id[:12]} holds it"
        try:
            changes = asyncio.run(work.plan(target, paths))
        except WorkspaceError as error:
            raise _named(error, known.workspace) from error
        if not changes:
            output.say(nothing_text(known.workspace, moment))
            return 0
        if not yes:
            output.say(plan_text(known.workspace, moment, changes, columns=columns))
            if not output.agreed(question(changes)):
                output.complain("nothing was changed")
                return DECLINED
        done = asyncio.run(work.perform(target, paths))
    finally:
        work.close()
    output.say(done_text(folder.run_id, known.workspace, moment, done.changes, done.before, columns=columns))
    return 0


def _named(error: WorkspaceError, workspace: str) -> WorkspaceError:
    """Return the error; if a run works in the workspace, one that names it."""
    from goalrunner.records.run_index import list_runs
    from goalrunner.reports.summary import RUNNING, Summary

    for values in list_runs(runs.home()):
        summary = Summary(values)
        if summary.text("workspace") == workspace and summary.status == RUNNING:
            pid = summary.integer("pid")
            who = f"run {summary.text('run_id')} is active in {workspace} (process {pid})"
            return WorkspaceError(who, f"wait for it to end, or stop it: kill -INT {pid}")
    return error
