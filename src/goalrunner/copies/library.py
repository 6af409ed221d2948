"""The functions of the library that bring the change of a run into its workspace."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from pathlib import Path

from goalrunner.app.library import run_blocking
from goalrunner.app.previous_run import Reference, load_run, run_folder
from goalrunner.copies.applying import Application, refuse_unfinished
from goalrunner.core.errors import UsageError
from goalrunner.core.outcome import GoalOutcome
from goalrunner.records.run_folder import RunFolder, goal_home


def apply(
    run: Reference,
    *,
    check: bool | None = None,
    incomplete: bool = False,
    home: Path | str | None = None,
) -> tuple[str, ...]:
    """Run `aapply`, with the same arguments, in an event loop of its own.

    Raise UsageError inside a running event loop.

    >>> from goalrunner import apply, best_of
    >>> result = best_of("goal.toml", n=3)  # doctest: +SKIP
    >>> apply(result.winner)  # the changed paths  # doctest: +SKIP
    ('src/parser.py',)
    """
    work = aapply(run, check=check, incomplete=incomplete, home=home)
    return run_blocking(work, "apply", "aapply")


async def aapply(
    run: Reference,
    *,
    check: bool | None = None,
    incomplete: bool = False,
    home: Path | str | None = None,
) -> tuple[str, ...]:
    """Bring the verified change of a run in a copy into its workspace.

    `run` is its outcome, its folder, or its id; or the id of a group, of which the best
    run is taken. What was changed meanwhile is merged with it. `check` says whether the
    validators run on the merged tree; None: if the workspace has changed since the run
    began. `incomplete` allows a run that is not complete. `home` is the folder of all
    runs (default: GOAL_HOME). Return the changed paths, relative to the workspace; none
    if it has the change already.

    Raise UsageError for a run that is not complete, for conflicts, and if the
    validators fail on the merged tree: then nothing was written. Raise WorkspaceError
    if a file cannot be written.

    >>> import asyncio
    >>> from goalrunner import aapply, abest_of
    >>> result = asyncio.run(abest_of("goal.toml", 3))  # doctest: +SKIP
    >>> asyncio.run(aapply(result.winner))  # doctest: +SKIP
    ('src/parser.py',)
    """
    folder = Path(home or goal_home(os.environ))
    return await _applied(
        _folder_of(run, folder), folder, check=check, incomplete=incomplete
    )


def _folder_of(run: Reference, home: Path) -> RunFolder:
    from goalrunner.batches.group_runs import run_or_batch

    if isinstance(run, GoalOutcome):
        return run_folder(run, home)
    named = run_or_batch(home, str(run))
    if isinstance(named, RunFolder):
        return named
    raise UsageError(
        f"{named.batch_id} is a batch of different goals, of which none is the best",
        f"goal apply {named.batch_id} merges all verified changes onto a branch",
    )


async def _applied(
    folder: RunFolder, home: Path, *, check: bool | None, incomplete: bool
) -> tuple[str, ...]:
    loaded = load_run(folder)
    refuse_unfinished(folder, loaded.outcome(folder), incomplete=incomplete)
    application = Application(folder, loaded, home, os.environ)
    with closing(application):
        application.refuse_unready()
        await application.undo_interrupted()
        tree = await application.merge()
        if check is None:
            check = bool(await application.moved(tree) or application.only_in_copy)
        if tree.entries and check:
            # It waits for a process in a copy of the workspace.
            await asyncio.to_thread(application.check, tree)
        applied = await application.write(tree)
    return tuple(change.path for change in applied.changes)
