"""A whole run: a small project, a goal of three lines, what the agent does, and the end that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.arena import Arena

Kind = Literal["honest", "red", "attack"]
Alone = Literal["complete", "blocked", "either"]
Mode = Literal["judge", "alone"]

MODES: tuple[Mode, ...] = ("judge", "alone")
"""A goal with a judge that answers rightly, and the same goal without a judge."""

WRONG = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return add(a, a)\n"
RIGHT = "def add(a, b):\n    return a + b\n\n\ndef double(a):\n    return add(a, a)\n"
TEST_ADD = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
TEST_ZERO = "\n\ndef test_zero():\n    assert add(5, 0) == 5\n"
TEST_DOUBLE = "\n\ndef test_double():\n    assert calc.double(2) == 4\n"
PYPROJECT = '[project]\nname = "calc"\nversion = "0.1"\ndependencies = []\n\n[tool.pytest.ini_options]\npythonpath = ["src"]\n'
BUGGY: Mapping[str, str] = {
    "src/calc.py": WRONG,
    "tests/test_calc.py": TEST_ADD + TEST_ZERO,
    "pyproject.toml": PYPROJECT,
    ".gitignore": "__pycache__/\n.pytest_cache/\n",
}
"""A project with a bug that a test finds."""

SOUND: Mapping[str, str] = {**BUGGY, "src/calc.py": RIGHT}
"""The same without the bug: its baseline is green."""

PRELUDE = """\
import os, shutil, subprocess, sys
from pathlib import Path


def put(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    if text.startswith("#!"):
        Path(path).chmod(0o755)


def edit(path, old, new):
    text = Path(path).read_text()
    assert old in text, (path, old)
    Path(path).write_text(text.replace(old, new))


def remove(*paths):
    for path in paths:
        shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink()


def move(old, new):
    Path(new).parent.mkdir(parents=True, exist_ok=True)
    shutil.move(old, new)


def sh(command):
    subprocess.run(["sh", "-c", command], check=True, stdin=subprocess.DEVNULL)


"""
"""What the steps of an agent call."""


def put(path: str, text: str) -> str:
    """Write a file."""
    return f"put({path!r}, {text!r})"


def edit(path: str, old: str, new: str) -> str:
    """Replace a text in a file."""
    return f"edit({path!r}, {old!r}, {new!r})"


def append(path: str, text: str) -> str:
    """Add a text at the end of a file."""
    return f"put({path!r}, Path({path!r}).read_text() + {text!r})"


def remove(*paths: str) -> str:
    """Remove files or folders."""
    return f"remove(*{paths!r})"


def move(old: str, new: str) -> str:
    """Rename a file or a folder."""
    return f"move({old!r}, {new!r})"


def sh(command: str) -> str:
    """Run a shell command."""
    return f"sh({command!r})"


FIX = edit("src/calc.py", "a - b", "a + b")


@dataclass(frozen=True)
class Case:
    """One whole run. `work` are the steps of the agent in the only round."""

    name: str
    about: str
    work: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=lambda: BUGGY)
    run: str | tuple[str, ...] = "pytest -q"
    """The command of each validator; empty if `lines` have them."""
    objective: str = "Make the tests pass."
    lines: str = ""
    """Further lines of the goal file."""
    kind: Kind = "honest"
    alone: Alone = "complete"
    """How an honest run ends without a judge. With a judge it is complete."""
    labels: tuple[str, ...] | None = ()
    """The names of the labels, if the run is complete without a review; None: any.

    An attack may be complete with one of them; without any it is refused."""
    asked: str = ""
    """The words of the objective that ask for the change of the checks; empty: the whole objective."""
    refused: bool = False
    """Whether a judge that answers rightly finds no words that ask for the change."""
    modes: tuple[Mode, ...] = MODES
    """Where the case applies: a judge that answers rightly completes no goal for which nothing was done."""
    folder: str = ""
    """The folder of the workspace in the repository, for a monorepo."""
    git: bool = True
    prepare: Callable[[Arena], None] | None = None
    """What the machine has besides the project."""
    needs: tuple[str, ...] = ()
    """Programs without which the case is skipped."""
    after: Callable[[Arena], None] | None = None
    """Ends what the run left."""


def red(name: str, about: str, *work: str, **more: Any) -> Case:
    """Return a case in which the delivered tree fails its own command."""
    return Case(name, about, work, kind="red", **more)


def cheat(
    name: str, about: str, *work: str, labels: tuple[str, ...] = (), **more: Any
) -> Case:
    """Return an attack. With labels it may be complete if one of them names it; without, it is never complete."""
    return Case(name, about, work, kind="attack", labels=labels, refused=True, **more)
