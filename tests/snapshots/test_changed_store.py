"""A store whose objects were changed after the snapshot: what is read from it is compared with the snapshot's ids."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from goalrunner.core.errors import WorkspaceError
from goalrunner.core.observation import Snapshot
from goalrunner.snapshots.store import SnapshotStore
from tests.support.workspaces import git, listing, make_repository, write, write_out

CHANGED = "differs from the snapshot"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    write(folder, {"tests/test_a.py": "assert a\n", "src/a.py": "a = 0\n"})
    return folder


@pytest.fixture
def store(workspace: Path, tmp_path: Path) -> Iterator[SnapshotStore]:
    made = SnapshotStore(workspace, tmp_path / "home", large=1000)
    yield made
    made.close()


def rewrite(store: SnapshotStore, kind: str, id_: str, content: bytes) -> None:
    """Change the content of an object in the store, under its old id."""
    place = store.folder / "objects" / id_[:2] / id_[2:]
    assert place.exists()
    place.unlink()
    place.write_bytes(zlib.compress(f"{kind} {len(content)}\0".encode() + content))


async def change_blob(store: SnapshotStore, snapshot: Snapshot) -> None:
    entry = (await store.entries(snapshot))["tests/test_a.py"]
    rewrite(store, "blob", entry.blob, b"assert 1\n")


async def test_a_changed_file_is_not_read(store: SnapshotStore) -> None:
    snapshot = await store.snapshot()
    assert await store.read(snapshot, "tests/test_a.py") == b"assert a\n"
    await change_blob(store, snapshot)
    with pytest.raises(WorkspaceError, match=f"tests/test_a.py {CHANGED}"):
        await store.read(snapshot, "tests/test_a.py")
    assert await store.read(snapshot, "src/a.py") == b"a = 0\n"


async def test_a_changed_list_of_large_files_is_not_read(
    store: SnapshotStore, workspace: Path
) -> None:
    write(workspace, {"large": "x" * 2000})
    snapshot = await store.snapshot()
    row = git(
        store.folder,
        f"--git-dir={store.folder}",
        "rev-parse",
        f"{snapshot.tree}:unstored",
    ).strip()
    rewrite(store, "blob", row, b"{}")
    with pytest.raises(WorkspaceError, match=CHANGED):
        await store.entries(snapshot)


async def test_a_changed_file_is_not_restored_unnoticed(
    store: SnapshotStore, workspace: Path
) -> None:
    snapshot = await store.snapshot()
    await change_blob(store, snapshot)
    write(workspace, {"tests/test_a.py": "assert True\n"})
    with pytest.raises(WorkspaceError, match=r"not restored: tests/test_a\.py"):
        await store.restore(snapshot)


async def test_an_unchanged_store_is_read_as_it_was_written(tmp_path: Path) -> None:
    workspace = make_repository(
        tmp_path / "ws", {"a.b": "1\n", "a/b": "2\n", "a-b/c": "3\n", "é x\n": "4\n"}
    )
    (workspace / "link").symlink_to("a")
    (workspace / "a" / "run").write_text("#!/bin/sh\n")
    (workspace / "a" / "run").chmod(0o755)
    write(workspace, {"large": "x" * 2000})
    store = SnapshotStore(workspace, tmp_path / "home", large=1000)
    snapshot = await store.snapshot()
    store.close()
    later = SnapshotStore(workspace, tmp_path / "home", large=1000)
    assert await later.read(snapshot, "a-b/c") == b"3\n"
    assert await later.read(snapshot, "link") == b"a"
    await write_out(later, snapshot, tmp_path / "out")
    (workspace / "large").unlink()  # its content is not kept
    assert listing(tmp_path / "out") == listing(workspace)


async def test_an_empty_workspace_is_read(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    store = SnapshotStore(tmp_path / "ws", tmp_path / "home")
    snapshot = await store.snapshot()
    assert await store.entries(snapshot) == {}
    store.close()
