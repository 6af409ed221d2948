"""What `touched` tells of a workspace: the times of files, folders and repositories, in a small and in a large one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from goalrunner.snapshots.look import MOST_TO_LOOK_AT
from goalrunner.snapshots.store import SnapshotStore
from tests.support.workspaces import git, make_repository, write

FILES = {
    "a.py": "a = 1\n",
    "src/b.py": "b = 1\n",
    "src/c.py": "c = 1\n",
    ".gitignore": "*.log\n",
}
MANY = {f"many/f{number}": "" for number in range(MOST_TO_LOOK_AT + 1)}


@pytest.fixture(params=[FILES, {**FILES, **MANY}], ids=["small", "large"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[SnapshotStore]:
    write(tmp_path / "ws", request.param)
    made = SnapshotStore(tmp_path / "ws", tmp_path / "home", outputs=["out/"])
    await made.snapshot()
    yield made
    made.close()


def _rewrite(folder: Path) -> None:
    (folder / "a.py").write_text("a = 2\n")
    (folder / "a.py").write_text("a = 1\n")


def _make_and_remove(folder: Path) -> None:
    (folder / "src" / "new").touch()
    (folder / "src" / "new").unlink()


def _write_caches(folder: Path) -> None:
    write(
        folder,
        {"src/__pycache__/b.pyc": "x", ".coverage": "x", "x.log": "x", "out/page": "x"},
    )


def _replace(folder: Path) -> None:
    (folder / "new").write_text("b = 1\n")
    (folder / "new").replace(folder / "src" / "b.py")


@pytest.mark.parametrize(
    ("change", "paths"),
    [
        (lambda folder: None, []),
        (_rewrite, ["a.py"]),
        (_make_and_remove, ["src/"]),
        (_write_caches, []),
        (_replace, ["/", "src/", "src/b.py"]),
        (lambda folder: (folder / "src" / "b.py").unlink(), ["src/"]),
        (lambda folder: (folder / "a.py").chmod(0o755), ["a.py"]),
        (lambda folder: write(folder, {"new/d.py": ""}), ["/", "new/", "new/d.py"]),
    ],
)
async def test_what_changed_since_a_time(
    store: SnapshotStore, change: Callable[[Path], object], paths: list[str]
) -> None:
    store.clock.note()
    since = store.clock.after_changes()
    change(store.workspace)
    await store.snapshot()
    found = await store.touched(since)
    assert found is not None
    assert sorted(found) == paths
    assert all(at >= since for at in found.values())


async def test_a_commit_is_the_time_of_its_repository(tmp_path: Path) -> None:
    folder = make_repository(tmp_path / "ws", {"a.py": "a = 1\n"})
    store = SnapshotStore(folder, tmp_path / "home")
    await store.snapshot()
    (folder / "a.py").write_text("a = 2\n")
    store.clock.note()
    since = store.clock.after_changes()
    git(folder, "commit", "-q", "-a", "-m", "two")
    await store.snapshot()
    assert list(await store.touched(since) or {}) == [".git"]
    store.close()
