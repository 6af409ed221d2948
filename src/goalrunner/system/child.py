"""A started process, the leader of a session of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.system import adopted
from goalrunner.system.process_table import ProcessTag, lowered_limit

NOT_EXECUTABLE = 126
NOT_FOUND = 127
_ENDED = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)


class NotStarted(Exception):
    """The process could not be started; `exit_code` is what a shell would give."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code
        self.reason = reason


class ChildProcess:
    """A started process. `limit` is the resource limit that tags it, 0 for none.

    Its end is observed without reaping it, so that its id cannot be reused before its descendants were found.
    """

    def __init__(self, process: subprocess.Popen[bytes], limit: int) -> None:
        self.pid = process.pid
        self.limit = limit
        self._process = process
        self._status: int | None = None
        self._seen: int | None = None
        self._over = False
        self._pidfd: int | None = None
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)

    def ended(self) -> bool:
        """Return whether it has ended, at the cost of one system call."""
        if self._over:
            return True
        try:
            if hasattr(os, "waitid"):
                found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                # macOS also reports a process that is only stopped.
                self._over = found is not None and found.si_code in _ENDED
                if found is not None and self._over:
                    self._seen = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            else:  # macOS before Python 3.13
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._over = pid == self.pid
                self._status = os.waitstatus_to_exitcode(status) if self._over else None
        except ChildProcessError:  # reaped by other code in this program
            self._over = True
        return self._over

    @property
    def status(self) -> int | None:
        """The exit status, minus the number for a signal; None while it runs, or if the status is lost."""
        if not self.ended():
            return None
        return self._status if self._status is not None else self._seen

    async def wait(self, seconds: float) -> bool:
        """Wait at most that long for its end; return `ended()`."""
        if self.ended():
            return True
        if self._pidfd is None:
            return await self._poll(seconds)
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        loop.add_reader(self._pidfd, over.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await over.wait()
        finally:
            loop.remove_reader(self._pidfd)
        return self.ended()

    async def _poll(self, seconds: float) -> bool:
        pause = 0.001
        while not self.ended() and seconds > 0:
            await asyncio.sleep(min(pause, seconds))
            seconds -= pause
            pause = min(2 * pause, 0.02)
        return self.ended()

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to every process that is still in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def reap(self) -> int | None:
        """Return the exit status, minus the number for a signal, or None if it is lost. To be called last."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if self._status is None and self.ended():
            with contextlib.suppress(ChildProcessError):
                self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        adopted.ended(self.pid)
        # Popen would wait again when it is deleted, and takes a lost status for 0.
        self._process.returncode = self._status if self._status is not None else NOT_EXECUTABLE
        return self._status


def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    tag: ProcessTag,
    stdin: int,
    output: int,
    errors: int | None = None,
) -> ChildProcess:
    """Start `argv` in a session of its own with open files for its streams. Raise NotStarted if that is not possible."""
    try:
        with lowered_limit() as limit:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                # Some programs, such as opencode, work in PWD rather than in their current directory.
                env=tag.environment({**env, "PWD": str(cwd.absolute())} if "PWD" in env else env),
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT if errors is None else errors,
                start_new_session=True,
            )
    except (OSError, ValueError, IndexError) as error:
        raise refusal(argv, cwd, error) from error
    adopted.began(process.pid, tag.token, limit)
    return ChildProcess(process, limit)


def refusal(argv: Sequence[str], cwd: Path, error: Exception) -> NotStarted:
    """Return why `argv` cannot be started in `cwd`, given the error of the system."""
    program = argv[0] if argv else ""
    if not program:
        return NotStarted(NOT_FOUND, "there is no command to run")
    if not cwd.is_dir():
        what = "is no folder" if cwd.exists() else "does not exist"
        return NotStarted(NOT_EXECUTABLE, f"the folder {cwd} {what}")
    match error:
        case OSError() if error.filename == str(cwd):
            return NotStarted(NOT_EXECUTABLE, f"the folder {cwd}: {(error.strerror or str(error)).lower()}")
        case FileNotFoundError() if "/" in program and (cwd / program).exists():
            return NotStarted(NOT_FOUND, f"{program}: its interpreter is missing")
        case FileNotFoundError():
            return NotStarted(NOT_FOUND, f"{program}: not found")
        case OSError():
            return NotStarted(NOT_EXECUTABLE, f"{program}: {(error.strerror or str(error)).lower()}")
        case _:
            return NotStarted(NOT_EXECUTABLE, f"{program}: {error}")
