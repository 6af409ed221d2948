"""A started process and all of its descendants."""

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

from goalrunner.system import launch_tags, processes
from goalrunner.system.event_loop import ready
from goalrunner.system.processes import Process, adopt_orphans, send_signal
from goalrunner.system.watchdog import Watchdog

# The exit codes of a shell for a program that it cannot start.
NOT_EXECUTABLE = 126
NOT_FOUND = 127


class NotStarted(Exception):
    """The process could not be started; `exit_code` is what a shell would give."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.reason = reason


# Seconds for processes that are about to end by themselves when their parent ends, such
# as a shell's `>(tee log)`.
_PARTING = 0.05

PATIENCE = 2.0
"""Seconds after which a process that does not react to SIGKILL is given up."""

# Seconds between two looks; a process that ends at once is noticed at once.
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02


class ChildProcess:
    """A started process, the leader of a session of its own, with its descendants.

    `status` is its exit status, minus the number for a signal; None while it runs, or
    if the status is lost. `survivors` are the names of processes that outlived it and
    had to be ended, in the order in which they were found.
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
        self._has_ended = False
        self._is_forced = False
        self._all_have_ended = False
        self._survivors: dict[int, str] = {}
        self._pidfd: int | None = None
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)

    @property
    def survivors(self) -> tuple[str, ...]:
        return tuple(self._survivors.values())

    def ended(self) -> bool:
        """Return whether it has ended, at the cost of one system call."""
        if self._has_ended:
            return True
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            # Reaped by other code in this program; the status is lost.
            self._has_ended = True
        else:
            if pid != self.pid:
                return False
            self._has_ended = True
            self.status = os.waitstatus_to_exitcode(status)
        # Popen would wait again when it is deleted, and takes a lost status for 0.
        is_lost = self.status is None
        self._process.returncode = NOT_EXECUTABLE if is_lost else self.status
        return True

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
        """Return every living process of the launch but the child itself, by id.

        Those that are dead are reaped.
        """
        return {pid: one for pid, one in self._descendants().items() if one.living}

    def processor_time(self) -> float:
        """Return the seconds of processor time that its processes have used.

        The time of an ended process counts while the parent that waited for it lives.
        """
        return processes.processor_time((self.pid, *self._descendants()))

    def _descendants(self) -> dict[int, Process]:
        """Return every process of the launch but the child itself, by id.

        It includes the dead ones, which this call reaps.
        """
        if adopt_orphans():
            candidates = processes.children(os.getpid(), recursive=True)
        else:
            candidates = psutil.pids()
        # After the child was reaped, another process may get its id.
        parent = None if self.ended() else self.pid
        descendants: dict[int, Process] = {}
        # Parents come first, so children of descendants are recognised.
        for pid in candidates:
            process = processes.entry(pid)
            if process is None or pid == self.pid:
                continue
            is_child = process.parent == parent or process.parent in descendants
            if is_child or self._is_of_launch(process):
                descendants[pid] = process
        for process in descendants.values():
            if not process.living and process.parent == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
        return descendants

    async def end(self) -> None:
        """End all processes of the launch.

        They get SIGTERM, and SIGKILL if they have not ended when the grace is over.
        """
        try:
            self._is_forced = not self.ended()
            if not await self._end_by_themselves():
                self._signal(SIGTERM)
                await self._until(self._all_gone, self._grace)
        finally:
            self._kill()

    async def _end_by_themselves(self) -> bool:
        """Return whether all have ended, without a signal."""
        if self._all_gone():
            return True
        return not self._is_forced and await self._until(self._all_gone, _PARTING)

    def _kill(self) -> None:
        """Send SIGKILL until all have ended."""
        # It never awaits, so that it works in a task that is being cancelled.
        deadline = time.monotonic() + PATIENCE
        pause = _FIRST_PAUSE
        while not self._all_gone() and time.monotonic() < deadline:
            self._signal(SIGKILL)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def _all_gone(self) -> bool:
        # Dead processes count as well: such a process may have forked after the
        # processes were listed.
        if not self._all_have_ended:
            self._all_have_ended = self.ended() and not self._descendants()
        return self._all_have_ended

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait at most that long until the condition is true; return whether it is."""
        deadline = time.monotonic() + seconds
        pause = _FIRST_PAUSE
        while not (is_met := condition()) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return is_met

    def _signal(self, number: Signals) -> None:
        """Send a signal to all processes of the launch, and note the survivors."""
        living = self.living().values()
        for process in living:
            # Members of the child's group that are ended together with it were not left
            # behind.
            if not self._is_forced or process.group != self.pid:
                self._survivors[process.pid] = process.name
        # Once the child was reaped, its id stays reserved only as long as its group has
        # members.
        if not self.ended() or any(process.group == self.pid for process in living):
            self.signal_group(number)
        for process in living:
            if process.group != self.pid:
                send_signal(process.pid, number)

    def _is_of_launch(self, process: Process) -> bool:
        """Return whether a process has a tag of the launch, or its session or group."""
        # This look costs least: no process returns to the session of this program.
        if process.session == os.getsid(0):
            return False
        if launch_tags.has_token(process.pid, self._token):
            return True
        if self._limit and launch_tags.limit_of(process.pid) == self._limit:
            return True
        if self.pid in (process.session, process.group):
            return True
        # Orphans become children of this program. Without tags, one may be of any
        # launch; no launch may leave it behind.
        is_adopted = bool(self._limit) and process.parent == os.getpid()
        return is_adopted and launch_tags.has_left_launch(process.pid)


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
    """Start `argv` in a session of its own; at the end all of its processes end.

    `streams` are open files for stdin, stdout and stderr. Without `marked`, the
    processes get no tag in their environment. Raise NotStarted if it cannot be started.
    """
    adopt_orphans()
    watchdog.watch()
    token = secrets.token_hex(8)
    limit = watchdog.next_limit()
    if marked:
        env = launch_tags.tagged(env, watchdog.token, token)
    # Some programs, such as opencode, work in PWD rather than in their current folder.
    if "PWD" in env:
        env = {**env, "PWD": str(cwd.absolute())}
    stdin, stdout, stderr = streams
    try:
        with launch_tags.lowered_limit(limit):
            # Starting takes a millisecond.
            process = subprocess.Popen(  # noqa: ASYNC220
                argv,
                cwd=cwd,
                env=env,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
    except (OSError, ValueError, IndexError) as error:
        raise unstartable(argv, cwd, env) or _refusal(argv, error) from error
    launch_tags.cannot_raise(process.pid, limit)
    child = ChildProcess(process, token, limit, grace)
    with launch_tags.living_launch(token, limit):
        try:
            yield child
        finally:
            await child.end()


def _refusal(argv: Sequence[str], error: Exception) -> NotStarted:
    """Return why the system did not start a program that looks startable."""
    if isinstance(error, FileNotFoundError):
        return NotStarted(NOT_FOUND, f"{argv[0]}: its interpreter is missing")
    reason = str(error)
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    return NotStarted(NOT_EXECUTABLE, f"{argv[0]}: {reason.lower()}")


def unstartable(
    argv: Sequence[str], cwd: Path, env: Mapping[str, str]
) -> NotStarted | None:
    """Return why `argv` cannot be started in `cwd`, judging by the files.

    None if it can.
    """
    program = argv[0] if argv else ""
    if not program:
        return NotStarted(NOT_FOUND, "there is no command to run")
    if not cwd.is_dir():
        what = "is not a folder" if cwd.exists() else "does not exist"
        return NotStarted(NOT_EXECUTABLE, f"the folder {cwd} {what}")
    path: Path | None = cwd / program
    if "/" not in program:
        match = shutil.which(program, path=env.get("PATH", os.defpath))
        path = Path(match) if match else None
    if path is None or not path.exists():
        return NotStarted(NOT_FOUND, f"{program}: not found")
    if path.is_dir() or not os.access(path, os.X_OK):
        return NotStarted(NOT_EXECUTABLE, f"{program}: permission denied")
    return None


# Shells and sandboxes report a signal as this plus its number.
_SHELL_SIGNAL = 128


def describe_signal(status: int) -> str:
    """Return "killed by SIGKILL" for a process that a signal ended; else empty."""
    return "" if status >= 0 else f"killed by {_signal_name(-status)}"


def describe_status(status: int) -> str:
    """Return the end of a process in words.

    It is "exit 1", "exit 137: SIGKILL" for a process within a shell or sandbox, or
    "killed by SIGKILL".
    """
    if status < 0:
        return describe_signal(status)
    number = status - _SHELL_SIGNAL
    if number in set(Signals):
        return f"exit {status}: {_signal_name(number)}"
    return f"exit {status}"


def _signal_name(number: int) -> str:
    return Signals(number).name if number in set(Signals) else f"signal {number}"
