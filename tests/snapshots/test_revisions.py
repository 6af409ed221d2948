"""Snapshots of revisions of the user's repository."""

from __future__ import annotations

import os
from pathlib import Path

from goalrunner.snapshots.store import SnapshotStore, revision_snapshot
from tests.support.workspaces import git, make_repository, write


async def test_the_files_of_one_folder_are_those_of_the_revision_whatever_it_changed(
    tmp_path: Path,
) -> None:
    root = make_repository(tmp_path / "ws", {"a/x": "1\n", "b/y": "2\n"})
    write(root, {"b/y": "3\n"})
    git(root, "commit", "-qam", "changes the other folder")
    git(root, "rm", "-qr", "a")
    git(root, "commit", "-qm", "removes the folder")
    write(root, {"a/x": "1\n"})
    store = SnapshotStore(root / "a", tmp_path / "home", environ=os.environ)
    await store.snapshot()
    paths = []
    for revision in ("HEAD~2", "HEAD~1", "HEAD"):
        snapshot = await revision_snapshot(store, revision, os.environ)
        paths.append(list(await store.entries(snapshot)))
    store.close()
    assert paths == [["x"], ["x"], []]
