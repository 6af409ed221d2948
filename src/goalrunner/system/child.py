"""A started process, the leader of a session of its own, and the end of all its descendants."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals

import psutil

from goalrunner.system import processes
from goalrunner.system.processes import (
    Process,
    Watchdog,
    adopt_orphans,
    lowered_limit,
    send_signal,
    tagged,
)

NOT_EXECUTABLE = 126
NOT_FOUND = 127


class NotStarted(Exception):
    """The process could not be started; `exit_code` is what a shell would give."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.reason = reason


_PARTING = 0.05
"""Seconds for processes that are about to end by themselves when their parent ends, such as a shell's `>(tee log)`."""

PATIENCE = (
    2.0  # seconds after which a process that does not react to SIGKILL is given up
)


class ChildProcess:
    """A started process, the leader of a session of its own, with all of its descendants.

    `status` is its exit status, minus the number for a signal; None while it runs, or if the status is lost. `survivors`
    are the names of processes that outlived it and had to be ended, in the order in which they were found.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], token: str, limit: int, grace: float
    ) -> None:
        self.pid = process.pid
        self.status: int | None = None
        self._process = process
        self._token = token
        self._limit = limit
        self._grace = grace
        self._over = False
        self._forced = False
        self._gone = False
        self._left: dict[int, str] = {}
        self._pidfd: int | None = None
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)

    @property
    def survivors(self) -> tuple[str, ...]:
        return tuple(self._left.values())

    def ended(self) -> bool:
        """Return whether it has ended, at the cost of one system call."""
        if not self._over:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._over = pid == self.pid
                self.status = os.waitstatus_to_exitcode(status) if self._over else None
            except ChildProcessError:  # reaped by other code in this program
                self._over = True
            # Popen would wait again when it is deleted, and takes a lost status for 0.
            if self._over:
                self._process.returncode = (
                    NOT_EXECUTABLE if self.status is None else self.status
                )
        return self._over

    async def wait(self, seconds: float) -> bool:
        """Wait at most that long for its end; return `ended()`."""
        if self._pidfd is None or self.ended():
            return await self._until(self.ended, seconds)
        await ready(self._pidfd, seconds)
        return self.ended()

    def signal_group(self, number: Signals) -> None:
        """Send a signal to every process that is still in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def living(self) -> dict[int, Process]:
        """Return every living process of the launch but the child itself, by id, and reap those that are dead."""
        return {pid: one for pid, one in self._found().items() if one.living}

    def processor_time(self) -> float:
        """Return the seconds of processor time that its processes have used, as far as they can still be counted."""
        return processes.processor_time((self.pid, *self._found()))

    def _found(self) -> dict[int, Process]:
        """Return every process of the launch but the child itself, by id, with the dead ones that this call reaps."""
        everyone = (
            processes.children(os.getpid(), recursive=True)
            if adopt_orphans()
            else psutil.pids()
        )
        parent = None if self.ended() else self.pid
        found: dict[int, Process] = {}
        for one in filter(None, map(processes.entry, everyone)):  # parents come first
            if one.pid != self.pid and (
                one.parent in found or one.parent == parent or self._is_ours(one)
            ):
                found[one.pid] = one
        for one in found.values():
            if not one.living and one.parent == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(one.pid, os.WNOHANG)
        return found

    async def end(self) -> None:
        """Send SIGTERM to all processes of the launch, and SIGKILL to those that have not ended when the grace is over."""
        try:
            self._forced = not self.ended()
            if not self._all_gone() and (
                self._forced or not await self._until(self._all_gone, _PARTING)
            ):
                self._signal(SIGTERM)
                await self._until(self._all_gone, self._grace)
        finally:
            self._kill()

    def _kill(self) -> None:
        """Send SIGKILL until all have ended. Never awaits, so that it works in a task that is being cancelled."""
        deadline = time.monotonic() + PATIENCE
        pause = 0.001
        while not self._all_gone() and time.monotonic() < deadline:
            self._signal(SIGKILL)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _all_gone(self) -> bool:
        # A process that is found dead may have forked after the processes were listed.
        self._gone = self._gone or (self.ended() and not self._found())
        return self._gone

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait at most that long until the condition is true; return whether it is."""
        deadline = time.monotonic() + seconds
        pause = 0.001
        while not (met := condition()) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.02)
        return met

    def _signal(self, number: Signals) -> None:
        rest = self.living().values()
        # Members of the child's group that are ended together with it were not left behind.
        self._left.update(
            {
                one.pid: one.name
                for one in rest
                if not self._forced or one.group != self.pid
            }
        )
        # Once the child was reaped, its id stays reserved only as long as its group has members.
        if not self.ended() or any(one.group == self.pid for one in rest):
            self.signal_group(number)
        for one in rest:
            if one.group != self.pid:
                send_signal(one.pid, number)

    def _is_ours(self, one: Process) -> bool:
        # The first look costs least: a process never returns to the session of this program.
        if one.session == os.getsid(0):
            return False
        has_tag = processes.has_token(one.pid, self._token) or (
            self._limit and processes.limit_of(one.pid) == self._limit
        )
        return bool(has_tag) or self.pid in (one.session, one.group)


async def ready(file: int, seconds: float, *, to_write: bool = False) -> None:
    """Wait until an open file can be read, or written, but at most that long."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    add, remove = (
        (loop.add_writer, loop.remove_writer)
        if to_write
        else (loop.add_reader, loop.remove_reader)
    )
    add(file, over.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await over.wait()
    finally:
        with contextlib.suppress(OSError, ValueError):
            remove(file)


@asynccontextmanager
async def started(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    watchdog: Watchdog,
    grace: float,
    marked: bool = True,
) -> AsyncIterator[ChildProcess]:
    """Start `argv` in a session of its own with open files for its streams; at the end all of its processes end.

    Without `marked`, they get no tag in their environment. Raise NotStarted if it cannot be started.
    """
    adopt_orphans()
    watchdog.watch()
    token, limit = secrets.token_hex(8), watchdog.next_limit()
    env = tagged(env, watchdog.token, token) if marked else env
    # Some programs, such as opencode, work in PWD rather than in their current directory.
    env = {**env, "PWD": str(cwd.absolute())} if "PWD" in env else env
    stdin, stdout, stderr = streams
    try:
        with lowered_limit(limit):
            process = subprocess.Popen(  # noqa: ASYNC220 - starting takes a millisecond
                argv,
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
    except FileNotFoundError as error:
        why = unstartable(argv, cwd, env) or NotStarted(
            NOT_FOUND, f"{argv[0]}: its interpreter is missing"
        )
        raise why from error
    except (OSError, ValueError, IndexError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise unstartable(argv, cwd, env) or NotStarted(
            NOT_EXECUTABLE, f"{argv[0]}: {reason.lower()}"
        ) from error
    child = ChildProcess(process, token, limit, grace)
    try:
        yield child
    finally:
        await child.end()


def unstartable(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> NotStarted | None:
    """Return why `argv` cannot be started in `cwd`, judging by the files; None if it can."""
    program = argv[0] if argv else ""
    if not program:
        return NotStarted(NOT_FOUND, "there is no command to run")
    if not cwd.is_dir():
        what = "is not a folder" if cwd.exists() else "does not exist"
        return NotStarted(NOT_EXECUTABLE, f"the folder {cwd} {what}")
    found = (
        cwd / program
        if "/" in program
        else shutil.which(program, path=env.get("PATH", os.defpath))
    )
    if found is None or not Path(found).exists():
        return NotStarted(NOT_FOUND, f"{program}: not found")
    is_program = os.access(found, os.X_OK) and not Path(found).is_dir()
    return (
        None
        if is_program
        else NotStarted(NOT_EXECUTABLE, f"{program}: permission denied")
    )


_SHELL_SIGNAL = 128  # shells and sandboxes report a signal as this plus its number


def describe_signal(status: int) -> str:
    """Return what ended a process with that status, such as "killed by SIGKILL"; empty if it exited."""
    return "" if status >= 0 else f"killed by {_name(-status)}"


def describe_status(status: int) -> str:
    """Return "exit 1", "exit 137: SIGKILL" for a process within a shell or sandbox, or "killed by SIGKILL"."""
    number = status - _SHELL_SIGNAL
    return describe_signal(status) or (
        f"exit {status}: {_name(number)}"
        if number in set(Signals)
        else f"exit {status}"
    )


def _name(number: int) -> str:
    return Signals(number).name if number in set(Signals) else f"signal {number}"
