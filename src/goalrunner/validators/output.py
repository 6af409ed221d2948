"""The part of an output that is fed back, and searching an output for a pattern."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from goalrunner.core.process_ports import Launcher
from goalrunner.core.verdict import FEEDBACK_TAIL

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BYTES = 16 * FEEDBACK_TAIL
"""Enough for the characters of the tail and the colour codes among them."""
_LINES_BYTES = 256_000
_LONGEST_LINE = 1_000


def tail_of(path: Path) -> str:
    """Return the last FEEDBACK_TAIL characters of a file, without colour codes and NULs; empty if there is no file."""
    return _COLOUR.sub("", _end_of(path, _BYTES)).replace("\0", "�").strip()[-FEEDBACK_TAIL:]


def last_lines(path: Path) -> list[str]:
    """Return the lines at the end of a file, where a test runner's summary stands."""
    return lines_of(path, _LINES_BYTES)[0]


def lines_of(path: Path, most: int) -> tuple[list[str], bool]:
    """Return the lines of the last `most` bytes, without colour codes, and whether they are the whole file.

    Very long lines are blank.
    """
    lines = _COLOUR.sub("", _end_of(path, most)).split("\n")
    short = [line.rstrip("\r") if len(line) <= _LONGEST_LINE else "" for line in lines]
    return short, not path.exists() or path.stat().st_size <= most


def _end_of(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - most, 0))
            data = file.read()
    except OSError:
        return ""
    if size > most:  # the cut may have gone through a character
        data = data.lstrip(bytes(range(0x80, 0xC0)))
    return data.decode(errors="replace")


def bounded(text: str) -> str:
    """Return a callable's feedback: whole up to four tails, then its two ends with the omission marked."""
    limit = 4 * FEEDBACK_TAIL
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters omitted ...]\n{text[-half:]}"


SEARCH_TIMEOUT = 20.0
"""Seconds; a pattern that backtracks without end is red after them."""

_FOUND, _ABSENT = 10, 11
"""Exit codes of the child; none that an interpreter gives by itself."""
_SCRIPT = f"""
import re, sys
with open(sys.argv[2], "rb") as file:
    text = file.read().decode(errors="replace")
sys.exit({_FOUND} if re.search(sys.argv[1], text, re.MULTILINE) else {_ABSENT})
"""


async def search(pattern: str, path: Path, launcher: Launcher, env: Mapping[str, str], output: Path) -> str:
    """Return why `pattern` (Python's re, multiline) is not found in the whole file; empty if it is.

    `output` is scratch.
    """
    argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _SCRIPT, pattern, str(path)]
    completion = await launcher.launch(argv, cwd=path.parent, env=env, output=output, timeout=SEARCH_TIMEOUT)
    output.unlink(missing_ok=True)
    if completion.timed_out:
        return f"searching for the pattern {pattern!r} took more than {SEARCH_TIMEOUT:g} s"
    if completion.exit_code == _ABSENT:
        return f"the output does not match {pattern!r}"
    if completion.exit_code == _FOUND:
        return ""
    return f"the pattern {pattern!r} could not be searched for: {completion.error or completion.exit_code}"
