"""Processes that this program adopts because their parent ended."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping
from functools import cache

from goalrunner.system import process_table

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


HELPER = "GOALRUNNER_HELPER"
"""Marks what the runner starts for itself, such as git."""

_token = secrets.token_hex(8)
_running: dict[int, tuple[str, int]] = {}
_before: frozenset[int] | None = None
_CONFIRMED = 0.01
"""Seconds after which a process is looked at again: one that is just being started shows no environment yet."""


def claim_adopted() -> None:
    """Treat every child as adopted that this package does not start from now on; its sessions so far are left alone."""
    global _before
    if _before is None and adopt_orphans():
        children = (process_table.entry(pid) for pid in process_table.children(os.getpid()))
        _before = frozenset({os.getsid(0), *(child.session for child in children if child is not None)})


def as_helper(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that the runner starts for itself, in a session of its own."""
    return {**env, HELPER: _token}


def began(leader: int, token: str, limit: int) -> None:
    """Note a command that runs, with its marks."""
    _running[leader] = (token, limit)


def ended(leader: int) -> None:
    """Note that a command is over."""
    _running.pop(leader, None)


def adopted() -> list[int]:
    """Return the living children that were adopted and belong to no running command; none without `claim_adopted`."""
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
    return _may_be_ended(pid)


def _may_be_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
