"""The files that in-place checks make in the workspace, and that stay there.

They are no change of the agent until it changes them. They do not exist in the next
check, so code of the agent that runs in one check prepares nothing for another one.
"""

# Paths are strings here, in the form of `os.fsdecode`.

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from goalrunner.checking.dependencies import state_of
from goalrunner.core.observation import Snapshot
from goalrunner.records.files import write_whole
from goalrunner.snapshots.paths import raw
from goalrunner.snapshots.patterns import CACHES, Patterns
from goalrunner.snapshots.store import SnapshotStore

_CACHES = Patterns(CACHES, builtin=True)


class MadeFiles:
    """The files that checks made in the workspace of a snapshot store.

    They are recorded in the file `record` for a resumed run.
    """

    def __init__(self, store: SnapshotStore, record: Path) -> None:
        self._store = store
        self._record = record
        self._files: set[str] = set()
        """Files that git does not ignore."""
        self._folders: set[str] = set()
        """Folders that checks made."""
        self._ignored: dict[str, str] = {}
        """Paths that git ignores, each with its state."""
        if record.exists():
            values = json.loads(record.read_bytes())
            store.left_by_checks = values["left"]
            self._files = set(values["files"])
            self._folders = set(values["folders"])
            self._ignored = values["ignored"]

    @property
    def names(self) -> tuple[str, ...]:
        """The files, for people."""
        return tuple(sorted({*self._store.left_by_checks, *self._ignored}))

    async def unchanged(self, snapshot: Snapshot, ignored: Collection[str]) -> set[str]:
        """Return what is as the last check left it.

        These are files, and folders that contain no others. `ignored` are the paths
        that git ignores now.
        """
        unchanged: set[str] = set()
        for path in self._ignored.keys() & _without_slash(ignored):
            # What changed since the last check is the work of the agent.
            if self._state(path) == self._ignored[path]:
                unchanged.add(path)
        if not self._files:
            return unchanged
        paths = _on_disk(await self._store.entries(snapshot))
        made = _on_disk(await self._store.left_in(snapshot)) & self._files
        # A folder with other files in it exists in the next check.
        shared_folders = _folders_above(paths - made)
        unchanged.update(self._topmost(path, shared_folders) for path in made)
        return unchanged

    def _topmost(self, path: str, shared_folders: Collection[str]) -> str:
        """Return the topmost folder around a path that checks made for it alone."""
        topmost = path
        for folder in map(str, Path(path).parents):
            if folder not in self._folders or folder in shared_folders:
                break
            topmost = folder
        return topmost

    async def note(
        self,
        before: Snapshot,
        ignored: Collection[str],
        folders: Collection[str],
        *,
        reused: bool = False,
    ) -> None:
        """Note what a check made since `before`.

        `ignored` and `folders` are the ignored paths and the folders at that moment.
        What is `reused` exists in the next check: it is installed.
        """
        after = await self._store.snapshot()
        count = len(self._store.left_by_checks)
        new = _on_disk(await self._store.note_left(before, after))
        names = _without_slash(await self._store.ignored_names())
        states = self._ignored
        if not reused:
            # A nested repository is no file of a snapshot.
            self._files |= {path for path in new if os.path.basename(path) != ".git"}
            self._folders |= _folders_above(new) - {".", *folders}
            ignored_before = _without_slash(ignored)
            # Those that are new, and those that an earlier check made.
            made = names & (self._ignored.keys() | names - ignored_before)
            states = {path: self._state(path) for path in made if not _is_cache(path)}
        if new or states != self._ignored or len(self._store.left_by_checks) != count:
            self._ignored = states
            self._write()

    def _state(self, path: str) -> str:
        return state_of(os.path.join(self._store.workspace, path))

    def _write(self) -> None:
        values = {
            "left": self._store.left_by_checks,
            "files": sorted(self._files),
            "folders": sorted(self._folders),
            "ignored": self._ignored,
        }
        self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._record, json.dumps(values).encode())


def _without_slash(names: Iterable[str]) -> set[str]:
    """Return the ignored paths that git named; a folder ends with a slash there."""
    return {name.rstrip("/") for name in names}


def _on_disk(paths: Iterable[str]) -> set[str]:
    """Return paths of a snapshot as `os.fsdecode` gives them."""
    return {os.fsdecode(raw(path)) for path in paths}


def _folders_above(paths: Iterable[str]) -> set[str]:
    """Return every folder that one of the paths lies in."""
    folders: set[str] = set()
    for path in paths:
        folders.update(map(str, Path(path).parents))
    return folders


def _is_cache(path: str) -> bool:
    """Return whether a path is a cache: as a file, or as a folder."""
    return _CACHES.match(path) or _CACHES.match(f"{path}/x")
