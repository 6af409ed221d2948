"""Looking for a pattern in an output. Owns the search, in a child process: a pattern can run away, and must be cut then."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from goalrunner.ports import Launcher

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
