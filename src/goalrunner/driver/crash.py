"""A defect of the runner or of an adapter, kept for those who mend it. Owns where its traceback goes; ends nothing."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path


def kept_traceback(scratch: Callable[[str], Path], redact: Callable[[str], str]) -> str:
    """Write the traceback of the exception at hand into the run's folder; gives one line for people, and the path."""
    text = redact(traceback.format_exc())
    said = text.strip().splitlines()[-1]
    path = scratch(".traceback.txt")
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:  # a full disk, above all
        return f"{said}\nits traceback could not be written: {error.strerror}"
    return f"{said}\nthe traceback is in {path}"
