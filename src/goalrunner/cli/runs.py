"""The run that a command line names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import output
from goalrunner.records.run_folder import goal_home
from goalrunner.records.run_index import find_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goalrunner.core.events import Record
    from goalrunner.records.reading import TornTail
    from goalrunner.records.run_folder import RunFolder


def home() -> Path:
    """Return GOAL_HOME."""
    return goal_home(os.environ)


def find(reference: str | None) -> RunFolder:
    """Return the folder of a run, by id, its beginning or path; None is the newest run. Raise RunNotFound."""
    return find_run(home(), reference)


def records(folder: RunFolder) -> Iterator[Record]:
    """Return the records of a run's log."""
    from goalrunner.records.reading import read_records

    return read_records(folder.events)


def warn_torn(torn: TornTail) -> None:
    """Print that the incomplete last lines of a log are removed."""
    output.complain(f"Warning: {torn}; they are removed")


def is_file(path: Any) -> bool:
    """Return whether a path is a file. Never raise, also for paths that cannot exist."""
    return os.path.isfile(path)  # noqa: PTH113
