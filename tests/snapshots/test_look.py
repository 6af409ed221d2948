"""A look at a workspace shows every change that git would find, and git is asked only if there may be one."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from goalrunner.snapshots import look as looks
from goalrunner.snapshots.git import Answer, Git
from goalrunner.snapshots.look import Look, look_at
from goalrunner.snapshots.store import SnapshotStore
from tests.support.workspaces import make_repository, write

IGNORED = "*.log\nbuild/*\n!build/keep\nout/\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "work", {"a.txt": "one", "sub/b.txt": "two", ".gitignore": IGNORED}
    )


@pytest.fixture
def store(workspace: Path, tmp_path: Path) -> Iterator[SnapshotStore]:
    made = SnapshotStore(workspace, tmp_path / "home")
    yield made
    made.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of git that were called."""
    made: list[str] = []
    run = Git.run

    async def counted(self: Git, *arguments: str | bytes, **options: object) -> Answer:
        made.append(str(arguments[0]))
        return await run(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "run", counted)
    return made


async def same_as_git(store: SnapshotStore) -> bool:
    """Return whether a snapshot is the same as one for which git is asked."""
    seen = await store.snapshot()
    store._last_look = None
    return seen == await store.snapshot()


async def test_git_is_not_asked_about_an_unchanged_workspace(
    store: SnapshotStore, workspace: Path, calls: list[str]
) -> None:
    first = await store.snapshot()
    write(workspace, {"a.txt": "another"})  # just before
    second = await store.snapshot()
    ignored = await store.ignored_names()
    calls.clear()
    assert [await store.snapshot() for _ in range(3)] == [second] * 3
    assert second != first
    assert await store.ignored_names() == ignored
    assert calls == []


async def test_a_change_in_an_ignored_folder_asks_nothing(
    store: SnapshotStore, workspace: Path, calls: list[str]
) -> None:
    write(workspace, {"out/x": "1"})
    first = await store.snapshot()
    calls.clear()
    write(workspace, {"out/x": "2", "out/y": "1"})
    assert await store.snapshot() == first
    assert calls == []


async def test_git_is_asked_about_a_large_workspace(
    store: SnapshotStore,
    workspace: Path,
    calls: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looks, "MOST_TO_LOOK_AT", 3)
    first = await store.snapshot()
    calls.clear()
    assert await store.snapshot() == first
    assert "diff-files" in calls


async def test_a_file_that_is_not_ignored_in_a_folder_of_ignored_files_is_seen(
    store: SnapshotStore, workspace: Path
) -> None:
    write(workspace, {"build/a.o": "1"})
    first = await store.snapshot()
    write(workspace, {"build/keep": "1"})
    assert (second := await store.snapshot()) != first
    write(workspace, {"build/keep": "2"})
    assert await store.snapshot() not in (first, second)


async def test_a_file_in_place_of_an_ignored_folder_is_seen(
    store: SnapshotStore, workspace: Path
) -> None:
    write(workspace, {"out/x": "1"})
    first = await store.snapshot()
    shutil.rmtree(workspace / "out")
    write(workspace, {"out": "a file"})
    assert await store.snapshot() != first


@pytest.mark.parametrize("kind", ["file", "link"])
async def test_what_replaces_an_ignored_folder_is_listed_as_what_it_is(
    tmp_path: Path, kind: str
) -> None:
    workspace = make_repository(
        tmp_path / "work", {"a.txt": "one", ".gitignore": "dist\n"}
    )
    write(workspace, {"dist/x": "1"})
    store = SnapshotStore(workspace, tmp_path / "home")
    await store.snapshot()
    assert await store.ignored_names() == ("dist/",)
    shutil.rmtree(workspace / "dist")
    if kind == "file":
        (workspace / "dist").write_text("OK")
    else:
        (workspace / "dist").symlink_to(tmp_path)
    assert await store.ignored_names() == ("dist",)
    store.close()


