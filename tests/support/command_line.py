"""`goal` as a child process, the way a shell starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GOAL = (sys.executable, "-m", "goalrunner")


@dataclass(frozen=True)
class Ended:
    """How the process ended, and what it printed."""

    code: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """The environment of the tests, with the test's own python first on the PATH so that validators find pytest.

    Whatever starts the tests, a process may keep what it compiled for the next one, as a user's does.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PATH": path, "NO_COLOR": "1", "COLUMNS": "120", **more}


def goal(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 60) -> Ended:
    """Run `goal` to its end."""
    done = subprocess.run(
        [*GOAL, *map(str, arguments)],
        cwd=cwd,
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def start(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `goal` and go on."""
    return subprocess.Popen(
        [*GOAL, *map(str, arguments)],
        cwd=cwd,
        env=environment(**(env or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )
