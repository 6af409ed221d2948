"""A small project whose code is wrong, and what happens to it: for tests of the clean checkout with real pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from goalrunner.model.snapshot import Snapshot
from goalrunner.workspace.cleanroom import Checkout, clean_checkout
from goalrunner.workspace.protection import Protection
from goalrunner.workspace.store import SnapshotStore

WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
CONFIG = '[tool.pytest.ini_options]\npythonpath = ["src"]\n'


class Project:
    """A workspace, its store and the snapshot at the start."""

    base: Snapshot

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder / "calc"
        self.root = folder / "rooms" / "run"
        self.write("src/calc.py", WRONG)
        self.write("tests/test_calc.py", TEST)
        self.write("pyproject.toml", CONFIG)
        for path, content in more.items():
            self.write(path, content)
        self.store = SnapshotStore(self.folder, folder / "home")

    async def begin(self) -> None:
        """What the workspace holds now is the start of the run."""
        self.store.close()
        self.store = type(self.store)(self.folder, self.folder.parent / "home")
        self.base = await self.store.snapshot()

    def write(self, path: str, content: str, mode: int = 0o644) -> Path:
        """Write a file of the workspace."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        target.chmod(mode)
        return target

    async def room(self, protection: Protection | None = None, linked: tuple[str, ...] = ()) -> Checkout:
        """The clean checkout of what the workspace holds now."""
        protection = protection or Protection(protect=["tests/**"])
        proven = await self.store.snapshot()
        return await clean_checkout(
            self.store, proven, self.base, protection, self.root, workspace=self.folder, linked=linked
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


def plant_module(target: Path) -> None:
    """A compiled module that says 2, and that Python takes without a look at its source (PEP 552)."""
    plant = (
        "import sys; from py_compile import PycInvalidationMode, compile; open('e.py', 'w').write('x = 2'); "
        "compile('e.py', sys.argv[1], invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)"
    )
    target.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-c", plant, str(target)], cwd=target.parent, check=True)
