"""Becoming the parent of orphans. Owns the one call that asks the kernel for it."""

from __future__ import annotations

import sys
from functools import cache

_PR_SET_CHILD_SUBREAPER = 36


@cache
def adopt_orphans() -> bool:
    """Make this process the new parent of every descendant that loses its own; False where the system has no such thing.

    Without it a process that forks twice belongs to init and can no longer be told from anybody else's.
    """
    return sys.platform == "linux" and _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, argument: int) -> bool:
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(option, argument, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
