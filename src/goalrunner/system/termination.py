"""Ending a process and everything that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from signal import SIGKILL, SIGTERM, Signals

from goalrunner.system import adopted, process_table
from goalrunner.system.adopted import adopt_orphans
from goalrunner.system.child import Leader
from goalrunner.system.process_table import Mark

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


PARTING = 0.05
"""Seconds for those who are on their way out when the leader ends, such as a shell's `>(tee log)`."""

PATIENCE = 2.0
"""Seconds after which a process that does not even die of SIGKILL is given up."""


class Ending:
    """Ends one launch. `survivors` are the names of the processes that outlived their leader and were ended."""

    def __init__(self, leader: Leader, mark: Mark, grace: float, *, by_table: bool = sys.platform == "linux") -> None:
        """`by_table`: the system shows its table of processes; without, groups are all that is known."""
        self._leader = leader
        self._mark = mark
        self._grace = grace
        self._forced = False
        self._left: dict[int, str] = {}
        self._by_table = by_table
        self._groups: frozenset[int] | None = None

    @property
    def survivors(self) -> tuple[str, ...]:
        """In the order in which they were found."""
        return tuple(self._left.values())

    def living(self) -> dict[int, process_table.Entry]:
        """Every living process of the launch but the leader, by id; nobody where the system shows no table of them."""
        return self._rest_by_table() if self._by_table else {}

    async def gently(self) -> None:
        """SIGTERM to all, and time to go. Returns as soon as nobody is left, and at the end of the grace at the latest."""
        self._forced = not self._leader.ended()
        self._look_for_groups()
        if self._all_gone() or (not self._forced and await self._gone_within(PARTING)):
            return
        self._signal(SIGTERM)
        await self._gone_within(self._grace)

    def now(self) -> None:
        """SIGKILL to all who are left, without awaiting: works in a task that is being cancelled. Then all are reaped."""
        self._look_for_groups()
        deadline = time.monotonic() + PATIENCE
        pause = 0.001
        while not self._all_gone() and time.monotonic() < deadline:
            self._signal(SIGKILL)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _all_gone(self) -> bool:
        return self._leader.ended() and not self._rest()

    async def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = 0.001
        while not (gone := self._all_gone()) and time.monotonic() < deadline:
            if not self._leader.ended():
                await self._leader.wait(pause)
            else:
                await asyncio.sleep(pause)
            pause = min(2 * pause, 0.02)
        return gone

    def _signal(self, number: Signals) -> None:
        rest = self._rest()
        # Who is cut together with the leader, in its group, was not left behind.
        left = (one for one in rest.values() if not self._forced or one.group != self._leader.pid)
        self._left.update({one.pid: one.name for one in left})
        self._leader.signal_group(number)
        if not self._by_table:
            signal_groups(rest, number)
            return
        for one in rest.values():
            if one.group != self._leader.pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(one.pid, number)

    def _rest(self) -> dict[int, process_table.Entry]:
        """Every living process of the launch but the leader. Reaps those that are dead."""
        return self._rest_by_table() if self._by_table else self._rest_of_groups()

    def _rest_by_table(self) -> dict[int, process_table.Entry]:
        strangers = adopted.adopted()
        found = process_table.family([*self._roots(), *strangers])
        for one in found.values():
            # A stranger may be a process of another part of this program that is just ending: that part reaps it.
            if not one.living and one.parent == os.getpid() and one.pid not in strangers:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(one.pid, os.WNOHANG)
        return {pid: one for pid, one in found.items() if one.living}

    def _roots(self) -> list[int]:
        others = (
            process_table.children(os.getpid()) if adopt_orphans() else [one.pid for one in process_table.everybody()]
        )
        roots = [] if self._leader.ended() else process_table.children(self._leader.pid)
        return roots + [pid for pid in others if pid != self._leader.pid and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        """Whether a process bears our mark. Nobody comes back into this process's own session, so that is the first look."""
        one = process_table.entry(pid)
        if one is None or one.session == os.getsid(0):
            return False
        if self._leader.pid in (one.session, one.group) or process_table.has_token(pid, self._mark.token):
            return True
        return bool(self._leader.limit) and process_table.has_limit(pid, self._leader.limit)

    def _look_for_groups(self) -> None:
        """Before the first signal: whose parents are gone cannot be told from anybody else."""
        if not self._by_table and self._groups is None:
            self._groups = frozenset() if self._leader.ended() else groups_below(self._leader.pid)

    def _rest_of_groups(self) -> dict[int, process_table.Entry]:
        """One entry for each living group; the leader's own counts when the leader is over."""
        groups = set(living_groups(self._groups or ()))
        if self._leader.ended() and self._leader.group_lives():
            groups.add(self._leader.pid)
        return {
            pid: process_table.Entry(
                pid=pid, parent=1, group=pid, session=pid, name="a process of its group", living=True
            )
            for pid in sorted(groups)
        }
