"""Processes that this program adopts because their parent ended (Linux)."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping
from functools import cache

from goalrunner.system import process_table

_PR_SET_CHILD_SUBREAPER = 36

HELPER = "GOALRUNNER_HELPER"
"""The environment variable of programs that the runner starts for itself, such as git."""

_token = secrets.token_hex(8)
_running: dict[int, tuple[str, int]] = {}
_before: frozenset[int] | None = None
_CONFIRMED = 0.01
"""Seconds between two looks at a process: one that is just being started shows no environment yet."""


@cache
def adopt_orphans() -> bool:
    """Become the parent of every descendant that loses its own parent; return False where the system cannot do it.

    Without it, a process that forks twice belongs to init, like any other process.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def claim_adopted() -> None:
    """Treat children as adopted from now on if this package does not start them; existing sessions are left alone."""
    global _before
    if _before is None and adopt_orphans():
        children = (process_table.entry(pid) for pid in process_table.children(os.getpid()))
        _before = frozenset({os.getsid(0), *(child.session for child in children if child is not None)})


def as_helper(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program that the runner starts for itself, in a session of its own."""
    return {**env, HELPER: _token}


def began(child: int, token: str, limit: int) -> None:
    """Note a command that was started, with its tags."""
    _running[child] = (token, limit)


def ended(child: int) -> None:
    """Note that a command has ended."""
    _running.pop(child, None)


def adopted() -> list[int]:
    """Return living children that were adopted and belong to no running command; none before `claim_adopted`."""
    if _before is None:
        return []
    found = [pid for pid in process_table.children(os.getpid()) if _is_adopted(pid, _before)]
    if found:
        time.sleep(_CONFIRMED)
    return [pid for pid in found if _is_adopted(pid, _before)]


def _is_adopted(pid: int, before: frozenset[int]) -> bool:
    one = process_table.entry(pid)
    if one is None or not one.living or one.session in before or {pid, one.session, one.group} & _running.keys():
        return False
    if process_table.is_fork_of(pid, os.getpid()) or process_table.has_variable(pid, HELPER, _token):
        return False
    for token, limit in _running.values():
        if process_table.has_token(pid, token) or (limit and process_table.has_limit(pid, limit)):
            return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
