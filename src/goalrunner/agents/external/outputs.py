"""The output of a call on its way to those who keep it. Owns that a large one goes through a file, and is held once."""

from __future__ import annotations

from pathlib import Path

from goalrunner.errors import RecordError
from goalrunner.ports import Recorder

_LARGE = 1_000_000
"""Characters of an output that are handed on in a file; also of one piece of it."""


def handed_on(output: str, recorder: Recorder) -> bytes | Path:
    """The output as a tool's result has it. Raises RecordError where its file cannot be written."""
    if len(output) <= _LARGE:
        return output.encode("utf-8", "replace")
    path = recorder.scratch(".reported")
    try:
        with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
            for start in range(0, len(output), _LARGE):
                file.write(output[start : start + _LARGE])
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME") from error
    return path
