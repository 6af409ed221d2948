"""A new store takes over what the user's repository knows: the snapshot is as if every file had been read."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from goalrunner import Goal, ValidatorSpec, run_goal
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.goal_tables import WorkspaceConfig
from goalrunner.core.observation import Snapshot
from goalrunner.snapshots import user_index
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.testing import ScriptedConversation
from tests.support.workspaces import git, listing, make_repository, write

STRICT = "assert 1 + 1 == 3\n"
WEAK = "assert 1 + 1 == 2\n"
FILES = {
    "a.txt": "one\n",
    "sub/b.txt": "two\n",
    "sub/tests/test_a.py": STRICT,
    "sub/deep/c.txt": "three\n",
    "run.sh": "x\n",
}


def next_second() -> None:
    """Wait until files that are written from now on have a later second."""
    time.sleep(1.05 - time.time() % 1)


def settled(folder: Path) -> None:
    """Let git write the index again. It believes what was written in an earlier second."""
    write(folder, {"last.txt": "last\n"})
    git(folder, "add", "last.txt")


def unsettled(folder: Path) -> Path:
    make_repository(folder, FILES)
    (folder / "link").symlink_to("a.txt")
    (folder / "run.sh").chmod(0o755)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "two")
    return folder


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Iterate over workspaces. Several are made at once, as each would wait for a second."""

    def make() -> Iterator[Path]:
        while True:
            folders = [
                unsettled(tmp_path_factory.mktemp("settled") / "work") for _ in range(6)
            ]
            next_second()
            for folder in folders:
                settled(folder)
                yield folder

    return make()


@pytest.fixture
def workspace(workspaces: Iterator[Path]) -> Path:
    return next(workspaces)


async def first_snapshot(workspace: Path, home: Path) -> tuple[Snapshot, SnapshotStore]:
    store = SnapshotStore(workspace, home)
    return await store.snapshot(), store


