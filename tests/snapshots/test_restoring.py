"""Snapshots as files again: checkouts outside the workspace, and the workspace made what it was."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalrunner.records.removal import clear
from goalrunner.snapshots.store import SnapshotStore
from tests.support.workspaces import git, listing, make_repository, write, write_out


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    write(folder, {"a.py": "a = 1\n", "src/b.py": "b = 1\n", "run.sh": "#!/bin/sh\n"})
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "dangling").symlink_to("no/where")
    return folder


@pytest.fixture
def store(workspace: Path, tmp_path: Path) -> Iterator[SnapshotStore]:
    made = SnapshotStore(workspace, tmp_path / "home")
    yield made
    made.close()


async def test_a_snapshot_has_the_content(
    store: SnapshotStore, workspace: Path, tmp_path: Path
) -> None:
    await write_out(store, await store.snapshot(), tmp_path / "out")
    assert listing(tmp_path / "out") == listing(workspace)


async def test_an_old_snapshot_can_be_read(
    store: SnapshotStore, workspace: Path, tmp_path: Path
) -> None:
    before = listing(workspace)
    first = await store.snapshot()
    write(workspace, {"a.py": "other\n", "more": "x"})
    await store.snapshot()
    await write_out(store, first, tmp_path / "out")

    assert listing(tmp_path / "out") == before


async def test_restoring_says_what_it_changed_and_leaves_the_rest(
    tmp_path: Path,
) -> None:
    workspace = make_repository(
        tmp_path / "ws", {".gitignore": "*.log\n", "a": "1\n", "gone": "1\n"}
    )
    write(workspace, {"x.log": "1\n"})
    store = SnapshotStore(workspace, tmp_path / "home")
    first = await store.snapshot()
    git(workspace, "rm", "-q", "gone")
    write(workspace, {"a": "2\n", "new/file": "1\n", "x.log": "2\n"})
    second = await store.snapshot()
    head = git(workspace, "status", "--porcelain=v2", "--branch")

    changes = await store.restore(first)
    assert [f"{change.kind} {change.path}" for change in changes] == [
        "modified a",
        "added gone",
        "deleted new/file",
    ]
    assert listing(workspace) == {
        ".gitignore": b"- *.log\n",
        "a": b"- 1\n",
        "gone": b"- 1\n",
        "x.log": b"- 2\n",
    }
    assert (
        git(workspace, "status", "--porcelain=v2", "--branch") != head
    )  # files alone come back: the index still lacks `gone`
    assert (await store.snapshot()).tree == first.tree
    assert await store.restore(first) == ()
    await store.restore(second)
    assert (workspace / "a").read_text() == "2\n"
    store.close()


async def test_restoring_never_writes_through_a_link(
    store: SnapshotStore, workspace: Path, tmp_path: Path
) -> None:
    write(tmp_path / "outside", {"b.py": "outside\n"})
    before = listing(workspace)
    first = await store.snapshot()
    shutil.rmtree(workspace / "src")
    (workspace / "src").symlink_to(tmp_path / "outside")
    (workspace / "a.py").unlink()
    (workspace / "a.py").symlink_to(tmp_path / "outside" / "b.py")
    await store.restore(first)

    assert listing(workspace) == before
    assert (tmp_path / "outside" / "b.py").read_text() == "outside\n"


async def test_restoring_takes_away_what_stands_in_the_way(
    store: SnapshotStore, workspace: Path
) -> None:
    before = listing(workspace)
    first = await store.snapshot()
    (workspace / "a.py").unlink()
    write(workspace, {"a.py/inner/x": "", "a.py/.git/HEAD": "junk"})
    (workspace / "src" / "b.py").unlink()
    os.mkfifo(workspace / "src" / "b.py")
    write(workspace, {".GIT/x": ""})
    await store.restore(first)

    assert listing(workspace) == before


async def test_an_edit_right_after_restoring_is_seen(
    store: SnapshotStore, workspace: Path
) -> None:
    first = await store.snapshot()
    (workspace / "a.py").write_text("a = 2\n")
    await store.restore(first)
    info = (workspace / "a.py").stat()
    (workspace / "a.py").write_text("a = 3\n")
    os.utime(workspace / "a.py", ns=(info.st_atime_ns, info.st_mtime_ns))

    assert [
        change.path for change in await store.changes(first, await store.snapshot())
    ] == ["a.py"]


_NAMES = st.sampled_from(
    [
        "a",
        "b",
        "d/a",
        "d/b",
        "d/e/a",
        "e",
        "d",
        ".gitignore",
        "d/.gitattributes",
        "two\nlines",
        "d/é",
    ]
)
_TEXTS = st.sampled_from(
    ["", "x", "y\n", "one\r\ntwo\r\n", "*\n", "* text eol=crlf\n", "\0\1\2"]
)
_OPERATIONS = st.one_of(
    st.tuples(st.just("write"), _NAMES, _TEXTS),
    st.tuples(st.just("remove"), _NAMES, st.just("")),
    st.tuples(st.just("link"), _NAMES, st.sampled_from(["a", "d", "..", "/nowhere"])),
    st.tuples(st.just("flip"), _NAMES, st.just("")),
    st.tuples(st.just("touch"), _NAMES, st.just("")),
)


@pytest.mark.slow
@given(st.lists(st.lists(_OPERATIONS, max_size=5), min_size=2, max_size=4), st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_equal_content_equal_trees_and_the_content_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[list[tuple[str, str, str]]],
    data: st.DataObject,
) -> None:
    root = tmp_path_factory.mktemp("random")
    (root / "ws").mkdir()
    number = data.draw(st.integers(0, len(steps) - 1))

    async def body() -> None:
        store = SnapshotStore(root / "ws", root / "home")
        await (
            store.snapshot()
        )  # the start: a .gitignore of the steps is a file like any other
        seen = []
        for step in steps:
            for operation in step:
                _operate(root / "ws", *operation)
            seen.append((listing(root / "ws"), await store.snapshot()))
        for content, snapshot in seen:
            for other, another in seen:
                assert (content == other) == (snapshot.tree == another.tree)
                assert (await store.all_changes(snapshot, another) == ()) == (
                    snapshot.id == another.id
                )
        content, snapshot = seen[number]
        await write_out(store, snapshot, root / "out")
        assert listing(root / "out") == content
        await store.restore(snapshot)
        assert listing(root / "ws") == content
        store.close()

    asyncio.run(body())


def _operate(folder: Path, operation: str, name: str, text: str) -> None:
    path = folder / name
    if any(
        parent.is_symlink() or parent.is_file()
        for parent in path.parents
        if parent.is_relative_to(folder)
    ):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    match operation:
        case "write" | "link" | "remove":
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            if operation == "write":
                path.write_text(text, newline="")
            elif operation == "link":
                path.symlink_to(text)
        case "flip" if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode ^ 0o111)
        case "touch" if path.is_file() and not path.is_symlink():
            os.utime(path, (1, 1))
        case _:
            pass


def test_files_are_removed_while_a_process_still_writes_there(tmp_path: Path) -> None:
    folder = tmp_path / "now"
    (folder / "deep").mkdir(parents=True)
    script = f"i=0; while [ $i -lt 60 ]; do mkdir -p {folder}/deep 2>/dev/null; echo x > deep/$i; i=$((i+1)); sleep 0.005; done"
    with subprocess.Popen(["sh", "-c", script], cwd=folder, stderr=subprocess.DEVNULL):
        clear(folder)
        assert not any(path.name.startswith(".now-") for path in tmp_path.iterdir())


def test_making_room_where_nothing_stands_is_fine(tmp_path: Path) -> None:
    clear(tmp_path / "now")
    (tmp_path / "now").write_text("a file")
    clear(tmp_path / "now")
    assert list(tmp_path.iterdir()) == []
