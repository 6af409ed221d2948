"""A small Python project whose code is wrong, and check environments of it with `setup`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from goalrunner.checking.environment import File, Layer, OpenEnvironment
from goalrunner.checking.overlay import Overlay
from goalrunner.checking.setup import Setup
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import ProcessLauncher

WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
CONFIG = '[tool.pytest.ini_options]\npythonpath = ["src"]\n'


class Project:
    """A workspace and its store, without a git repository."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder / "calc"
        self.home = folder / "home"
        self.checks = self.home / "checks"
        self._scratch: Iterator[int] = count()
        for path, text in {
            "src/calc.py": WRONG,
            "tests/test_calc.py": TEST,
            "pyproject.toml": CONFIG,
            **more,
        }.items():
            self.write(path, text)
        self.store = SnapshotStore(self.folder, self.home)

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        """Write a file of the workspace."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)
        return target

    def git(self, *arguments: str) -> str:
        """Call git in the workspace; return its output."""
        who = (
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=trunk",
        )
        done = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def commit(self, message: str) -> None:
        """Commit everything in the workspace."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def layer(
        self, put: Mapping[str, File] | None = None, hide: Sequence[str] = ()
    ) -> tuple[Layer, ...]:
        """Return the layers of a check."""
        return (Layer(self.folder, put or {}, frozenset(hide)),)

    def setup(self, command: str, env: Mapping[str, str] | None = None) -> Setup:
        """Return a setup of this workspace."""
        return Setup(
            command,
            self.store,
            env or plain_environment(),
            lambda opened: opened.launcher(ProcessLauncher()),
            lambda suffix: self.home / f"{next(self._scratch)}{suffix}",
        )

    def overlay(self, command: str, env: Mapping[str, str] | None = None) -> Overlay:
        """Return the environment under test."""
        return Overlay(self.checks, os.environ, self.setup(command, env))


async def run(
    opened: OpenEnvironment,
    project: Project,
    command: str,
    env: Mapping[str, str] | None = None,
) -> tuple[int | None, str]:
    """Return the exit code and the output of a command line in an environment."""
    output = project.home / "output"
    done = await opened.launcher(ProcessLauncher()).launch(
        ["/bin/sh", "-c", command],
        cwd=project.folder,
        env=opened.environ(env or plain_environment()),
        output=output,
    )
    return done.exit_code, output.read_text()


def plain_environment(**more: str) -> dict[str, str]:
    """PATH with this interpreter's programs first, and no plugins: quick, and the same on every machine."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        "PATH": path,
        "HOME": os.environ.get("HOME", "/"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **more,
    }
