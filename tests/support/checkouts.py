"""A small Python project whose code is wrong, and fresh checkouts of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from goalrunner.checking.checkout import FreshCheckout
from goalrunner.checking.environment import File, Layer
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
        self.root = self.home / "checkouts" / "run"
        self._scratch: Iterator[int] = count()
        for path, text in {"src/calc.py": WRONG, "tests/test_calc.py": TEST, "pyproject.toml": CONFIG, **more}.items():
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
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=trunk")
        done = subprocess.run(["git", *who, *arguments], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, message: str) -> None:
        """Commit everything in the workspace."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def layer(self, put: Mapping[str, File] | None = None, hide: Sequence[str] = ()) -> tuple[Layer, ...]:
        """Return the layers of a check."""
        return (Layer(self.folder, put or {}, frozenset(hide)),)

    def checkouts(
        self, setup: str = "", commands: Sequence[str] = ("true",), env: Mapping[str, str] | None = None
    ) -> FreshCheckout:
        """Return the environment under test."""
        return FreshCheckout(
            self.store,
            self.root,
            setup=setup,
            commands=commands,
            env=env or plain_environment(),
            launcher=ProcessLauncher(),
            scratch=lambda suffix: self.home / f"{next(self._scratch)}{suffix}",
        )


def plain_environment(**more: str) -> dict[str, str]:
    """PATH with this interpreter's programs first, and no plugins: quick, and the same on every machine."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": os.environ.get("HOME", "/"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **more}


def run(folder: Path, command: str = "pytest -q", env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Exit code and output of a command line in a folder."""
    environ = dict(env or plain_environment())
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def files(folder: Path) -> list[str]:
    """Return every file and link below a folder, but for git's own, sorted."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(str(path.relative_to(folder)) for path in found if ".git" not in path.relative_to(folder).parts)
