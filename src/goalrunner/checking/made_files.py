"""The files that in-place checks make in the workspace, and that stay there.

They are no change of the agent until it changes them, and they do not exist in the next check: code of the agent that runs
in one check prepares nothing for another one.
"""

# Paths are strings here, in the form of `os.fsdecode`.

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

from goalrunner.checking.dependencies import state_of
from goalrunner.core.observation import Snapshot
from goalrunner.records.files import write_whole
from goalrunner.snapshots.diff import CACHES, Patterns
from goalrunner.snapshots.objects import raw
from goalrunner.snapshots.store import SnapshotStore

_CACHES = Patterns(CACHES, builtin=True)


class MadeFiles:
    """The files that checks made in the workspace of a snapshot store. They are kept in the file `record` for a resumed run."""

    def __init__(self, store: SnapshotStore, record: Path) -> None:
        self._store = store
        self._record = record
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._ignored: dict[str, str] = {}
        """Paths that git ignores, each with its state."""
        if record.exists():
            found = json.loads(record.read_bytes())
            store.left = found["left"]
            self._files, self._folders, self._ignored = (
                set(found["files"]),
                set(found["folders"]),
                found["ignored"],
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The files, for people."""
        return tuple(sorted({*self._store.left, *self._ignored}))

    async def unchanged(self, snapshot: Snapshot, ignored: Collection[str]) -> set[str]:
        """Return the files, or the topmost folders with no others, that are as the last check left them."""
        there = {name.rstrip("/") for name in ignored}
        found = {
            path
            for path in self._ignored.keys() & there
            if self._state(path) == self._ignored[path]
        }
        if not self._files:
            return found
        paths = {os.fsdecode(raw(path)) for path in await self._store.entries(snapshot)}
        own = {
            os.fsdecode(raw(path)) for path in await self._store.left_in(snapshot)
        } & self._files
        shared = {str(folder) for path in paths - own for folder in Path(path).parents}
        for path in own:
            top = path
            for folder in map(str, Path(path).parents):
                if folder not in self._folders or folder in shared:
                    break
                top = folder
            found.add(top)
        return found

    async def note(
        self,
        before: Snapshot,
        ignored: Collection[str],
        folders: Collection[str],
        *,
        reused: bool = False,
    ) -> None:
        """Note what a check made since `before`, when these paths were ignored and these folders existed.

        What is `reused` exists in the next check: it is installed.
        """
        after, known = await self._store.snapshot(), len(self._store.left)
        new = {
            os.fsdecode(raw(path))
            for path in await self._store.note_left(before, after)
        }
        names = {name.rstrip("/") for name in await self._store.ignored_names()}
        if not reused:
            self._files |= {path for path in new if os.path.basename(path) != ".git"}
            self._folders |= {
                str(folder) for path in new for folder in Path(path).parents
            } - {".", *folders}
            made = names & (
                self._ignored.keys() | names - {name.rstrip("/") for name in ignored}
            )
            made = {
                path
                for path in made
                if not (_CACHES.match(path) or _CACHES.match(f"{path}/x"))
            }
            states = {path: self._state(path) for path in made}
        else:
            states = self._ignored
        if new or states != self._ignored or len(self._store.left) != known:
            self._ignored = states
            self._keep()

    def _state(self, path: str) -> str:
        return state_of(os.path.join(self._store.workspace, path))

    def _keep(self) -> None:
        values = {
            "left": self._store.left,
            "files": sorted(self._files),
            "folders": sorted(self._folders),
            "ignored": self._ignored,
        }
        self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._record, json.dumps(values).encode())
