"""The search for a pattern of the goal file in the whole output of a check.

It runs in a process of its own: a pattern may backtrack without end, and a search in
this process cannot be interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path

from goalrunner.core.ports import Completion

SEARCH_TIMEOUT = 20.0
"""Seconds, after which the result is red."""
_FOUND, _ABSENT = 10, 11
"""Exit codes of the child that searches; the interpreter itself does not use them."""
_SEARCH = f"""
import re, sys
with open(sys.argv[2], "rb") as file:
    text = file.read().decode(errors="replace")
sys.exit({_FOUND} if re.search(sys.argv[1], text, re.MULTILINE) else {_ABSENT})
"""


def search_command(pattern: str, path: Path) -> list[str]:
    """Return the command that searches a file; `pattern` is Python's re, multiline."""
    # -I and -S: nothing of the user's Python is loaded.
    python = [sys.executable, "-I", "-S", "-X", "utf8"]
    return [*python, "-c", _SEARCH, pattern, str(path)]


def why_no_match(pattern: str, completion: Completion) -> str:
    """Return why a search did not find its pattern; empty if it did."""
    if completion.timed_out:
        return (
            f"searching for the pattern {pattern!r} took more than {SEARCH_TIMEOUT:g} s"
        )
    if completion.exit_code == _FOUND:
        return ""
    if completion.exit_code == _ABSENT:
        return f"the output does not match {pattern!r}"
    error = completion.error or completion.exit_code
    return f"the pattern {pattern!r} could not be searched for: {error}"
