"""A snapshot is found again by its id, and is what was kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.observation import Snapshot
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.objects import find_snapshot, keeps
from goalrunner.snapshots.store import SnapshotStore
from tests.support.workspaces import make_repository, write


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    workspace = tmp_path / "work"
    workspace.mkdir()
    return SnapshotStore(workspace, tmp_path / "home")


def git(store: SnapshotStore) -> Git:
    return Git(store.folder, store.workspace, os.environ)


async def taken(store: SnapshotStore) -> Snapshot:
    try:
        return await store.snapshot()
    finally:
        store.close()


async def test_a_snapshot_is_found_by_the_beginning_of_its_id(
    store: SnapshotStore,
) -> None:
    make_repository(store.workspace, {"a": "1"})
    first = await taken(store)
    write(store.workspace, {"a": "2"})
    second = await taken(store)
    assert first.repository

    assert await find_snapshot(git(store), first.id[:12]) == first
    assert await find_snapshot(git(store), second.id) == second
    assert await keeps(git(store), second)


@pytest.mark.parametrize("beginning", ["", "zz", "*", "../heads", "0" * 64])
async def test_what_begins_no_id_is_refused(
    store: SnapshotStore, beginning: str
) -> None:
    await taken(store)
    with pytest.raises(UsageError, match="no snapshot"):
        await find_snapshot(git(store), beginning)


async def test_an_ambiguous_beginning_is_refused(store: SnapshotStore) -> None:
    ids = set()
    for number in range(20):
        write(store.workspace, {"a": str(number)})
        ids.add((await taken(store)).id)
        twice = [one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1]
        if twice:
            break
    with pytest.raises(UsageError, match=f'"{twice[0]}" matches 2 snapshots'):
        await find_snapshot(git(store), twice[0])


async def test_a_snapshot_that_was_exchanged_is_refused(store: SnapshotStore) -> None:
    write(store.workspace, {"a": "1"})
    first = await taken(store)
    write(store.workspace, {"a": "2"})
    second = await taken(store)
    folder = store.folder / "refs" / "snapshots"
    (folder / first.id).write_bytes((folder / second.id).read_bytes())

    with pytest.raises(WorkspaceError, match=f"snapshot {first.id} .* was changed"):
        await find_snapshot(git(store), first.id)


async def test_a_snapshot_that_is_not_kept_is_not_kept(store: SnapshotStore) -> None:
    await taken(store)
    assert not await keeps(git(store), Snapshot(id="0" * 64, tree="0" * 40))
