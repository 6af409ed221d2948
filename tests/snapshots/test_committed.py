"""What was committed at the start of a run, from the repository of the user."""

from __future__ import annotations

import shutil
from pathlib import Path

from goalrunner.snapshots.store import SnapshotStore
from tests.support.workspaces import git, make_repository, write


async def test_committed_files_have_the_identity_that_differences_show(
    tmp_path: Path,
) -> None:
    workspace = make_repository(
        tmp_path / "work", {"a": "1\n", "sub/b c": "2\n", "ü": "3\n"}
    )
    store = SnapshotStore(workspace, tmp_path / "home")
    start = await store.snapshot()
    committed = await store.committed()
    assert committed is not None
    assert sorted(committed) == ["a", "sub/b c", "ü"]
    write(workspace, {"a": "9\n", "sub/b c": "9\n", "ü": "9\n"})
    [step] = await store.differences((start, await store.snapshot()))
    assert {path: then for path, (then, _) in step.items()} == committed


async def test_it_is_the_commit_of_the_start(tmp_path: Path) -> None:
    workspace = make_repository(tmp_path / "work", {"a": "1\n"})
    store = SnapshotStore(workspace, tmp_path / "home")
    await store.snapshot()
    write(workspace, {"b": "2\n"})
    git(workspace, "add", "b")
    git(workspace, "commit", "-q", "-m", "two")
    committed = await store.committed()
    assert committed is not None
    assert list(committed) == ["a"]


async def test_a_workspace_may_be_a_folder_of_a_repository(tmp_path: Path) -> None:
    root = make_repository(
        tmp_path / "work", {"a": "1\n", "sub/b": "2\n", ".gitignore": "ignored/\n"}
    )
    store = SnapshotStore(root / "sub", tmp_path / "home")
    await store.snapshot()
    committed = await store.committed()
    assert committed is not None
    assert list(committed) == ["b"]
    write(root, {"ignored/c": "3\n"})
    ignored = SnapshotStore(root / "ignored", tmp_path / "home")
    await ignored.snapshot()
    assert await ignored.committed() == {}


async def test_without_a_repository_nothing_is_known(tmp_path: Path) -> None:
    write(tmp_path / "work", {"a": "1\n"})
    store = SnapshotStore(tmp_path / "work", tmp_path / "home")
    await store.snapshot()
    assert await store.committed() is None


async def test_without_a_commit_nothing_is_committed(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    git(workspace, "init", "-q")
    store = SnapshotStore(workspace, tmp_path / "home")
    await store.snapshot()
    assert await store.committed() == {}


async def test_a_repository_that_was_removed_has_nothing(tmp_path: Path) -> None:
    workspace = make_repository(tmp_path / "work", {"a": "1\n"})
    store = SnapshotStore(workspace, tmp_path / "home")
    await store.snapshot()
    shutil.rmtree(workspace / ".git")
    assert await store.committed() == {}
