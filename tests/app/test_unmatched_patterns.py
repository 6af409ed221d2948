"""Warnings about patterns of `protect` and `editable` that match no file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.app.preflight import unmatched_patterns, warnings_before
from goalrunner.core.goal import Goal
from tests.support.workspaces import make_repository, write

FILES = {
    "src/app.py": "",
    "tests/unit/test_a.py": "",
    "Makefile": "",
    ".gitignore": "data/\n.env\n",
}


def goal(folder: Path, **config: object) -> Goal:
    return Goal.model_validate(
        {
            "objective": "x",
            "validators": [{"run": "pytest"}],
            "workspace": {"path": str(folder), **config},
        }
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    make_repository(folder, FILES)
    write(folder, {"data/a.db": "", ".env": "", "new/file.py": ""})
    return folder


@pytest.mark.parametrize(
    "line",
    [
        *(
            "tests/**",
            "/tests/",
            "tests",
            "**/test_*.py",
            "*.py",
            "makefile",
            "!tests/unit/test_a.py",
        ),
        *("new/*", "data/**", ".env", "data/a.db"),
    ],
)
@pytest.mark.parametrize("key", ["protect", "editable"])
def test_a_pattern_that_matches_gives_no_warning(
    workspace: Path, key: str, line: str
) -> None:
    lines = ["src/**", line] if line.startswith("!") else [line]
    assert (
        unmatched_patterns(goal(workspace, **{key: lines}), workspace, os.environ) == ()
    )


@pytest.mark.parametrize(
    "line", ["test/**", "/scr/app.py", "tests/units/", "spec/**", "*.rs", "src/*.pyx"]
)
def test_a_pattern_that_matches_nothing_is_named(workspace: Path, line: str) -> None:
    said = f'protect: "{line}" matches no file'
    given = goal(workspace, protect=["Makefile", line])
    assert unmatched_patterns(given, workspace, os.environ) == (said,)
    assert said in warnings_before(given, os.environ)


def test_without_the_keys_there_is_no_warning(workspace: Path) -> None:
    assert (
        unmatched_patterns(goal(workspace, allow=["nothing/**"]), workspace, os.environ)
        == ()
    )


def test_patterns_start_at_a_workspace_within_a_repository(tmp_path: Path) -> None:
    make_repository(
        tmp_path / "ws", {f"pkg[1]/{path}": text for path, text in FILES.items()}
    )
    workspace = tmp_path / "ws/pkg[1]"
    given = goal(
        workspace, protect=["/src/**", "tests/unit/*.py", "*.py", "pkg[1]/**", "lib/**"]
    )
    assert unmatched_patterns(given, workspace, os.environ) == (
        'protect: "pkg[1]/**" matches no file',
        'protect: "lib/**" matches no file',
    )
