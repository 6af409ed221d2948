"""The three-way merge of a run's change into another tree: what the workspace holds
now, a commit, or an earlier merged tree.

Nothing outside of the snapshot store is read or written, but for `refuse_unseen`, which
looks at the workspace before a merged tree is written there.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Snapshot
from goalrunner.reports.figures import count
from goalrunner.snapshots import objects
from goalrunner.snapshots.git import git_environment, git_program
from goalrunner.snapshots.objects import Entry
from goalrunner.snapshots.paths import printable_path, raw
from goalrunner.snapshots.store import SnapshotStore

_FILE = "100"
"""The beginning of the modes of regular files in git's form."""
_NO_FILE = "0"
_MOST = 10
"""Conflicts that a message lists."""


@dataclass(frozen=True)
class Conflict:
    """A path that was changed on both sides, and why this cannot be combined."""

    path: str
    why: str


@dataclass(frozen=True)
class OtherSide:
    """What the change of a run is merged into, in the words of conflicts."""

    author: str = "you"
    place: str = "in the workspace now"


BRANCH = OtherSide("the branch", "on the branch")


class MergeConflict(UsageError):
    """The change of a run and another tree cannot be combined."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        lines = [f"  {item.path}: {item.why}" for item in conflicts[:_MOST]]
        if len(conflicts) > _MOST:
            lines.append(f"  and {len(conflicts) - _MOST} more")
        paths = count(len(conflicts), "path")
        listed = "\n".join(lines)
        super().__init__(f"the change conflicts in {paths}\n{listed}")


@dataclass(frozen=True)
class Merge:
    """The entries that the other tree gets, by path; None removes the path."""

    entries: Mapping[str, Entry | None]
    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True)
class MergedTree:
    """A tree that has the change of a run, kept as a snapshot."""

    onto: Snapshot
    """What the change was merged into."""
    target: Snapshot
    """The result; equal to `onto` if that had the change already."""
    entries: Mapping[str, Entry | None]
    """What differs between both, by path; None for a removed one."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that differ."""
        return tuple(self.entries)


async def merge_tree(
    store: SnapshotStore,
    start: Snapshot,
    end: Snapshot,
    onto: Snapshot,
    other: OtherSide = OtherSide(),
) -> MergedTree:
    """Return the tree of `onto` with the change from `start` to `end`.

    `onto` is any snapshot in the store: of the workspace, of a commit (see
    `revision_snapshot`), or the `target` of an earlier merge, so that the changes of
    several runs can be combined. Raise MergeConflict, and WorkspaceError.
    """
    merge = await merged(store, start, end, onto, other)
    if merge.conflicts:
        raise MergeConflict(merge.conflicts)
    if not merge.entries:
        return MergedTree(onto, onto, {})
    target = await snapshot_with(store, onto, merge.entries)
    return MergedTree(onto, target, merge.entries)


async def merged(
    store: SnapshotStore,
    start: Snapshot,
    end: Snapshot,
    now: Snapshot,
    other: OtherSide = OtherSide(),
) -> Merge:
    """Merge the change from `start` to `end` into `now`. Raise WorkspaceError.

    What `now` has already is left out.
    """
    changes = await store.changes(start, end)
    before, after, live = [
        await store.entries(snapshot) for snapshot in (start, end, now)
    ]
    removed = before.keys() - after.keys()
    # What the run removes makes room for what it adds.
    stays = live.keys() - removed
    entries: dict[str, Entry | None] = {}
    conflicts: list[Conflict] = []
    for path in sorted(
        change.path for change in changes if change.kind != "repository"
    ):
        original, by_run, by_person = before.get(path), after.get(path), live.get(path)
        # The other tree has this change already.
        if by_person == by_run:
            continue
        # Only the run has changed it.
        if by_person == original:
            combined = by_run
            why = _not_kept(by_run)
            if by_run is not None and not why:
                why = _in_the_way(path, stays, other.place)
        else:
            combined, why = await _combined(
                store, original, by_run, by_person, other.author
            )
        if why:
            conflicts.append(Conflict(path, why))
        else:
            entries[path] = combined
    return Merge(entries, tuple(conflicts))


def _not_kept(by_run: Entry | None) -> str:
    if by_run is None or by_run.stored:
        return ""
    return "its content is not kept in the snapshots"


def _in_the_way(path: str, stays: Collection[str], place: str) -> str:
    """Return why a file cannot be made; empty if it can.

    A file may have the name of one of its folders, or a folder may have its name.
    `stays` are the paths of the other tree that the run did not remove; `place` names
    that tree.
    """
    for parent in map(str, PurePosixPath(path).parents):
        if parent in stays:
            return f"{parent} is a file {place}"
    if any(other.startswith(f"{path}/") for other in stays):
        return f"a folder has this name {place}"
    return ""


async def refuse_unseen(store: SnapshotStore, tree: MergedTree) -> None:
    """Raise MergeConflict if a new file would replace something in the workspace that
    no snapshot has.

    That is ignored, special, or in a repository, and could not be restored.
    """
    before = await store.entries(tree.onto)
    removed = {path for path, entry in tree.entries.items() if entry is None}
    conflicts: list[Conflict] = []
    for path in sorted(tree.entries.keys() - before.keys()):
        why = _unseen_in_the_way(store.workspace, path, removed)
        if why:
            conflicts.append(Conflict(path, why))
    if conflicts:
        raise MergeConflict(conflicts)


