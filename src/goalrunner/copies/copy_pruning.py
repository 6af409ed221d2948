"""Freeing the space of copies: those of old runs, and frozen bases without a copy."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from goalrunner.app.pruning import OldRun
from goalrunner.copies.frozen_base import finished_bases
from goalrunner.copies.run_copy import RunCopy
from goalrunner.core.errors import GoalError
from goalrunner.records.removal import remove_whole


def with_copies(runs: Sequence[OldRun]) -> list[OldRun]:
    """Return those of the runs that have a copy."""
    return [run for run in runs if RunCopy.of(run.folder).exists]


def discard_copies(runs: Sequence[OldRun]) -> list[str]:
    """Remove the copies of runs, and nothing else of them; return why others stay."""
    failures: list[str] = []
    for run in runs:
        try:
            discard_copy(RunCopy.of(run.folder))
        except (GoalError, OSError) as error:
            failures.append(f"the copy of {run.folder.run_id}: {error}")
    return failures


def discard_copy(copy: RunCopy) -> None:
    """Remove a copy that no process uses. Raise WorkspaceBusy if one does, and
    OSError.
    """
    # Held to the end: a resumed run would otherwise find half a copy.
    lock = copy.lock()
    try:
        copy.discard()
    finally:
        os.close(lock)


def remove_unused_bases(home: Path, since: float, *, dry_run: bool) -> int:
    """Remove the frozen bases that no copy has used since then, in seconds since 1970.

    Return how many. Raise OSError.
    """
    removed = 0
    for place in (home / "bases").glob("*"):
        with contextlib.ExitStack() as handles:
            # A workspace with clones alone has no lock yet.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            lock = os.open(place / "lock", flags, 0o600)
            handles.callback(os.close, lock)
            # A copy that is being made holds it until it is a user of its base.
            fcntl.flock(lock, fcntl.LOCK_EX)
            for base in finished_bases(place):
                # A new user is a new entry in that folder.
                last_use = (base.folder / "users").stat().st_mtime
                if last_use > since or base.is_used():
                    continue
                removed += 1
                if not dry_run:
                    remove_whole(base.folder)
    return removed
