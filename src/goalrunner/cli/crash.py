"""An unexpected exception: one line on stderr, and the traceback in a file."""

from __future__ import annotations

import os
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

from goalrunner import __version__
from goalrunner.reports.text import cut, one_line

_LONGEST = 300


def crash_text(error: BaseException) -> str:
    """Write the traceback to a file and return a message with its path. Never raise."""
    name = type(error).__name__
    try:
        name = one_line(_redacted("".join(traceback.format_exception_only(error))))
        where = f"The traceback is in {_write(error)}"
    except Exception:
        where = "The traceback could not be written."
    return f"Error: internal error, a defect of goal: {cut(name, _LONGEST)}\n{where}"


def _write(error: BaseException) -> Path:
    text = f"goal {__version__}\n\n" + "".join(traceback.format_exception(error))
    data = _redacted(text).encode("utf-8", errors="replace")
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.txt"
    try:
        from goalrunner.records.run_folder import goal_home

        folder = goal_home(os.environ) / "crashes"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return _create(folder / name, data)
    except Exception:  # GOAL_HOME may be the cause of the crash
        return _create(Path(tempfile.mkdtemp(prefix="goal-")) / name, data)


def _create(path: Path, data: bytes) -> Path:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    return path


def _redacted(text: str) -> str:
    """Return the text without secrets: the message of an exception may contain a key."""
    from goalrunner.records.redaction import Redactor

    return Redactor(os.environ).text(text)
