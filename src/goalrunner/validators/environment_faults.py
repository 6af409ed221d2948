"""Signs that a check is red because of its environment, not because of the work."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from goalrunner.core.tools import PYTEST_NO_TESTS, PYTEST_USAGE
from goalrunner.core.verdict import ValidatorResult

_ENVIRONMENTAL = re.compile(
    r"ModuleNotFoundError|ImportError|No module named|Cannot find module"
    r"|ERR_MODULE_NOT_FOUND|not found|No such file"
    r"|error while loading shared libraries"
    r"|collected 0 items|no tests ran|Interrupted: \d+ error",
    re.IGNORECASE,
)
"""Output of checks that miss something, rather than finding a fault in the work."""
_NO_SPACE = re.compile(
    r"ENOSPC|No space left on device|Disk quota exceeded", re.IGNORECASE
)
_BY_KERNEL = re.compile(
    rf"EXDEV|cross-device link|{_NO_SPACE.pattern}|Operation not permitted"
    r"|unshare\b.*failed|Read-only file system",
    re.IGNORECASE,
)
"""Output about calls that the kernel refuses in the check environment.

It may allow them outside of it.
"""
# Some file systems keep a few blocks free.
_FREE_BYTES = 1_000_000
_PYTEST_ERRORS = (2, PYTEST_USAGE, PYTEST_NO_TESTS)


def is_environmental(result: ValidatorResult, *, incomplete: bool) -> bool:
    """Return whether a red result may be the fault of the environment.

    A program or module is missing, or there are no tests. With `incomplete`, a part of
    the workspace is missing, so messages about missing files count as well.
    """
    # 126 and 127: the shell did not start the program.
    could_not_start = result.exit_code in (126, 127) or result.reason == "not_found"
    if could_not_start or result.cannot_run:
        return True
    if result.exit_code in _PYTEST_ERRORS and "pytest" in result.command:
        return True
    if _BY_KERNEL.search(result.feedback):
        return True
    return incomplete and _ENVIRONMENTAL.search(result.feedback) is not None


def without_space(results: Iterable[ValidatorResult], folder: Path) -> str:
    """Return why validators failed if the disk of a folder is full; else "".

    One of them must say so: a disk that fills later is not the cause.
    """
    for result in results:
        if not result.passed and _NO_SPACE.search(result.feedback):
            is_full = shutil.disk_usage(folder).free < _FREE_BYTES
            return f"no space left in {folder}" if is_full else ""
    return ""
