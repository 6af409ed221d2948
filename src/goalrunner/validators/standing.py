"""What a check's result means before the work begins. Owns the difference between red and cannot run; runs nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from goalrunner.model.validation import ValidatorResult
from goalrunner.process.program import SHELL
from goalrunner.validators.programs import programs

Standing = Literal["green", "red", "cannot_run"]

_MISSING = re.compile(r"not found|no such file", re.IGNORECASE)
_NO_SHELL = f"{SHELL}: not found"
_NOT_FOUND = 127

_ENVIRONMENTAL = re.compile(
    r"ModuleNotFoundError|ImportError|No module named|Cannot find module|ERR_MODULE_NOT_FOUND|not found|No such file"
    r"|error while loading shared libraries|collected 0 items|no tests ran|Interrupted: \d+ error",
    re.IGNORECASE,
)
"""What a check prints that misses something in its environment, rather than finding a fault in the work."""
_PYTEST_ERRORS = (2, 4, 5)
"""Exit codes of pytest for a collection error, a usage error, and no tests."""


def standing(result: ValidatorResult, workspace: Path) -> Standing:
    """Green, red, or cannot run: the validator's own program is missing from the machine.

    A script, a module or a test that is not there yet inside the workspace is red: that may be what the work is to bring.
    So is a program that a script of the workspace misses in its turn.
    """
    if result.passed:
        return "green"
    if result.reason != "not_found" or result.exit_code not in (None, _NOT_FOUND):
        return "red"
    if result.summary == _NO_SHELL:
        return "cannot_run"
    if result.exit_code is None or not _MISSING.search(result.summary):
        return "red"
    started = [word for program in programs(result.command) for word in (*program.through, *program.words[:1])]
    named = [word for word in started if _is_named(word, result.summary)]
    # `./pytest` also holds the word `pytest`: what was written longest is what was meant.
    missing = max(named, key=len, default="")
    return "cannot_run" if missing and not _lies_inside(missing, workspace) else "red"


def _is_named(word: str, message: str) -> bool:
    return re.search(rf"(?<![\w./-]){re.escape(word)}(?![\w./-])", message) is not None


def _lies_inside(word: str, workspace: Path) -> bool:
    """Whether it is a path, and one of the workspace. `$HOME/x` is no path that could be known."""
    if "/" not in word:
        return False
    root = os.path.realpath(workspace)
    path = os.path.normpath(os.path.join(root, word))  # noqa: PTH118 - what is missing has no links
    return path.startswith(root + os.sep)


def is_environmental(result: ValidatorResult, *, incomplete: bool) -> bool:
    """Return whether a red result may be the fault of the environment: a missing program or module, or no tests.

    With `incomplete`, something of the workspace is not there, so what a program prints about missing files counts too.
    """
    if result.exit_code in (126, _NOT_FOUND) or result.reason == "not_found" or result.cannot_run:
        return True
    by_pytest = result.exit_code in _PYTEST_ERRORS and "pytest" in result.command
    return by_pytest or (incomplete and bool(_ENVIRONMENTAL.search(result.feedback)))