async def test_an_ignored_file_that_appears_while_git_is_asked_is_listed_the_next_time(
    store: SnapshotStore, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.snapshot()
    calls: list[int] = []

    def late(root: bytes, ignored: Collection[bytes]) -> Look | None:
        calls.append(len(calls))
        if (
            len(calls) == 2
        ):  # the first look shows another name, the second comes after git's answer
            write(workspace, {"planted.log": "1"})
        return look_at(root, ignored)

    monkeypatch.setattr("goalrunner.snapshots.store.look_at", late)
    write(workspace, {"new.txt": "1"})
    await store.ignored_names()
    assert await store.ignored_names() == ("planted.log",)


def test_a_file_counts_as_changed_just_before_for_three_seconds(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems keep times in whole seconds."""
    write(workspace, {"a.txt": "one"})
    now = time.time_ns()
    for seconds, racy in ((2, True), (4, False)):
        monkeypatch.setattr(time, "time_ns", lambda later=now + seconds * 10**9: later)
        look = look_at(os.fsencode(workspace), ())
        assert look is not None
        assert (b"a.txt" in look.racy) == racy


async def test_an_ignored_file_that_the_repository_tracks_is_watched_after_its_return(
    tmp_path: Path,
) -> None:
    workspace = make_repository(
        tmp_path / "work", {"a.log": "1", ".gitignore": IGNORED}
    )
    store = SnapshotStore(workspace, tmp_path / "home")
    taken = [await store.snapshot()]
    (workspace / "a.log").unlink()
    taken.append(await store.snapshot())
    for text in ("2", "3"):
        write(workspace, {"a.log": text})
        taken.append(await store.snapshot())
    assert len(set(taken)) == 4
    store.close()


def test_a_file_that_changed_just_before_is_compared_by_its_content(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looks_same(after: str) -> bool:
        write(workspace, {"a.txt": "one"})
        before = look_at(os.fsencode(workspace), ())
        assert before is not None
        write(workspace, {"a.txt": after})
        later = Look(
            before.names, before.files
        )  # as with a clock that ticks too slowly to show the change
        return before.is_same(later, os.fsencode(workspace))

    assert looks_same("one")
    assert not looks_same("two")
    monkeypatch.setattr(looks, "_RACY_BYTES", 2)
    assert not looks_same("one")


def _write_again(path: Path, numbers: random.Random) -> None:
    """Write other bytes of the same length, and set the time of change back."""
    before = path.lstat()
    path.write_bytes(numbers.randbytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path, make: Callable[[], object]) -> None:
    path.unlink()
    make()


CHANGES: tuple[Callable[[Path, random.Random], object], ...] = (
    lambda path, numbers: path.write_bytes(numbers.randbytes(3)),
    _write_again,
    lambda path, _: path.unlink(),
    lambda path, _: path.chmod(path.stat().st_mode ^ 0o111),
    lambda path, _: _replace(path, lambda: path.symlink_to("a.txt")),
    lambda path, _: _replace(path, path.mkdir),
    lambda path, _: path.rename(path.with_name(f"{path.name}1")),
    lambda path, _: path.write_bytes(path.read_bytes()),
)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
async def test_random_changes_are_seen_as_by_git(
    store: SnapshotStore, workspace: Path, seed: int
) -> None:
    numbers = random.Random(seed)
    names = [
        "a.txt",
        "sub/b.txt",
        "sub/x.log",
        "build/a.o",
        "build/keep",
        "out/x",
        "new/deep/c",
        "out",
        ".gitignore",
    ]
    for _ in range(30):
        path = workspace / numbers.choice(names)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path) and path.is_file():
            numbers.choice(CHANGES)(path, numbers)
        elif not os.path.lexists(path) and not any(
            parent.is_file() for parent in path.parents
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(numbers.randbytes(3))
        assert await same_as_git(store)


async def test_a_home_in_the_workspace_hides_only_the_folders_around_it(
    tmp_path: Path,
) -> None:
    workspace = make_repository(tmp_path / "ws", {".gitignore": ".goal\n.g\ndata/\n"})
    write(workspace, {".g": "1\n", "data/x": "2\n"})
    store = SnapshotStore(workspace, workspace / ".goal")
    await store.snapshot()
    assert await store.ignored_names() == (".g", "data/")
    store.close()
