"""JSON for machines. Owns its form (ASCII, so that no reader and no terminal trips over it) and the copy of an outcome."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.errors import GoalError, UsageError

if TYPE_CHECKING:
    from goalrunner.model.outcome import GoalOutcome


def json_text(value: Any) -> str:
    """Any JSON value, indented, ending in a newline."""
    return json.dumps(value, indent=2) + "\n"


def outcome_text(outcome: GoalOutcome) -> str:
    """An outcome as JSON text: the fields of `outcome.json`."""
    return json_text(outcome.model_dump(mode="json"))


def check_copy(path: Path) -> None:
    """Make sure, before anything is spent, that a copy can be put there. Raises UsageError that says why not."""
    parent = path.absolute().parent
    if path.is_dir():
        raise UsageError(f"--output {path} is a folder", "give the path of a file")
    if not parent.is_dir():
        what = "is no folder" if parent.exists() else "does not exist"
        raise UsageError(f"--output {path}: the folder {parent} {what}", f"mkdir -p {parent}")
    if not os.access(path if path.exists() and not path.is_file() else parent, os.W_OK):
        raise UsageError(f"--output {path}: the folder {parent} may not be written to", "choose another path")


def write_copy(path: Path, text: str) -> None:
    """Put the text there at once or not at all (a pipe or device is written as it is). Raises GoalError."""
    try:
        target = path.resolve()
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            target.write_text(text, encoding="utf-8")
            return
        _replace(target, text)
    except OSError as error:
        raise GoalError(f"--output {path} could not be written: {error.strerror or error}") from error


def _replace(target: Path, text: str) -> None:
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with fresh.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
