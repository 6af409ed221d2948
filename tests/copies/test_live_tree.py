"""Which files of a workspace a copy freezes, and which stay those of the live tree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.copies.live_tree import LiveTree, read_live_tree
from goalrunner.core.errors import EnvironmentFailed
from tests.support.workspaces import git, make_repository, write


def _read(root: Path, rules: Path) -> LiveTree:
    return read_live_tree(root, os.environ, rules)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "bases").mkdir()
    return tmp_path / "bases" / "rules"


def test_tracked_and_untracked_files_are_frozen_and_ignored_ones_are_shared(
    tmp_path: Path, rules: Path
) -> None:
    root = make_repository(
        tmp_path / "ws", {".gitignore": "node_modules/\n*.log\n", "src/a.py": "1\n"}
    )
    write(
        root,
        {
            "new.txt": "2\n",
            "node_modules/m/index.js": "3\n",
            "src/deep/x.log": "4\n",
            "src/b/c.py": "5\n",
        },
    )
    (root / "empty").mkdir()
    tree = _read(root, rules)
    work = {path for path in tree.files if not path.startswith(".git/")}
    assert work == {".gitignore", "src/a.py", "new.txt", "src/b/c.py"}
    assert {"", "src", "src/b", "empty"} <= tree.folders.keys()
    assert set(tree.shared) == {"node_modules/", "src/deep/"}
    assert tree.shared_folders == {"", "src"}


def test_caches_are_neither_frozen_nor_shared(tmp_path: Path, rules: Path) -> None:
    root = make_repository(
        tmp_path / "ws", {".gitignore": "__pycache__/\n", "a.py": "1\n"}
    )
    write(root, {"__pycache__/a.pyc": "x"})
    tree = _read(root, rules)
    assert not tree.shared
    assert not tree.shared_folders
    assert "__pycache__/a.pyc" not in tree.files


def test_of_a_repository_everything_but_its_objects_is_frozen(
    tmp_path: Path, rules: Path
) -> None:
    root = make_repository(tmp_path / "ws", {"a": "1\n"})
    tree = _read(root, rules)
    assert {".git/HEAD", ".git/index", ".git/config"} <= tree.files.keys()
    assert not [path for path in tree.files if path.startswith(".git/objects/")]
    assert tree.object_folders == [".git/objects"]


def test_the_rules_of_a_nested_repository_hold_below_it(
    tmp_path: Path, rules: Path
) -> None:
    root = make_repository(tmp_path / "ws", {"a": "1\n"})
    nested = make_repository(root / "nested", {".gitignore": "build/\n", "b": "2\n"})
    write(nested, {"build/out": "3\n"})
    tree = _read(root, rules)
    assert "nested/b" in tree.files
    assert "nested/build/out" not in tree.files
    assert tree.shared == ["nested/build/"]
    assert tree.object_folders == [".git/objects", "nested/.git/objects"]


def test_ignore_files_count_without_a_repository(tmp_path: Path, rules: Path) -> None:
    root = tmp_path / "ws"
    write(root, {".gitignore": "data/\n", "a": "1\n", "data/big": "2\n"})
    tree = _read(root, rules)
    assert tree.files.keys() == {".gitignore", "a"}
    assert tree.shared == ["data/"]


def test_the_folder_of_a_repository_is_a_tree_of_its_own(
    tmp_path: Path, rules: Path
) -> None:
    root = make_repository(tmp_path / "ws", {"a": "1\n"})
    tree = _read(root / ".git", rules)
    assert "HEAD" in tree.files
    assert tree.object_folders == ["objects"]


def test_a_change_changes_the_manifest(tmp_path: Path, rules: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "1\n"})
    before = _read(root, rules).manifest()
    assert _read(root, rules).manifest() == before
    write(root, {"a": "2\n"})
    changed = _read(root, rules).manifest()
    assert changed != before
    git(root, "branch", "other")
    assert _read(root, rules).manifest() != changed


def test_git_that_fails_is_named(tmp_path: Path, rules: Path) -> None:
    root = make_repository(tmp_path / "ws", {"a": "1\n"})
    (root / ".git" / "config").write_text("[core\n")
    with pytest.raises(EnvironmentFailed, match="git failed in"):
        _read(root, rules)
