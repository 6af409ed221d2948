"""The merge of a run's change into what a workspace holds now."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from goalrunner.copies.merging import (
    Merge,
    MergeConflict,
    merge_tree,
    merged,
    refuse_unseen,
    snapshot_with,
)
from goalrunner.core.observation import Snapshot
from goalrunner.snapshots.store import SnapshotStore
from tests.support.workspaces import listing, write

Files = Mapping[str, str | None]

_LINES = "".join(f"{number}\n" for number in range(30))
_FIRST = _LINES.replace("0\n", "zero\n", 1)
_LAST = _LINES.replace("29\n", "twenty-nine\n")
_BOTH = _FIRST.replace("29\n", "twenty-nine\n")


def _put(workspace: Path, files: Files) -> None:
    for name, text in files.items():
        if text is None:
            (workspace / name).unlink()
        else:
            write(workspace, {name: text})


async def _merge(
    tmp_path: Path, start: Files, run: Files, person: Files
) -> tuple[Merge, SnapshotStore, Snapshot]:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    store = SnapshotStore(workspace, tmp_path / "home", environ=os.environ)
    _put(workspace, start)
    before = await store.snapshot()
    _put(workspace, run)
    after = await store.snapshot()
    await store.restore(before)
    _put(workspace, person)
    now = await store.snapshot()
    return await merged(store, before, after, now), store, now


@pytest.mark.parametrize(
    ("start", "run", "person", "result"),
    [
        ({"a": "1\n"}, {"a": "2\n"}, {}, {"a": "2\n"}),
        ({"a": "1\n"}, {"a": "2\n"}, {"a": "2\n"}, {"a": "2\n"}),
        (
            {"a": "1\n"},
            {"b": "2\n"},
            {"c": "3\n"},
            {"a": "1\n", "b": "2\n", "c": "3\n"},
        ),
        ({"a": "1\n", "b": "1\n"}, {"b": None}, {"a": "2\n"}, {"a": "2\n"}),
        ({"a": _LINES}, {"a": _FIRST}, {"a": _LAST}, {"a": _BOTH}),
        ({"a": "1\n", "b": "1\n"}, {"b": None}, {"b": None}, {"a": "1\n"}),
        (
            {"d/a": "1\n", "x": "1\n"},
            {"d/a": None, "d/b": "2\n"},
            {},
            {"d/b": "2\n", "x": "1\n"},
        ),
    ],
)
async def test_changes_that_do_not_touch_each_other_are_combined(
    tmp_path: Path, start: Files, run: Files, person: Files, result: Mapping[str, str]
) -> None:
    merge, store, now = await _merge(tmp_path, start, run, person)
    assert not merge.conflicts
    target = await snapshot_with(store, now, merge.entries)
    await store.restore(target, tuple(merge.entries))
    wanted = {name: f"- {text}".encode() for name, text in result.items()}
    assert listing(tmp_path / "ws") == wanted
    store.close()


@pytest.mark.parametrize(
    ("start", "run", "person", "why"),
    [
        ({"a": "1\n"}, {"a": "2\n"}, {"a": "3\n"}, "the same lines"),
        ({"x": "1\n"}, {"a": "2\n"}, {"a": "3\n"}, "both the run and you added it"),
        ({"a": "1\n"}, {"a": "2\n"}, {"a": None}, "you removed it"),
        ({"a": "1\n"}, {"a": None}, {"a": "2\n"}, "the run removed it"),
        ({"x": "1\n"}, {"a/b": "2\n"}, {"a": "3\n"}, "a is a file in the workspace"),
        ({"x": "1\n"}, {"a": "2\n"}, {"a/b": "3\n"}, "a folder has this name"),
        ({"a": "\0one"}, {"a": "\0two"}, {"a": "\0three"}, "the same lines"),
    ],
)
async def test_changes_of_the_same_lines_or_names_conflict(
    tmp_path: Path, start: Files, run: Files, person: Files, why: str
) -> None:
    merge, store, _ = await _merge(tmp_path, start, run, person)
    (conflict,) = merge.conflicts
    assert why in conflict.why
    store.close()


async def test_an_executable_bit_and_a_change_of_lines_are_combined(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "ws"
    write(workspace, {"a.sh": "1\n"})
    store = SnapshotStore(workspace, tmp_path / "home", environ=os.environ)
    before = await store.snapshot()
    (workspace / "a.sh").chmod(0o755)
    after = await store.snapshot()
    (workspace / "a.sh").chmod(0o644)
    write(workspace, {"a.sh": "2\n"})
    now = await store.snapshot()
    merge = await merged(store, before, after, now)
    entry = merge.entries["a.sh"]
    assert entry is not None
    assert entry.mode == "100755"
    store.close()


@pytest.mark.parametrize(
    ("made", "ignored", "why"),
    [
        ("data", "data/db", "files that no snapshot has"),
        ("data/new", "data", "data is no folder"),
    ],
)
async def test_what_no_snapshot_has_is_not_replaced(
    tmp_path: Path, made: str, ignored: str, why: str
) -> None:
    workspace = tmp_path / "ws"
    write(workspace, {"a": "1\n"})
    store = SnapshotStore(workspace, tmp_path / "home", environ=os.environ)
    before = await store.snapshot()
    write(workspace, {made: "of the run\n"})
    after = await store.snapshot()
    await store.restore(before)
    if ignored != "data":
        write(workspace, {ignored: "precious\n"})
    else:
        os.mkfifo(workspace / ignored)
    tree = await merge_tree(store, before, after, before)
    with pytest.raises(MergeConflict) as refused:
        await refuse_unseen(store, tree)
    (conflict,) = refused.value.conflicts
    assert conflict.path == made
    assert why in conflict.why
    store.close()


async def test_a_folder_whose_files_the_run_removed_is_replaced(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    write(workspace, {"d/a": "1\n", "d/e/b": "1\n"})
    store = SnapshotStore(workspace, tmp_path / "home", environ=os.environ)
    start = await store.snapshot()
    shutil.rmtree(workspace / "d")
    write(workspace, {"d": "a file\n"})
    end = await store.snapshot()
    await store.restore(start)
    tree = await merge_tree(store, start, end, start)
    await refuse_unseen(store, tree)
    await store.restore(tree.target)
    assert listing(workspace) == {"d": b"- a file\n"}
    store.close()
