"""`goal` at a terminal of a given size: a server of tmux for each, and the rows that its screen shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.command_line import GOAL, environment

needs_tmux = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="tmux is not installed"
)

_LAST_TIME = re.compile(r"  +\d[\d.]* (?:s|min \d+ s|min)(?=\n)")
_COLUMN_TIME = re.compile(r"  +\d[\d.]* (?:s|min \d+ s|min)(?=   )")
"""A time at the end of its column, with a remark after it."""
_TIME = re.compile(r"\d[\d.]* (?:s|min \d+ s|min|h \d+ min|h)\b")
_UNTIL = re.compile(r"until (?:\d{4}-\d\d-\d\d )?\d\d:\d\d \w+ \(in [^)]*\)")
_SPINNER = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")
_RUN = re.compile(r"\b\w{4}(?=-make)")


class Tmux:
    """A context manager: `goal` with these arguments, at a terminal of so many columns and rows."""

    def __init__(
        self, size: tuple[int, int], *arguments: str | Path, cwd: Path, folder: Path
    ) -> None:
        """`folder` is the home of the user, and holds the socket of the server."""
        self._socket = folder / f"tmux-{os.urandom(4).hex()}"
        columns, rows = size
        # The terminal stays when the command has ended.
        command = f"{shlex.join([*GOAL, *map(str, arguments)])}; sleep 1000"
        variables = environment(
            TERM="xterm-256color", LC_ALL="C.UTF-8", TZ="UTC", HOME=str(folder)
        )
        del variables["COLUMNS"]
        subprocess.run(
            [
                *("tmux", "-u", "-f", os.devnull, "-S", self._socket),
                *("new-session", "-d", "-x", str(columns), "-y", str(rows), command),
            ],
            cwd=cwd,
            env=variables,
            check=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tmux("kill-server")

    def screen(self) -> str:
        """Return the rows that are shown; a line that the terminal has wrapped is one."""
        joined = self._tmux("capture-pane", "-p", "-J").rstrip()
        return "".join(f"{row.rstrip()}\n" for row in joined.split("\n"))

    def wait_for(self, text: str, timeout: float = 60, times: int = 1) -> str:
        """Wait until the screen shows a text so often, and return the screen."""
        deadline = time.monotonic() + timeout
        while (shown := self.screen()).count(text) < times:
            assert time.monotonic() < deadline, f"no {text!r} in {timeout} s:\n{shown}"
            time.sleep(0.1)
        return shown

    def press(self, key: str) -> None:
        """Press a key, as tmux names it: "C-c"."""
        self._tmux("send-keys", key)

    def _tmux(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-u", "-S", self._socket, *arguments],
            check=True,
            capture_output=True,
            text=True,
        ).stdout


def lasting(screen: str, home: Path) -> str:
    """Return a screen without what differs from run to run: times, ids of runs, spinners, and the path of GOAL_HOME."""
    screen = screen.replace(str(home), "GOAL_HOME")
    screen = _UNTIL.sub("until TIME", _RUN.sub("k3f9", _SPINNER.sub("*", screen)))
    screen = _LAST_TIME.sub("   N s", screen)
    screen = _COLUMN_TIME.sub(lambda time: "N s".rjust(len(time[0])), screen)
    return _TIME.sub("N s", screen)
