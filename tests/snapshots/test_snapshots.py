"""What a snapshot sees and what it does not, by real git on real folders."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.errors import ExitCode, WorkspaceError
from goalrunner.core.observation import Change, DiffStat, Snapshot
from goalrunner.snapshots.git import Answer, Git
from goalrunner.snapshots.store import SnapshotStore
from tests.support.workspaces import git, listing, make_repository, write, write_out


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    write(folder, {"a.py": "a = 1\n", "src/b.py": "b = 1\n"})
    return folder


@pytest.fixture
def store(workspace: Path, tmp_path: Path) -> Iterator[SnapshotStore]:
    made = SnapshotStore(workspace, tmp_path / "home")
    yield made
    made.close()


def said(changes: tuple[Change, ...]) -> list[str]:
    return [f"{change.kind} {change.path}" for change in changes]


async def test_the_same_content_is_the_same_snapshot(
    store: SnapshotStore, workspace: Path
) -> None:
    first = await store.snapshot()
    os.utime(workspace / "a.py")
    assert await store.snapshot() == first
    (workspace / "a.py").write_text("a = 2\n")
    second = await store.snapshot()
    (workspace / "a.py").write_text("a = 1\n")

    assert second != first
    assert await store.snapshot() == first
    assert first.repository == ""
    assert said(await store.changes(first, second)) == ["modified a.py"]


async def test_every_kind_of_change_is_seen(
    store: SnapshotStore, workspace: Path
) -> None:
    write(workspace, {"gone": "x", "mode": "x", "kind": "x", "folder/x": "x"})
    first = await store.snapshot()
    (workspace / "gone").unlink()
    (workspace / "mode").chmod(0o755)
    (workspace / "kind").unlink()
    (workspace / "kind").symlink_to("a.py")
    (workspace / "folder" / "x").unlink()
    (workspace / "folder").rmdir()
    write(workspace, {"new/deep/file": "x", "folder": "now a file"})
    second = await store.snapshot()

    changes = [
        "added folder",
        "deleted folder/x",
        "deleted gone",
        "modified kind",
        "modified mode",
        "added new/deep/file",
    ]
    assert said(await store.all_changes(first, second)) == changes
    assert await store.all_changes(second, second) == ()
    entries = await store.entries(second)
    assert {path: entry.mode for path, entry in entries.items()} == {
        "a.py": "100644",
        "folder": "100644",
        "kind": "120000",
        "mode": "100755",
        "new/deep/file": "100644",
        "src/b.py": "100644",
    }
    assert await store.read(second, "kind") == b"a.py"
    assert await store.read(second, "folder") == b"now a file"
    assert await store.read(second, "gone") is None
    assert await store.read(second, "new") is None


async def test_an_edit_that_sets_size_and_time_back_is_seen(
    store: SnapshotStore, workspace: Path
) -> None:
    path = workspace / "a.py"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    for text in ("a = 2\n", "a = 3\n", "a = 4\n"):  # several within one second
        before = await store.snapshot()
        path.write_text(text)
        os.utime(path, (1_000_000_000, 1_000_000_000))
        assert said(await store.changes(before, await store.snapshot())) == [
            "modified a.py"
        ]


async def test_so_is_one_after_another_process_took_the_snapshot(
    store: SnapshotStore, workspace: Path, tmp_path: Path
) -> None:
    path = workspace / "a.py"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    before = await store.snapshot()
    store.close()
    path.write_text("a = 2\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    later = SnapshotStore(workspace, tmp_path / "home")

    assert said(await later.changes(before, await later.snapshot())) == [
        "modified a.py"
    ]
    later.close()


async def test_caches_and_outputs_are_in_the_trees_but_change_nothing(
    workspace: Path, tmp_path: Path
) -> None:
    store = SnapshotStore(workspace, tmp_path / "home", outputs=["report.xml"])
    first = await store.snapshot()
    write(
        workspace,
        {
            "__pycache__/a.pyc": "x",
            "sub/.pytest_cache/v": "x",
            ".coverage": "x",
            "report.xml": "x",
            "b": "",
        },
    )
    second = await store.snapshot()

    assert said(await store.changes(first, second)) == ["added b"]
    assert len(await store.all_changes(first, second)) == 5
    store.close()


async def test_what_the_rules_ignored_at_the_start_stays_out(
    store: SnapshotStore, workspace: Path
) -> None:
    write(
        workspace,
        {
            ".gitignore": "*.log\n",
            "src/.gitignore": "/out\n!keep.log\n",
            "x.log": "",
            "src/out/y": "",
        },
    )
    write(workspace, {"src/keep.log": "", "src/sub/out": ""})
    first = await store.snapshot()
    write(workspace, {"x.log": "changed", "src/out/y": "changed"})

    assert await store.snapshot() == first
    watched = [
        ".gitignore",
        "a.py",
        "src/.gitignore",
        "src/b.py",
        "src/keep.log",
        "src/sub/out",
    ]
    assert list(await store.entries(first)) == watched


async def test_a_new_gitignore_hides_nothing(
    store: SnapshotStore, workspace: Path
) -> None:
    first = await store.snapshot()
    write(
        workspace,
        {
            ".gitignore": "*\n",
            "src/.gitignore": "*\n",
            "planted.py": "x",
            "src/planted.py": "x",
        },
    )
    (workspace / "a.py").unlink()

    changes = said(await store.changes(first, await store.snapshot()))
    assert changes == [
        "added .gitignore",
        "deleted a.py",
        "added planted.py",
        "added src/.gitignore",
        "added src/planted.py",
    ]


async def test_the_rules_of_the_start_outlive_the_process(
    workspace: Path, tmp_path: Path
) -> None:
    write(workspace, {".gitignore": "*.log\n", "x.log": ""})
    store = SnapshotStore(
        workspace, tmp_path / "home", start=tmp_path / "run" / "start"
    )
    first = await store.snapshot()
    store.close()
    write(workspace, {".gitignore": "*\n", "x.log": "y", "planted": "x"})
    resumed = SnapshotStore(
        workspace, tmp_path / "home", start=tmp_path / "run" / "start"
    )

    changes = await resumed.changes(first, await resumed.snapshot())
    assert said(changes) == ["modified .gitignore", "added planted"]
    resumed.close()


async def test_a_new_run_reads_the_rules_anew(workspace: Path, tmp_path: Path) -> None:
    write(workspace, {"x.log": ""})
    store = SnapshotStore(workspace, tmp_path / "home")
    assert "x.log" in await store.entries(await store.snapshot())
    store.close()
    write(workspace, {".gitignore": "*.log\n"})
    later = SnapshotStore(workspace, tmp_path / "home")

    assert "x.log" not in await later.entries(await later.snapshot())
    later.close()


async def test_what_is_tracked_though_ignored_is_watched(tmp_path: Path) -> None:
    workspace = make_repository(
        tmp_path / "ws", {".gitignore": "data/\n", "data/in.csv": "1\n"}
    )
    write(workspace, {"data/out.csv": "2\n"})
    store = SnapshotStore(workspace, tmp_path / "home", start=tmp_path / "start")
    first = await store.snapshot()
    assert list(await store.entries(first)) == [".gitignore", "data/in.csv"]
    git(workspace, "rm", "-q", "--cached", "data/in.csv")
    (workspace / "data" / "in.csv").unlink()
    gone = await store.snapshot()
    store.close()
    (workspace / "data" / "in.csv").write_text("forged\n")
    resumed = SnapshotStore(workspace, tmp_path / "home", start=tmp_path / "start")
    forged = await resumed.snapshot()

    assert said(await resumed.changes(first, gone)) == [
        "repository .git",
        "deleted data/in.csv",
    ]
    assert said(await resumed.changes(first, forged)) == [
        "repository .git",
        "modified data/in.csv",
    ]
    resumed.close()
    again = SnapshotStore(workspace, tmp_path / "home")
    assert "data/in.csv" not in await again.entries(await again.snapshot())
    again.close()


async def test_info_exclude_counts_and_attributes_do_not(tmp_path: Path) -> None:
    files = {
        "a.txt": "one\r\ntwo\r\n",
        "id.txt": "$Id: x $\n",
        "big.bin": "version https://git-lfs\n",
        "u.txt": "ä\n",
    }
    workspace = make_repository(tmp_path / "ws", files)
    write(
        workspace,
        {
            ".gitattributes": "[attr]sly filter=evil\n* text eol=lf ident sly\nu.txt working-tree-encoding=UTF-16\n"
        },
    )
    git(workspace, "config", "filter.evil.clean", f"touch {tmp_path}/ran; cat")
    git(workspace, "config", "filter.evil.required", "true")
    git(workspace, "config", "core.autocrlf", "true")
    write(workspace, {".git/info/exclude": "secret\n", "secret": "x"})
    store = SnapshotStore(workspace, tmp_path / "home")
    snapshot = await store.snapshot()

    assert not (tmp_path / "ran").exists()
    for name, text in files.items():
        assert await store.read(snapshot, name) == text.encode()
    assert "secret" not in await store.entries(snapshot)
    await write_out(store, snapshot, tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (tmp_path / "out" / "u.txt").read_bytes() == "ä\n".encode()
    store.close()


async def test_the_repository_belongs_to_the_snapshot_and_is_never_touched(
    tmp_path: Path,
) -> None:
    workspace = make_repository(tmp_path / "ws", {"a": "1\n"})
    hook = workspace / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    git(workspace, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    own = {
        path: (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in (workspace / ".git").rglob("*")
    }
    store = SnapshotStore(workspace, tmp_path / "home")
    first = await store.snapshot()
    (workspace / "a").write_text("2\n")
    changed = await store.snapshot()
    await store.restore(first)

    assert {
        path: (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in (workspace / ".git").rglob("*")
    } == own
    assert not (tmp_path / "ran").exists()
    git(workspace, "config", "--unset", "core.fsmonitor")
    hook.unlink()
    assert changed.repository == first.repository
    os.utime(workspace / "a")
    git(workspace, "status")  # writes the index: the same entries, other times
    assert (await store.snapshot()).repository == first.repository
    git(workspace, "commit", "-q", "--allow-empty", "-m", "two")
    committed = await store.snapshot()
    assert said(await store.changes(first, committed)) == ["repository .git"]
    git(workspace, "pack-refs", "--all")
    git(workspace, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert await store.snapshot() == committed
    git(workspace, "update-index", "--chmod=+x", "a")
    assert said(await store.changes(committed, await store.snapshot())) == [
        "repository .git"
    ]
    store.close()


async def test_repositories_in_folders_are_looked_into(tmp_path: Path) -> None:
    library = make_repository(
        tmp_path / "library",
        {".gitignore": "*.o\n", "lib.c": "1\n", "tracked.o": "1\n"},
    )
    workspace = make_repository(tmp_path / "ws", {"a": "1\n", ".gitignore": "*.txt\n"})
    git(workspace, "submodule", "--quiet", "add", str(library), "vendor/lib")
    make_repository(workspace / "nested", {"x": "1\n", "notes.txt": "1\n"})
    make_repository(workspace / "nested" / "inner", {"y": "1\n"})
    (workspace / "fresh").mkdir()
    git(workspace / "fresh", "init", "-q")
    write(
        workspace,
        {
            "fresh/z": "1\n",
            "vendor/lib/built.o": "1\n",
            "nested/more.txt": "1\n",
            "own.txt": "1\n",
        },
    )
    (workspace / "bare").mkdir()
    git(workspace / "bare", "init", "-q")
    store = SnapshotStore(workspace, tmp_path / "home")
    first = await store.snapshot()
    assert list(await store.entries(first)) == [
        *(
            ".gitignore",
            ".gitmodules",
            "a",
            "fresh/z",
            "nested/inner/y",
            "nested/more.txt",
            "nested/notes.txt",
        ),
        *(
            "nested/x",
            "vendor/lib/.gitignore",
            "vendor/lib/lib.c",
            "vendor/lib/tracked.o",
        ),
    ]
    assert all(
        entry.mode == "100644" for entry in (await store.entries(first)).values()
    )
    write(workspace, {"nested/inner/y": "2\n", "vendor/lib/new.c": "1\n"})
    git(workspace / "fresh", "add", "z")
    git(workspace / "bare", "commit", "-q", "--allow-empty", "-m", "one")
    second = await store.snapshot()

    assert said(await store.changes(first, second)) == [
        *(
            "repository bare/.git",
            "repository fresh/.git",
            "modified nested/inner/y",
            "added vendor/lib/new.c",
        ),
    ]
    git(workspace, "init", "-q", "later")
    write(workspace, {"later/hidden.py": "1\n", "later/.git/info/exclude": "*\n"})
    assert said(await store.changes(second, await store.snapshot())) == [
        "repository later/.git",
        "added later/hidden.py",
    ]
    store.close()


async def test_a_folder_that_becomes_a_repository_stays_watched(
    store: SnapshotStore, workspace: Path
) -> None:
    first = await store.snapshot()
    git(workspace / "src", "init", "-q")
    write(workspace, {"src/b.py": "b = 2\n", "src/c.py": ""})

    changes = said(await store.changes(first, await store.snapshot()))
    assert changes == ["repository src/.git", "modified src/b.py", "added src/c.py"]


async def test_a_workspace_that_is_a_part_of_a_repository(tmp_path: Path) -> None:
    files = {
        ".gitignore": "*.log\n/pkg/one/out\n",
        "pkg/.gitignore": "*.tmp\n",
        "pkg/one/a": "1\n",
        "pkg/two/b": "1\n",
    }
    root = make_repository(tmp_path / "root", {**files, "pkg/one/t.log": "tracked\n"})
    write(
        root,
        {
            "pkg/one/x.log": "",
            "pkg/one/x.tmp": "",
            "pkg/one/out/x": "",
            "pkg/one/sub/out": "",
        },
    )
    store = SnapshotStore(root / "pkg" / "one", tmp_path / "home")
    first = await store.snapshot()
    assert list(await store.entries(first)) == ["a", "sub/out", "t.log"]
    write(root, {"pkg/two/b": "2\n"})
    assert await store.snapshot() == first
    git(root, "commit", "-q", "--allow-empty", "-m", "two")
    assert said(await store.changes(first, await store.snapshot())) == [
        "repository ../../.git"
    ]
    store.close()


async def test_a_repository_that_ignores_the_workspace_does_not_count(
    tmp_path: Path,
) -> None:
    root = make_repository(tmp_path / "home-folder", {".gitignore": "*\n"})
    write(root, {"work/a": "1\n"})
    store = SnapshotStore(root / "work", tmp_path / "home")
    snapshot = await store.snapshot()

    assert (list(await store.entries(snapshot)), snapshot.repository) == (["a"], "")
    store.close()


async def test_a_linked_worktree(tmp_path: Path) -> None:
    main = make_repository(tmp_path / "main", {"a": "1\n"})
    git(main, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    store = SnapshotStore(tmp_path / "side", tmp_path / "home")
    first = await store.snapshot()
    assert list(await store.entries(first)) == ["a"]
    git(tmp_path / "side", "commit", "-q", "--allow-empty", "-m", "two")
    assert said(await store.changes(first, await store.snapshot())) == [
        "repository .git"
    ]
    store.close()


async def test_links_are_never_followed(
    store: SnapshotStore, workspace: Path, tmp_path: Path
) -> None:
    write(tmp_path / "outside", {"b.py": "secret\n"})
    first = await store.snapshot()
    (workspace / "src" / "b.py").unlink()
    (workspace / "src").rmdir()
    (workspace / "src").symlink_to(tmp_path / "outside")
    (workspace / "loop").symlink_to(workspace)
    second = await store.snapshot()

    assert said(await store.changes(first, second)) == [
        "added loop",
        "added src",
        "deleted src/b.py",
    ]
    write(tmp_path / "outside", {"b.py": "changed\n"})
    assert await store.snapshot() == second


async def test_odd_names(store: SnapshotStore, workspace: Path, tmp_path: Path) -> None:
    names = [
        b"two\nlines",
        b"q\"uo'te",
        b"caf\xe9",
        b"-dash",
        b":colon",
        b"*",
        b" ",
        b"back\\slash",
        b"tab\t",
    ]
    for name in names:
        Path(os.fsdecode(os.fsencode(workspace) + b"/" + name)).write_bytes(name)
    snapshot = await store.snapshot()

    entries = await store.entries(snapshot)
    assert {
        "two\\x0alines",
        "caf\\xe9",
        "back\\x5cslash",
        ":colon",
        "*",
        " ",
        "tab\\x09",
    } < set(entries)
    for path in entries:
        assert await store.read(snapshot, path) is not None
    assert await store.read(snapshot, "two\\x0alines") == b"two\nlines"
    await write_out(store, snapshot, tmp_path / "out")
    assert listing(tmp_path / "out") == listing(workspace)


async def test_names_that_git_cannot_hold_are_hashed(
    store: SnapshotStore, workspace: Path, tmp_path: Path
) -> None:
    first = await store.snapshot()
    write(workspace, {".GIT/config": "x", "sub/.Git": "x"})
    (workspace / ".gitmodules").symlink_to("a.py")
    second = await store.snapshot()
    write(workspace, {".GIT/config": "y"})
    third = await store.snapshot()

    assert said(await store.changes(first, second)) == [
        "added .GIT/config",
        "added .gitmodules",
        "added sub/.Git",
    ]
    assert said(await store.changes(second, third)) == ["modified .GIT/config"]


async def test_pipes_and_sockets_are_no_content(
    store: SnapshotStore, workspace: Path
) -> None:
    first = await store.snapshot()
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workspace / "socket"))
        assert await store.snapshot() == first
    (workspace / "a.py").unlink()
    os.mkfifo(workspace / "a.py")

    assert said(await store.changes(first, await store.snapshot())) == ["deleted a.py"]


async def test_large_files_are_hashed_not_kept(workspace: Path, tmp_path: Path) -> None:
    store = SnapshotStore(workspace, tmp_path / "home", large=1000)
    write(workspace, {"big": "x" * 2000, "grows": "small"})
    first = await store.snapshot()
    write(workspace, {"big": "y" * 2000, "grows": "z" * 3000})
    second = await store.snapshot()

    assert said(await store.changes(first, second)) == [
        "modified big",
        "modified grows",
    ]
    entry = (await store.entries(second))["grows"]
    assert (entry.mode, entry.stored) == ("100644", False)
    with pytest.raises(WorkspaceError, match="its content was not stored"):
        await store.read(second, "big")
    assert "big: not kept, sha256" in await store.diff(first, second, ["big"])
    with pytest.raises(WorkspaceError, match=r"not restored: big$|not restored: big\n"):
        await store.restore(first)
    assert (workspace / "grows").read_text() == "small"
    store.close()


async def test_a_file_is_not_its_own_placeholder(
    workspace: Path, tmp_path: Path
) -> None:
    store = SnapshotStore(workspace, tmp_path / "home", large=100)
    write(workspace, {"big": "x" * 2000})
    first = await store.snapshot()
    manifest = subprocess.run(
        [
            "git",
            f"--git-dir={store.folder}",
            "cat-file",
            "blob",
            f"{first.tree}:unstored",
        ],
        check=True,
        capture_output=True,
    )
    (workspace / "big").write_bytes(manifest.stdout[:90])

    assert (await store.snapshot()).tree != first.tree
    store.close()


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder of a user without root's rights, and that user's rights for the time of a test."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        root = os.geteuid() == 0
        if root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)


async def test_what_cannot_be_read_is_recorded(
    store: SnapshotStore, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    await store.snapshot()  # imports everything, while it can
    folder = request.getfixturevalue("as_nobody")
    workspace = folder / "ws"
    write(workspace, {"a": "1", "secret": "1", "closed/x": "1"})
    own = SnapshotStore(workspace, folder / "home")
    first = await own.snapshot()
    (workspace / "secret").chmod(0)
    second = await own.snapshot()
    assert said(await own.changes(first, second)) == ["modified secret"]
    assert (await own.entries(second))["secret"].mode == "000000"
    assert await own.snapshot() == second
    (workspace / "secret").chmod(0o644)
    assert await own.snapshot() == first
    for mode in (0, 0o444):
        (workspace / "closed").chmod(mode)
        with pytest.raises(
            WorkspaceError, match=r"cannot be read: .*closed.*Permission denied"
        ):
            await own.snapshot()
    (workspace / "closed").chmod(0o755)
    assert await own.snapshot() == first
    own.close()


async def test_a_folder_of_another_user_that_cannot_be_read_is_left_out(
    store: SnapshotStore, request: pytest.FixtureRequest
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of another user")
    await store.snapshot()  # imports everything, while it can
    folder = request.getfixturevalue("as_nobody")
    workspace = folder / "ws"
    write(workspace, {"a": "1"})
    os.seteuid(0)
    (workspace / "data/volume").mkdir(parents=True)
    (workspace / "data").chmod(0o777)
    (workspace / "data/volume").chmod(0o700)
    os.seteuid(65534)
    own = SnapshotStore(workspace, folder / "home")
    first = await own.snapshot()
    assert set(await own.entries(first)) == {"a"}
    assert await own.snapshot() == first
    own.close()


@pytest.mark.slow
async def test_files_that_come_and_go_meanwhile_do_no_harm(
    store: SnapshotStore, workspace: Path
) -> None:
    code = "import os,sys,time\nend=time.time()+1.5\nwhile time.time()<end:\n"
    code += " for i in range(300):\n  open(f'{sys.argv[1]}/t{i}','w').write('x'*i)\n"
    code += " for i in range(300):\n  os.unlink(f'{sys.argv[1]}/t{i}')\n"
    (workspace / "busy").mkdir()
    busy = subprocess.Popen([sys.executable, "-c", code, str(workspace / "busy")])
    while busy.poll() is None:
        snapshot = await store.snapshot()
        assert {"a.py", "src/b.py"} <= set(await store.entries(snapshot))
    assert busy.returncode == 0
    assert list(await store.entries(await store.snapshot())) == ["a.py", "src/b.py"]


async def test_a_lock_that_a_killed_process_left_is_taken_away(
    store: SnapshotStore, workspace: Path, tmp_path: Path
) -> None:
    first = await store.snapshot()
    store.close()
    (store.folder / "index.lock").touch()
    (workspace / "a.py").write_text("")
    later = SnapshotStore(workspace, tmp_path / "home")

    assert said(await later.changes(first, await later.snapshot())) == ["modified a.py"]
    later.close()


@pytest.mark.parametrize("damage", ["index", "objects"])
async def test_a_damaged_store_is_made_anew(
    store: SnapshotStore, workspace: Path, tmp_path: Path, damage: str
) -> None:
    first = await store.snapshot()
    store.close()
    if damage == "index":
        (store.folder / "index").write_bytes(b"DIRC broken")
    else:
        for path in (store.folder / "objects").rglob("??/*"):
            path.unlink()
    (workspace / "src" / "b.py").write_text("b = 2\n")
    later = SnapshotStore(workspace, tmp_path / "home")
    await later.snapshot()
    (workspace / "src" / "b.py").write_text("b = 1\n")

    assert await later.snapshot() == first
    assert await later.read(first, "src/b.py") == b"b = 1\n"
    later.close()


async def test_a_second_run_in_the_same_workspace_is_refused(
    store: SnapshotStore, workspace: Path, tmp_path: Path
) -> None:
    first = await store.snapshot()
    second = SnapshotStore(workspace, tmp_path / "home")

    with pytest.raises(
        WorkspaceError,
        match=rf"another run is active in {workspace} \(process {os.getpid()}\)",
    ) as caught:
        await second.snapshot()
    assert caught.value.exit_code is ExitCode.FAILED
    assert await second.read(first, "a.py") == b"a = 1\n"  # reading needs no claim
    store.close()
    assert await second.snapshot() == first
    second.close()


async def test_the_refusal_names_the_run_that_works_there(
    workspace: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    running = SnapshotStore(workspace, home, start=home / "runs" / "k3f9-fix" / "start")
    await running.snapshot()
    with pytest.raises(WorkspaceError) as caught:
        await SnapshotStore(workspace, home).snapshot()
    assert str(caught.value).splitlines() == [
        f"another run is active in {workspace}: k3f9-fix (process {os.getpid()})",
        "wait for it to end (goal watch k3f9-fix), or name another workspace: --workspace DIR",
    ]
    running.close()


async def test_a_run_of_another_home_is_refused(
    workspace: Path, tmp_path: Path
) -> None:
    running = SnapshotStore(workspace, tmp_path / "other-home")
    await running.snapshot()
    earlier = SnapshotStore(workspace, tmp_path / "home")
    earlier.folder.mkdir(parents=True, exist_ok=True)
    (earlier.folder / "lock").write_text("1 a-run-that-is-over")
    with pytest.raises(
        WorkspaceError,
        match=rf"another run is active in {workspace} \(process unknown\)",
    ) as caught:
        await earlier.snapshot()
    assert "goal watch" not in str(caught.value)
    running.close()


async def test_a_workspace_that_is_gone(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "nowhere", tmp_path / "home")

    with pytest.raises(WorkspaceError, match="nowhere does not exist any more"):
        await store.snapshot()


async def test_a_home_inside_the_workspace_is_not_watched(workspace: Path) -> None:
    store = SnapshotStore(workspace, workspace / ".goal")
    first = await store.snapshot()

    assert await store.snapshot() == first
    assert list(await store.entries(first)) == ["a.py", "src/b.py"]
    store.close()


async def test_a_git_that_lies_in_the_workspace_is_never_run(
    workspace: Path, tmp_path: Path
) -> None:
    planted = workspace / ".venv" / "bin" / "git"
    write(
        workspace,
        {
            ".venv/bin/git": f"#!/bin/sh\ntouch {tmp_path}/ran\nexec /usr/bin/git $@\n",
            "git": "#!/bin/sh\n",
        },
    )
    planted.chmod(0o755)
    (workspace / "git").chmod(0o755)
    environ = {
        "PATH": f".:{planted.parent}:{os.environ['PATH']}",
        "GIT_DIR": "/nowhere",
        "GIT_INDEX_FILE": "/nowhere",
    }
    store = SnapshotStore(workspace, tmp_path / "home", environ=environ)

    assert "a.py" in await store.entries(await store.snapshot())
    assert not (tmp_path / "ran").exists()
    store.close()


def test_without_git_it_says_so(workspace: Path, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="git is not on PATH"):
        SnapshotStore(workspace, tmp_path / "home", environ={"PATH": "/nowhere"})


async def test_cancelling_ends_git_and_leaves_the_store_usable(
    workspace: Path, tmp_path: Path
) -> None:
    slow = tmp_path / "bin" / "git"
    hang = f'case "$*" in *ls-files*) echo $$ > {tmp_path}/pid; exec sleep 60;; esac'
    write(
        tmp_path,
        {
            "bin/git": f'#!/bin/sh\n{hang}\nPATH=/usr/local/bin:/usr/bin:/bin exec git "$@"\n'
        },
    )
    slow.chmod(0o755)
    store = SnapshotStore(
        workspace,
        tmp_path / "home",
        environ={"PATH": f"{slow.parent}:{os.environ['PATH']}"},
    )
    task = asyncio.create_task(store.snapshot())
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        await asyncio.sleep(0.02)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 1.5
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    store.close()
    later = SnapshotStore(workspace, tmp_path / "home")
    assert "a.py" in await later.entries(await later.snapshot())
    later.close()


async def test_the_diff_is_a_patch_for_people(
    store: SnapshotStore, workspace: Path
) -> None:
    first = await store.snapshot()
    write(workspace, {"a.py": "a = 2\n", "src/b.py": "b = 2\n"})
    second = await store.snapshot()

    assert await store.diff(first, second, ["a.py"]) == (
        "diff --git a/a.py b/a.py\nindex 1337a53..e7cabca 100644\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
    )
    assert (await store.diff(first, second)).count("diff --git") == 2
    assert (await store.diff(first, second, ["src"])).count("diff --git") == 1


async def test_a_patch_for_people_has_no_caches(
    workspace: Path, store: SnapshotStore
) -> None:
    first = await store.snapshot()
    (workspace / "__pycache__").mkdir()
    (workspace / "__pycache__" / "a.pyc").write_bytes(b"\0cached")
    second = await store.snapshot()
    (workspace / "new.py").write_text("1\n")
    third = await store.snapshot()
    caches_alone, both = await store.patches([(first, second), (first, third)])
    assert caches_alone == ""
    assert (both.count("diff --git"), "new.py" in both) == (1, True)


async def test_the_patches_of_many_rounds_are_made_by_one_git_and_equal_those_of_each(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SnapshotStore(workspace, tmp_path / "home", large=1000)
    heading = f"{'a' * 40} {'b' * 40}\n"  # as in git's output between two patches
    snapshots = [await store.snapshot()]
    for files in (
        {"a.py": heading},
        {"big": "x" * 2000},
        {"a.py": heading * 2, "big": "y" * 2000, "c": "\xff"},
    ):
        write(workspace, files)
        snapshots.append(await store.snapshot())
    pairs = [
        *pairwise(snapshots),
        (snapshots[0], snapshots[0]),
        (snapshots[0], snapshots[-1]),
    ]
    each = [await store.diff(*pair) for pair in pairs]
    asked: list[str | bytes] = []
    run = Git.run

    async def counted(self: Git, *arguments: str | bytes, **options: Any) -> Answer:
        asked.append(arguments[0])
        return await run(self, *arguments, **options)

    monkeypatch.setattr(Git, "run", counted)
    assert await store.patches(pairs) == each
    assert len(asked) == 3
    assert "big: not there -> not kept, sha256" in each[1]
    assert each[2].count(f"+{heading}") == 1
    assert each[3] == ""
    store.close()


async def test_comparing_many_snapshots_at_once_finds_what_comparing_two_does(
    workspace: Path, tmp_path: Path
) -> None:
    git(workspace, "init", "-q")
    store = SnapshotStore(
        workspace, tmp_path / "home", large=1000, outputs=["report.xml"]
    )
    write(
        workspace,
        {
            "large": "x" * 2000,
            "grows": "small",
            "mode": "x",
            "kind": "x",
            "unstored": "x",
            "content/x": "x",
        },
    )
    snapshots = [await store.snapshot()]
    write(
        workspace,
        {
            "large": "y" * 2000,
            "grows": "z" * 3000,
            "b\nc": "new",
            "d": "new",
            "report.xml": "1",
        },
    )
    snapshots.append(await store.snapshot())
    (workspace / "mode").chmod(0o755)
    write(workspace, {"unstored": "y", "content/x": "y"})
    (workspace / "kind").unlink()
    (workspace / "kind").symlink_to("a.py")
    (workspace / "large").unlink()
    snapshots.append(await store.snapshot())
    git(workspace, "add", "a.py")
    git(workspace, "commit", "-q", "-m", "one")
    snapshots.append(await store.snapshot())
    write(workspace, {"grows": "small", "report.xml": "2"})
    snapshots += [await store.snapshot(), snapshots[0], snapshots[0]]

    steps = await store.differences(snapshots)
    for old, new, step in zip(snapshots, snapshots[1:], steps, strict=False):
        assert sorted(step) == sorted(
            {change.path for change in await store.changes(old, new)}
        )
    assert set(steps[3]) == {"grows"}
    assert steps[3]["grows"][1] == steps[0]["grows"][0]
    assert steps[0]["d"][0] == ""
    assert steps[1]["large"][1] == ""
    assert {"unstored", "content/x"} <= steps[1].keys()
    assert await store.differences(snapshots[:1]) == []
    store.close()


async def test_comparing_a_snapshot_that_is_gone_fails(
    store: SnapshotStore, workspace: Path
) -> None:
    first = await store.snapshot()
    gone = Snapshot(id="1" * 64, tree="1" * 40)
    with pytest.raises(WorkspaceError, match="cannot be read"):
        await store.differences([first, gone])
    with pytest.raises(WorkspaceError, match="cannot be read"):
        await store.differences(
            [first, first.model_copy(update={"repository": "1" * 40})]
        )


async def test_files_and_lines_that_differ_are_counted_without_caches_and_outputs(
    workspace: Path, tmp_path: Path
) -> None:
    store = SnapshotStore(workspace, tmp_path / "home", outputs=("report.xml",))
    write(workspace, {"gone.py": "1\n2\n3\n"})
    before = await store.snapshot()
    (workspace / "gone.py").unlink()
    write(
        workspace,
        {
            "a.py": "a = 2\nb = 3\n",
            "new name.py": "c = 4\n",
            "__pycache__/a.pyc": "x\n",
            "report.xml": "\n",
        },
    )
    (workspace / "picture.png").write_bytes(b"\0\1\2")
    assert await store.diff_stat(before, await store.snapshot()) == DiffStat(
        files=4, added=3, removed=4
    )
    store.close()


async def test_a_call_that_is_cancelled_while_git_starts_leaves_no_open_file_and_no_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = Git(tmp_path, tmp_path, os.environ)
    for steps in range(30):
        call = asyncio.create_task(calls.run("version"))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
    gc.collect()  # an open file would be a warning, which is an error here
    assert caplog.messages == []
