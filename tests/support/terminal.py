"""`goal` at a real terminal: a pseudo terminal of its own, what it shows, and what is typed there."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.command_line import GOAL, environment

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Terminal:
    """A context manager; `shown` is everything that was printed, without escape sequences."""

    def __init__(self, *arguments: str | Path, cwd: Path) -> None:
        self._master, slave = os.openpty()
        self.process = subprocess.Popen(
            [*GOAL, *map(str, arguments)],
            cwd=cwd,
            env=environment(TERM="xterm"),
            preexec_fn=lambda: os.login_tty(slave),
            close_fds=True,
            pass_fds=(slave,),
        )
        os.close(slave)
        self._raw = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def shown(self) -> str:
        """The text so far."""
        return _ESCAPES.sub("", self._raw.decode(errors="replace")).replace("\r", "")

    def wait_for(self, text: str, timeout: float = 30, times: int = 1) -> None:
        """Until the text was shown so often."""
        deadline = time.monotonic() + timeout
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, (
                f"no {text!r} within {timeout} s:\n{self.shown}"
            )
            assert self._take(0.1) or self.process.poll() is None, (
                f"it ended without {text!r}:\n{self.shown}"
            )

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._master, text.encode())

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=20)

    def end(self, timeout: float = 30) -> int:
        """Wait for the end; gives the exit code."""
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            self._take(0.1)
            assert time.monotonic() < deadline, f"it did not end:\n{self.shown}"
        while self._take(0.1):
            pass
        return self.process.returncode

    def _take(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self._raw += data
        return bool(data)
