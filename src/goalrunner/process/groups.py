"""The process groups of a launch, for systems that show no /proc (macOS). Owns asking `ps` and signalling groups.

Coding agents put their commands into groups of their own. As long as the leader lives, `ps` shows who stems from it, and
so which groups are the launch's: they all lie in sessions that began with it, and nobody else can join them. Once it is
gone, nothing tells any more; so they are looked up before the first signal.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable
from signal import Signals

_PS = ("/bin/ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "pgid=")
"""By its path: a PATH may begin in the workspace. Each column by an option of its own, as every system takes it."""
_PATIENCE = 2.0
"""Seconds in which it must have answered."""


def groups_below(leader: int) -> frozenset[int]:
    """The groups of everybody who stems from a living leader, but for its own; none where `ps` does not say."""
    return frozenset(_groups(leader, _listed()) - {leader})


def living_groups(groups: Iterable[int]) -> frozenset[int]:
    """Those that still have members. Reaps members that are dead and ours."""
    return frozenset(group for group in groups if _lives(group))


def signal_groups(groups: Iterable[int], number: Signals) -> None:
    """Send a signal to every member."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _groups(leader: int, listed: list[tuple[int, int, int]]) -> set[int]:
    children: dict[int, list[int]] = {}
    group_of: dict[int, int] = {}
    for pid, parent, group in listed:
        children.setdefault(parent, []).append(pid)
        group_of[pid] = group
    found: set[int] = set()
    seen: set[int] = set()
    waiting = [leader] if group_of.get(leader) == leader else []
    while waiting:
        pid = waiting.pop()
        if pid not in seen:
            seen.add(pid)
            found.add(group_of[pid])
            waiting += children.get(pid, [])
    return found


def _listed() -> list[tuple[int, int, int]]:
    """Process, parent and group of everybody."""
    try:
        said = subprocess.run(
            _PS,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            env={"PATH": os.defpath, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = (line.split() for line in said.stdout.decode("ascii", "replace").splitlines())
    return [(int(row[0]), int(row[1]), int(row[2])) for row in rows if len(row) == 3 and all(map(str.isdecimal, row))]


def _lives(group: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # the second one: on macOS, of dead members alone
        return False
    return True