def _unseen_in_the_way(workspace: Path, path: str, removed: Collection[str]) -> str:
    """Return why a new file would replace something that no snapshot has; empty if not.

    `removed` are the paths that are removed first.
    """
    root = os.fsencode(workspace)
    for parent in map(str, PurePosixPath(path).parents):
        # A file or a link makes way for a folder: behind it lies another place, which
        # the apply does not touch.
        if parent in removed:
            return ""
        place = os.path.join(root, raw(parent))
        if os.path.lexists(place) and not _is_folder(place):
            return f"{parent} is no folder in the workspace now"
    place = os.path.join(root, raw(path))
    if os.path.lexists(place) and not _is_folder(place):
        return "something that no snapshot has is in its place"
    for folder, folders, files in os.walk(place):
        links = [name for name in folders if not _is_folder(os.path.join(folder, name))]
        for name in (*files, *links):
            inner = os.path.relpath(os.path.join(folder, name), root)
            if printable_path(inner) not in removed:
                return "a folder of this name has files that no snapshot has"
    return ""


def _is_folder(place: bytes) -> bool:
    return os.path.isdir(place) and not os.path.islink(place)


async def _combined(
    store: SnapshotStore,
    original: Entry | None,
    by_run: Entry | None,
    by_person: Entry | None,
    person: str,
) -> tuple[Entry | None, str]:
    """Return the combination of two changes of a path, or why there is none.

    `person` names who made the change that is not of the run.
    """
    if original is None:
        return None, f"both the run and {person} added it, with different content"
    if by_person is None:
        return None, f"{person} removed it, and the run changed it"
    if by_run is None:
        return None, f"{person} changed it, and the run removed it"
    sides = (original, by_run, by_person)
    if not all(side.mode.startswith(_FILE) for side in sides):
        return None, "it is no regular file on one side"
    if not all(side.stored for side in sides):
        return None, "its content is not kept in the snapshots"
    # Both may have changed the content, and one of them only the executable bit.
    mode = by_person.mode if original.mode == by_run.mode else by_run.mode
    if original.blob == by_run.blob:
        return Entry(mode, by_person.blob), ""
    if original.blob == by_person.blob:
        return Entry(mode, by_run.blob), ""
    content = await _merged_text(store, original.blob, by_run.blob, by_person.blob)
    if content is None:
        return None, f"the run and {person} changed the same lines"
    blob = await asyncio.to_thread(objects.write_blob, store.folder, content)
    return Entry(mode, blob), ""


async def _merged_text(
    store: SnapshotStore, original: str, by_run: str, by_person: str
) -> bytes | None:
    """Return the merged content of three blobs; None if changes overlap, or one of them
    is not text.
    """
    contents = [
        await store.git.ask("cat-file", "blob", blob)
        for blob in (original, by_run, by_person)
    ]
    with tempfile.TemporaryDirectory(prefix="tmp_", dir=store.folder) as scratch:
        names = ("base", "run", "live")
        for name, content in zip(names, contents, strict=True):
            Path(scratch, name).write_bytes(content)
        git = git_program(store.workspace, os.environ)
        process = await asyncio.create_subprocess_exec(
            git,
            *("merge-file", "--stdout", "--quiet", "live", "base", "run"),
            cwd=scratch,
            env=git_environment(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        combined, _ = await process.communicate()
    # The exit code is the number of conflicts, and 255 for a binary file.
    return combined if process.returncode == 0 else None


async def snapshot_with(
    store: SnapshotStore, now: Snapshot, entries: Mapping[str, Entry | None]
) -> Snapshot:
    """Keep a snapshot that equals `now` with other entries, all of them stored.

    Raise WorkspaceError.
    """
    rows = index_rows(entries)
    with tempfile.TemporaryDirectory(prefix="tmp_", dir=store.folder) as scratch:
        ask = partial(store.git.ask, index=Path(scratch) / "index")
        await ask("read-tree", f"{now.tree}:content")
        await ask("update-index", "-z", "--index-info", stdin=rows)
        content = (await ask("write-tree")).decode().strip()
    tree = objects.write_tree(store.folder, trees={"content": content}, blobs={})
    return objects.keep_snapshot(store.folder, tree, now.repository)


def index_rows(entries: Mapping[str, Entry | None], folder: str = "") -> bytes:
    """Return entries below a folder in the form that `git update-index --index-info`
    reads; `folder` is empty, or ends with a slash.
    """
    rows = []
    # Removed paths come first: a folder may replace a file.
    for path in sorted(entries, key=lambda name: (entries[name] is not None, name)):
        entry = entries[path]
        mode, blob = (_NO_FILE, "0" * 40) if entry is None else (entry.mode, entry.blob)
        rows.append(f"{mode} {blob}\t".encode() + raw(folder + path) + b"\0")
    return b"".join(rows)
