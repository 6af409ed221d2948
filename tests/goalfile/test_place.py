"""The goal file of a folder, and the workspace of a goal file."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.goalfile.loading import load_goal
from goalrunner.goalfile.place import goal_file_above, project_of, repository_root

GOAL = "objective = 'x'\nmodel = 'a/b'\nvalidator = 'y'\n"


def _tree(root: Path, *paths: str) -> Path:
    """Make files, and folders whose path ends with a slash, in a folder."""
    for path in paths:
        if path.endswith("/"):
            (root / path).mkdir(parents=True)
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(GOAL)
    return root


@pytest.mark.parametrize(
    ("paths", "folder", "goal_file"),
    [
        ((".git/", "goal.toml", "src/a.py"), "src", "goal.toml"),
        (
            (".git/", "goal.toml", "api/goal.toml", "api/src/a.py"),
            "api/src",
            "api/goal.toml",
        ),
        (("goal.toml", "src/a.py"), "src", ""),  # no repository
        (("goal.toml", "inner/.git/", "inner/src/a.py"), "inner/src", ""),
        (
            ("goal.toml", "inner/.git", "inner/src/a.py"),
            "inner/src",
            "",
        ),  # a worktree has a file
        ((".git/", "src/a.py"), "src", ""),
        ((".git/", "goal.toml/", "src/a.py"), "src", ""),
    ],
)
def test_a_goal_file_is_looked_for_up_to_the_root_of_the_repository(
    tmp_path: Path, paths: tuple[str, ...], folder: str, goal_file: str
) -> None:
    root = _tree(tmp_path, *paths)
    assert goal_file_above(root / folder) == (root / goal_file if goal_file else None)


def test_the_nearest_folder_comes_first_and_in_it_goal_toml(tmp_path: Path) -> None:
    root = _tree(tmp_path, ".git/", "goal.toml", "api/src/a.py")
    (root / "api" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert goal_file_above(root / "api" / "src") == root / "goal.toml"
    (root / "api" / "pyproject.toml").write_text("[tool.goal]\nobjective = 'x'\n")
    assert goal_file_above(root / "api" / "src") == root / "api" / "pyproject.toml"
    (root / "api" / "goal.toml").touch()
    assert goal_file_above(root / "api" / "src") == root / "api" / "goal.toml"


@pytest.mark.parametrize(
    ("paths", "goal_file", "workspace"),
    [
        ((".git/", "goal.toml"), "goal.toml", "."),
        (
            (".git/", "packages/api/package.json", "packages/api/goal.toml"),
            "packages/api/goal.toml",
            "packages/api",
        ),
        (
            (".git/", "packages/api/Makefile", "packages/api/goals/x.toml"),
            "packages/api/goals/x.toml",
            "packages/api",
        ),
        ((".git/", "ci/x.toml"), "ci/x.toml", "."),
        (("go.mod", "goal.toml"), "goal.toml", "."),  # no repository
        (("go.mod", "ci/x.toml"), "ci/x.toml", None),
        (("goal.toml",), "goal.toml", None),
        (("package.json", "inner/.git", "inner/ci/x.toml"), "inner/ci/x.toml", "inner"),
    ],
)
def test_the_workspace_is_the_nearest_project_at_or_above_the_goal_file(
    tmp_path: Path,
    paths: tuple[str, ...],
    goal_file: str,
    workspace: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, elsewhere = _tree(tmp_path / "root", *paths), tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    path = root / goal_file
    path.write_text(GOAL)
    expected = None if workspace is None else (root / workspace).resolve()
    assert project_of(path) == expected
    assert load_goal(path, {}, {}).workspace.path == str(expected or elsewhere)
    assert load_goal(path, {"workspace.path": str(tmp_path)}, {}).workspace.path == str(
        tmp_path
    )
    path.write_text(f'{GOAL}[workspace]\npath = "."\n')
    assert load_goal(path, {}, {}).workspace.path == str(path.parent)


def test_the_folder_of_a_linked_goal_file_decides(tmp_path: Path) -> None:
    root = _tree(tmp_path, "shared/.git/", "shared/x.toml", "own/.git/", "own/ci/")
    (root / "own" / "ci" / "x.toml").symlink_to(root / "shared" / "x.toml")
    assert project_of(root / "own" / "ci" / "x.toml") == root / "own"


def test_a_folder_outside_of_a_repository_has_no_root(tmp_path: Path) -> None:
    root = _tree(tmp_path, "own/.git/", "own/src/")
    assert repository_root(root / "own" / "src") == root / "own"
    assert repository_root(root) is None
