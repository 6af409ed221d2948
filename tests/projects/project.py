"""What a measured project is: its source, its layout, the planted bug and the validator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

RECIPE = 1
"""Raised when `prepare.py` changes in a way that makes prepared projects out of date."""

DATE = "2026-11-01"
"""Indirect dependencies are the versions of this day."""

PYTEST = "pytest==8.4.2"
WORKSPACE = "ws"

IGNORED = """\
.venv/
__pycache__/
*.py[co]
*.egg-info/
*.so
.pytest_cache/
.hypothesis/
.tox/
.coverage
build/
dist/
target/
node_modules/
"""


@dataclass(frozen=True)
class Bug:
    """One replacement in one source file: planted before the first commit, undone by the agent."""

    path: str
    right: str
    wrong: str


@dataclass(frozen=True)
class Project:
    """A project whose validator is red because of one bug, and green without it.

    `source` names a published package ("pypi:NAME==VERSION" or "npm:NAME@VERSION"); `files` are written over it, and the
    paths in `drop` are removed from it. `setup` are shell commands, run in the workspace after the first commit. `path`
    is put in front of PATH, relative to the workspace: an activated environment. `tests` and `editable` are the patterns
    of the modes `protect` and `editable`.
    """

    name: str
    layout: str
    run: str
    bug: Bug
    source: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    ignore: str = ""
    setup: tuple[str, ...] = ()
    path: str = ""
    tools: tuple[str, ...] = ()
    tests: str = "tests/**"
    editable: str = "src/**"
    repository: Literal["git", "none", "worktree", "submodule", "monorepo"] = "git"
    folder: str = WORKSPACE
    smoke: bool = False

    def digest(self, *more: str) -> str:
        """Return a hash of everything that a prepared copy depends on."""
        text = json.dumps([RECIPE, DATE, IGNORED, asdict(self), more], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def pip_venv(where: str, *packages: str) -> tuple[str, ...]:
    """Return the commands that make an environment with venv and pip."""
    return (
        f"python3 -m venv {where}",
        f"{where}/bin/pip install -q {' '.join(packages)}",
    )


def uv_venv(where: str, *packages: str) -> tuple[str, ...]:
    """Return the commands that make an environment with uv; it holds no pip."""
    install = f"uv pip install -q --exclude-newer {DATE} -p {where}/bin/python"
    return f"uv venv -q {where}", f"{install} {' '.join(packages)}"


def package_json(test: str, **more: str) -> str:
    """Return a package.json whose test script is `test`; `more` are lines of JSON."""
    lines = [
        '"name": "calc"',
        '"version": "1.0.0"',
        '"private": true',
        f'"scripts": {{"test": "{test}"}}',
    ]
    return (
        "{"
        + ",\n ".join([*lines, *(f'"{key}": {value}' for key, value in more.items())])
        + "}\n"
    )
