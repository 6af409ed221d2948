"""`goal` as a child process, the way a shell starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOAL = (sys.executable, "-m", "goalrunner")

WITH_PLAIN = {"PYTHONPATH": str(Path(__file__).parents[1] / "fixtures" / "plain_agent")}
"""The environment in which `goal` finds the parser `plain`, which that package registers."""


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
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE"
    }
    return {
        **inherited,
        "PATH": path,
        "NO_COLOR": "1",
        "COLUMNS": "120",
        # The plugins of our own tests take two thirds of the time in which pytest starts.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **more,
    }


def start(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
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


def only_run(home: Path) -> Path:
    """Return the folder of the only run."""
    (path,) = (home / "runs").iterdir()
    return path


def outcome_of(home: Path) -> dict[str, Any]:
    """Return the outcome of the only run."""
    outcome: dict[str, Any] = json.loads((only_run(home) / "outcome.json").read_text())
    return outcome