async def both_ways(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """Assert that a snapshot is the same without taking anything over; return what was taken over.

    It never has the file that was added when the index was written.
    """
    with_index, store = await first_snapshot(workspace, tmp_path / "home")
    taken = {os.fsdecode(path) for path in user_index.taken_over(store.folder)}
    await store.verify(with_index)
    store.close()

    async def nothing(*arguments: object) -> bool:
        return False

    monkeypatch.setattr(user_index, "take_over", nothing)
    without, store = await first_snapshot(workspace, tmp_path / "other")
    store.close()
    assert with_index.tree == without.tree
    return taken - {"last.txt"}


async def test_all_unchanged_files_are_taken_over(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await both_ways(workspace, tmp_path, monkeypatch) == {*FILES, "link"}


@pytest.mark.parametrize("version", ["2", "4"])
async def test_every_version_of_an_index_is_read(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    git(workspace, "update-index", "--index-version", version)
    assert await both_ways(workspace, tmp_path, monkeypatch) == {*FILES, "link"}


async def test_of_a_split_index_nothing_wrong_is_taken_over(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(workspace, "update-index", "--split-index")
    write(workspace, {"a.txt": "1ne\n"})
    next_second()
    settled(workspace)
    git(workspace, "add", "a.txt")
    assert "sub/b.txt" not in await both_ways(workspace, tmp_path, monkeypatch)


async def test_a_workspace_may_be_a_folder_of_a_repository(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = await both_ways(workspace / "sub", tmp_path, monkeypatch)
    assert taken == {"b.txt", "tests/test_a.py", "deep/c.txt"}


async def test_the_filters_of_the_whole_repository_apply_to_a_workspace_in_it(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtered(workspace)
    next_second()
    settled(workspace)
    assert "b.txt" not in await both_ways(workspace / "sub", tmp_path, monkeypatch)


def assumed(folder: Path) -> None:
    git(folder, "update-index", "--assume-unchanged", "a.txt")
    write(folder, {"a.txt": "1ne\n"})


def skipped(folder: Path) -> None:
    git(folder, "update-index", "--skip-worktree", "a.txt")
    write(folder, {"a.txt": "1ne\n"})


def intended(folder: Path) -> None:
    write(folder, {"new.txt": "new\n"})
    git(folder, "add", "--intent-to-add", "new.txt")


def named_by_hand(folder: Path) -> None:
    blob = git(folder, "hash-object", "-w", "sub/b.txt").strip()
    git(folder, "update-index", "--cacheinfo", f"100644,{blob},a.txt")


def in_conflict(folder: Path) -> None:
    git(folder, "checkout", "-q", "-b", "other")
    write(folder, {"a.txt": "theirs\n"})
    git(folder, "commit", "-q", "-a", "-m", "theirs")
    git(folder, "checkout", "-q", "main")
    write(folder, {"a.txt": "ours\n"})
    git(folder, "commit", "-q", "-a", "-m", "ours")
    _merged(folder)


def _merged(folder: Path) -> None:
    try:
        git(folder, "merge", "-q", "other")
    except Exception:
        return


def converted(folder: Path) -> None:
    write(folder, {".gitattributes": "*.txt text eol=crlf\n"})
    (folder / "a.txt").write_bytes(b"one\r\n")
    git(folder, "add", "--renormalize", ".")
    git(folder, "add", "--all")


def filtered(folder: Path) -> None:
    git(folder, "config", "filter.swap.clean", "tr a-z b-za")
    write(folder, {".gitattributes": "*.txt filter=swap\n", "sub/b.txt": "own\n"})
    git(folder, "add", "--all")


def staged(folder: Path) -> None:
    write(folder, {"a.txt": "staged\n"})
    git(folder, "add", "a.txt")
    write(folder, {"a.txt": "edited\n"})


def removed(folder: Path) -> None:
    (folder / "a.txt").unlink()


def replaced_by_a_link(folder: Path) -> None:
    removed(folder)
    (folder / "a.txt").symlink_to("sub/b.txt")


def executable(folder: Path) -> None:
    git(folder, "config", "core.fileMode", "false")
    (folder / "a.txt").chmod(0o755)


def with_submodule(folder: Path) -> None:
    make_repository(folder.parent / "library", {"l.txt": "l\n"})
    git(
        folder, "submodule", "--quiet", "add", str(folder.parent / "library"), "library"
    )


UNCHANGED = (intended, with_submodule)
"""What leaves `a.txt` as it was."""

READ = (assumed, skipped, named_by_hand, in_conflict, converted, filtered)
"""What git does not notice in `a.txt`, or changes in it: it is read."""

NOTICED_BY_GIT = (staged, removed, replaced_by_a_link, executable)


async def test_what_an_index_may_say_wrongly_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {}
    for prepare in (*UNCHANGED, *READ, *NOTICED_BY_GIT):
        folder = unsettled(tmp_path / prepare.__name__ / "work")
        prepare(folder)
        folders[prepare] = folder
    # One wait for all of them.
    next_second()
    for prepare, folder in folders.items():
        settled(folder)
        with monkeypatch.context() as patches:
            taken = await both_ways(folder, folder.parent, patches)
        if prepare in READ:
            assert "a.txt" not in taken, prepare.__name__


async def test_a_file_of_the_second_of_the_index_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_repository(tmp_path / "work", FILES)
    later = time.time() + 60
    index = folder / ".git" / "index"
    os.utime(index, (later, later))
    # On a slow machine, the next second may have begun meanwhile.
    second = int(index.stat().st_ctime)
    of_before = {
        name for name in FILES if int((folder / name).stat().st_ctime) < second
    }
    assert await both_ways(folder, tmp_path, monkeypatch) == of_before


async def test_a_store_needs_nothing_of_the_repository_and_writes_nothing_there(
    workspace: Path, tmp_path: Path
) -> None:
    def stats() -> dict[str, tuple[int, int, int]]:
        paths = [*(workspace / ".git").rglob("*")]
        infos = {str(path): path.lstat() for path in paths if path.is_file()}
        return {
            path: (info.st_mtime_ns, info.st_ctime_ns, info.st_nlink)
            for path, info in infos.items()
        }

    before = stats()
    content = listing(workspace)
    first, store = await first_snapshot(workspace, tmp_path / "home")
    assert user_index.taken_over(store.folder)
    write(workspace, {"sub/b.txt": "one\n"})  # a blob that the repository has
    second = await store.snapshot()
    assert stats() == before
    shutil.rmtree(workspace / ".git")
    write(workspace, {"a.txt": "changed\n", "sub/tests/test_a.py": WEAK})
    shutil.rmtree(workspace / "sub" / "deep")
    assert "-three" in await store.diff(first, await store.snapshot())
    await store.restore(first)
    assert listing(workspace) == content
    assert [change.path for change in await store.changes(first, second)] == [
        "sub/b.txt"
    ]
    store.close()


async def test_an_incomplete_repository_is_read_as_far_as_it_goes(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = git(workspace, "rev-parse", "HEAD:a.txt").strip()
    (workspace / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert "a.txt" not in await both_ways(workspace, tmp_path, monkeypatch)


@pytest.mark.parametrize("damage", [b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\7" + b"x" * 40])
async def test_a_damaged_index_takes_nothing_over(
    workspace: Path, damage: bytes
) -> None:
    index = workspace / ".git" / "index"
    index.write_bytes(damage)
    with pytest.raises((ValueError, IndexError)):
        [*user_index._read(index)]


def lie(folder: Path) -> None:
    """Let the index name the weak test for the strict one; git sees no difference."""
    weak = folder.parent / "weak.py"
    weak.write_text(WEAK)
    blob = git(folder, "hash-object", "-w", str(weak)).strip()
    index = folder / ".git" / "index"
    old = bytes.fromhex(git(folder, "rev-parse", "HEAD:sub/tests/test_a.py").strip())
    data = index.read_bytes()[:-20].replace(old, bytes.fromhex(blob))
    index.write_bytes(data + hashlib.sha1(data, usedforsecurity=False).digest())
    assert "test_a.py" not in git(folder, "diff", "--name-only")


async def test_a_wrong_blob_of_an_index_is_found_and_read_again(
    workspace: Path, tmp_path: Path
) -> None:
    lie(workspace)
    first, store = await first_snapshot(workspace, tmp_path / "home")
    path = "sub/tests/test_a.py"
    assert await store.read(first, path) == WEAK.encode()
    await store.verify(first, ["a.txt"])
    with pytest.raises(WorkspaceError, match=f"{path}: the index of the repository"):
        await store.verify(first, [path])
    assert await store.read(await store.snapshot(), path) == STRICT.encode()
    store.close()


async def test_a_file_that_changes_after_the_snapshot_is_no_wrong_blob(
    workspace: Path, tmp_path: Path
) -> None:
    first, store = await first_snapshot(workspace, tmp_path / "home")
    write(workspace, {"a.txt": "edited\n"})
    await store.verify(first)
    store.close()


def test_a_wrong_blob_for_a_test_completes_no_run(workspace: Path) -> None:
    """An earlier agent left a weaker "original"; any change of the test would put that in its place."""
    lie(workspace)

    class Touching(ScriptedConversation):
        async def send(self, prompt: str, recorder: object) -> object:  # type: ignore[override]
            write(workspace, {"sub/tests/test_a.py": STRICT + "# touched\n"})
            return await super().send(prompt, recorder)  # type: ignore[arg-type]

    check = ValidatorSpec(run="python3 sub/tests/test_a.py", name="tests")
    outcome = run_goal(
        Touching("done"), "x", validators=check, workspace=workspace, max_iterations=1
    )
    assert not outcome.passed
    assert outcome.stop_reason == "workspace_failed"


def test_an_honest_run_completes_with_what_was_taken_over(workspace: Path) -> None:
    class Working(ScriptedConversation):
        async def send(self, prompt: str, recorder: object) -> object:  # type: ignore[override]
            write(workspace, {"a.txt": "three\n"})
            return await super().send(prompt, recorder)  # type: ignore[arg-type]

    outcome = run_goal(
        Working("done"),
        "x",
        validators="grep three a.txt",
        workspace=workspace,
        max_iterations=1,
    )
    assert outcome.passed


def forge_object(folder: Path) -> None:
    """Let the object of the strict test have the content of the weak one; index and file are right."""
    blob = git(folder, "rev-parse", "HEAD:sub/tests/test_a.py").strip()
    place = folder / ".git" / "objects" / blob[:2] / blob[2:]
    place.chmod(0o644)
    place.write_bytes(zlib.compress(f"blob {len(WEAK)}\0{WEAK}".encode()))


async def test_an_object_with_other_content_than_its_id_says_is_not_taken_over(
    workspace: Path, tmp_path: Path
) -> None:
    forge_object(workspace)
    first, store = await first_snapshot(workspace, tmp_path / "home")
    await store.verify(first)
    assert await store.read(first, "sub/tests/test_a.py") == STRICT.encode()
    store.close()


def test_a_wrong_object_for_a_test_completes_no_run_with_setup(workspace: Path) -> None:
    forge_object(workspace)
    check = ValidatorSpec(run="python3 sub/tests/test_a.py", name="tests")
    goal = Goal(
        objective="x", validators=(check,), workspace=WorkspaceConfig(setup="true")
    )
    outcome = run_goal(
        ScriptedConversation("done"), goal, workspace=workspace, max_iterations=1
    )
    assert outcome.stop_reason == "max_iterations"


async def test_a_path_of_git_itself_is_not_taken_over(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = workspace / ".git" / "index"
    data = index.read_bytes()[:-20].replace(b"sub/b.txt", b".git/HEAD")
    index.write_bytes(data + hashlib.sha1(data, usedforsecurity=False).digest())
    assert ".git/HEAD" not in await both_ways(workspace, tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", ["split", "sparse"])
async def test_nothing_is_written_into_a_repository_with_a_special_index(
    workspace: Path, tmp_path: Path, kind: str
) -> None:
    if kind == "split":
        git(workspace, "update-index", "--split-index")
    else:
        git(workspace, "commit", "-q", "-m", "three")
        git(
            workspace, "sparse-checkout", "set", "--cone", "--sparse-index", "sub/tests"
        )
    long_ago = time.time() - 1000
    paths = [
        path
        for path in (workspace / ".git").rglob("*")
        if path.is_file() and path.name != "index"
    ]
    for path in paths:
        os.utime(path, (long_ago, long_ago))
    _, store = await first_snapshot(workspace, tmp_path / "home")
    store.close()
    assert [path for path in paths if path.stat().st_mtime > long_ago + 500] == []


async def test_files_with_unusual_names_are_verified(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["Icon\r", '"quoted" tests.py', "two\nlines"]
    write(workspace, dict.fromkeys(names, "x\n"))
    git(workspace, "add", "--all")
    next_second()
    settled(workspace)
    await both_ways(workspace, tmp_path, monkeypatch)
