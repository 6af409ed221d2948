"""Ending a process and every process that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from signal import SIGKILL, SIGTERM, Signals

from goalrunner.system import adopted, process_table
from goalrunner.system.adopted import adopt_orphans
from goalrunner.system.child import ChildProcess
from goalrunner.system.process_table import Process, ProcessTag, send_signal

_PARTING = 0.05
"""Seconds for processes that are about to end by themselves when their parent ends, such as a shell's `>(tee log)`."""

PATIENCE = 2.0
"""Seconds after which a process that does not react to SIGKILL is given up."""


class Termination:
    """Ends one launch. `survivors` are the names of processes that outlived the child and had to be ended."""

    def __init__(self, child: ChildProcess, tag: ProcessTag, grace: float) -> None:
        self._child = child
        self._tag = tag
        self._grace = grace
        self._forced = False
        self._left: dict[int, str] = {}

    @property
    def survivors(self) -> tuple[str, ...]:
        """In the order in which they were found."""
        return tuple(self._left.values())

    async def gently(self) -> None:
        """Send SIGTERM to all processes of the launch and wait until they have ended, or until the grace is over."""
        self._forced = not self._child.ended()
        if self._all_gone() or (not self._forced and await self._gone_within(_PARTING)):
            return
        self._signal(SIGTERM)
        await self._gone_within(self._grace)

    def now(self) -> None:
        """Send SIGKILL to the rest and reap it. Never awaits, so that it works in a task that is being cancelled."""
        deadline = time.monotonic() + PATIENCE
        pause = 0.001
        while not self._all_gone() and time.monotonic() < deadline:
            self._signal(SIGKILL)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def living(self) -> dict[int, Process]:
        """Return every living process of the launch but the child itself, by id, and reap those that are dead."""
        orphans = adopted.adopted()
        found = process_table.family([*self._roots(), *orphans])
        for one in found.values():
            # A dead orphan may be a child of another part of this program, which reaps it.
            if not one.living and one.parent == os.getpid() and one.pid not in orphans:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(one.pid, os.WNOHANG)
        return {pid: one for pid, one in found.items() if one.living}

    def _all_gone(self) -> bool:
        return self._child.ended() and not self.living()

    async def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = 0.001
        while not (gone := self._all_gone()) and time.monotonic() < deadline:
            await (asyncio.sleep(pause) if self._child.ended() else self._child.wait(pause))
            pause = min(2 * pause, 0.02)
        return gone

    def _signal(self, number: Signals) -> None:
        rest = self.living().values()
        # Members of the child's group that are ended together with it were not left behind.
        self._left.update({one.pid: one.name for one in rest if not self._forced or one.group != self._child.pid})
        self._child.signal_group(number)
        for one in rest:
            if one.group != self._child.pid:
                send_signal(one.pid, number)

    def _roots(self) -> list[int]:
        everyone = (
            process_table.children(os.getpid())
            if adopt_orphans()
            else [one.pid for one in process_table.all_processes()]
        )
        below = [] if self._child.ended() else process_table.children(self._child.pid)
        return below + [pid for pid in everyone if pid != self._child.pid and self._is_ours(pid)]

    def _is_ours(self, pid: int) -> bool:
        one = process_table.entry(pid)
        # The first look costs least: a process never returns to the session of this program.
        if one is None or one.session == os.getsid(0):
            return False
        if self._child.pid in (one.session, one.group) or process_table.has_token(pid, self._tag.token):
            return True
        return bool(self._child.limit) and process_table.has_limit(pid, self._child.limit)
