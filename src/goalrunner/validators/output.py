"""The part of an output that is fed back, and searching an output for a pattern."""

from __future__ import annotations

import json
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
_CONTINUATION = range(0x80, 0xC0)


def tail_of(path: Path) -> str:
    """The last FEEDBACK_TAIL characters of a file, without colour codes; invalid UTF-8 is replaced, no file is empty."""
    return tail(_end_of(path, _BYTES))


def last_lines(path: Path) -> list[str]:
    """The lines at the end of a file, without colour codes, where a test runner's summary stands; long ones are blank."""
    return lines_of(path, _LINES_BYTES)[0]


def lines_of(path: Path, most: int) -> tuple[list[str], bool]:
    """Return the lines of the last `most` bytes like `last_lines`, and whether they are the whole file."""
    lines = _COLOUR.sub("", _end_of(path, most)).split("\n")
    short = [line.rstrip("\r") if len(line) <= _LONGEST_LINE else "" for line in lines]
    return short, not path.exists() or path.stat().st_size <= most


def tail(text: str) -> str:
    """The last FEEDBACK_TAIL characters, without colour codes, NULs, and blanks at the ends."""
    return _COLOUR.sub("", text).replace("\0", "�").strip()[-FEEDBACK_TAIL:]


def _end_of(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - most, 0))
            data = file.read()
    except OSError:
        return ""
    if size > most:
        # The cut may have gone through a character: drop what is left of it.
        begin = next((at for at, byte in enumerate(data[:4]) if byte not in _CONTINUATION), 0)
        data = data[begin:]
    return data.decode(errors="replace")


def bounded(text: str) -> str:
    """A callable's feedback: whole up to four tails, then its two ends with the omission marked."""
    limit = 4 * FEEDBACK_TAIL
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters omitted ...]\n{text[-half:]}"


SEARCH_TIMEOUT = 20.0
"""Seconds; a pattern that backtracks without end is red after them."""

_FOUND, _ABSENT, _BAD_PATTERN = 10, 11, 12
"""Exit codes of the child; none that an interpreter gives by itself, so that an accident is neither."""

_SCRIPT = f"""
import json, re, sys
asked = json.load(sys.stdin)
try:
    pattern = re.compile(asked["pattern"], re.MULTILINE)
except (re.error, RecursionError, OverflowError):
    sys.exit({_BAD_PATTERN})
with open(asked["path"], "rb") as file:
    text = file.read().decode(errors="replace")
sys.exit({_FOUND} if pattern.search(text) else {_ABSENT})
"""


async def search(pattern: str, path: Path, launcher: Launcher, env: Mapping[str, str], output: Path) -> str:
    """What is wrong, or "" when `pattern` (Python's re, multiline) is found in the whole file. `output` is scratch."""
    request = json.dumps({"pattern": pattern, "path": str(path)}).encode()
    argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _SCRIPT]
    completion = await launcher.launch(
        argv, cwd=path.parent, env=env, output=output, timeout=SEARCH_TIMEOUT, stdin=request
    )
    output.unlink(missing_ok=True)
    if completion.timed_out:
        return f"looking for the pattern {pattern!r} took more than {SEARCH_TIMEOUT:g} s"
    match completion.exit_code:
        case 10:
            return ""
        case 11:
            return f"the output does not match {pattern!r}"
        case 12:
            return f"{pattern!r} is no regular expression"
        case _:
            return f"the pattern {pattern!r} could not be looked for: {completion.error or completion.exit_code}"
