"""What cannot be restored is named, and the state before is not lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from goalrunner.app.run_snapshots import KeptStore
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.observation import Change
from goalrunner.snapshots.store import SnapshotStore
from tests.support.workspaces import git, listing, make_repository, write


async def test_the_users_repository_is_not_touched(tmp_path: Path) -> None:
    workspace, home = (
        make_repository(tmp_path / "work", {"a": "1\n"}),
        tmp_path / "home",
    )
    store = SnapshotStore(workspace, home)
    start = await store.snapshot()
    store.close()
    write(workspace, {"a": "2\n", "b": "new\n"})
    git(workspace, "add", "--all")
    git(workspace, "commit", "-q", "-m", "two")
    head = git(workspace, "rev-parse", "HEAD")

    work = KeptStore(workspace, home, os.environ)
    plan = await work.plan(start)
    changed, _ = await work.perform(start)
    work.store.close()

    assert (
        plan
        == changed
        == (Change(path="a", kind="modified"), Change(path="b", kind="deleted"))
    )
    assert listing(workspace) == {"a": b"- 1\n"}
    assert git(workspace, "rev-parse", "HEAD") == head


async def test_what_is_not_kept_is_named_and_so_is_the_state_before(
    tmp_path: Path,
) -> None:
    workspace, home = tmp_path / "work", tmp_path / "home"
    write(workspace, {"large": "x" * 100, "small": "1"})
    store = SnapshotStore(workspace, home, large=50)
    start = await store.snapshot()
    store.close()
    write(workspace, {"small": "2"})
    (workspace / "large").unlink()

    work = KeptStore(workspace, home, os.environ)
    assert len(await work.plan(start)) == 2
    with pytest.raises(WorkspaceError) as refused:
        await work.perform(start)
    work.store.close()

    assert refused.value.message == "not restored: large"
    assert "the state before is kept as snapshot " in refused.value.hint
    assert listing(workspace) == {"small": b"- 1"}
    kept = await KeptStore(workspace, home, os.environ).find(
        refused.value.hint.split()[-1]
    )
    again = SnapshotStore(workspace, home)
    assert await again.read(kept, "small") == b"2"


@pytest.mark.parametrize("kept", [True, False])
async def test_what_was_hidden_by_a_later_ignore_rule_goes_too_by_the_rules_of_the_start(
    tmp_path: Path, kept: bool
) -> None:
    workspace, home, rules = (
        tmp_path / "work",
        tmp_path / "home",
        tmp_path / "run" / "start",
    )
    write(workspace, {"a": "1"})
    store = SnapshotStore(workspace, home, start=rules)
    start = await store.snapshot()
    store.close()
    write(workspace, {"hidden": "x", ".gitignore": "hidden\n"})

    work = KeptStore(
        workspace, home, os.environ, start=rules if kept else tmp_path / "none"
    )
    await work.perform(start)
    work.store.close()

    assert sorted(listing(workspace)) == (["a"] if kept else ["a", "hidden"])
    assert not (tmp_path / "none").exists()
