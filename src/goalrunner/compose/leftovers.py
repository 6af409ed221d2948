"""Checkouts that nobody uses any more: those of runs whose process is gone. Owns finding them; touches no record of a run."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from goalrunner.compose.refusals import CHECKOUTS
from goalrunner.eventlog import is_written
from goalrunner.runs import RunFolder
from goalrunner.workspace.restoration import clear


def checkouts_of(home: Path, run_id: str) -> Path:
    """The folder below which a run makes its checkouts."""
    return home / CHECKOUTS / run_id


def clear_leftovers(home: Path) -> None:
    """Remove the checkouts of runs that no process works on, in the background. Never raises."""
    with contextlib.suppress(OSError):
        found = [path for path in (home / CHECKOUTS).iterdir() if not _is_used(home, path)]
        if found:
            threading.Thread(target=_clear, args=(found,), name="goal-leftovers", daemon=True).start()


def clear_own(home: Path, run_id: str) -> None:
    """Remove a run's checkouts when it is over. Never raises."""
    _clear([checkouts_of(home, run_id)])


def _is_used(home: Path, path: Path) -> bool:
    return is_written(RunFolder(home / "runs" / path.name).events)


def _clear(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            clear(path)
