"""The files of a recorded run, read from the snapshots of its workspace."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping
from pathlib import Path

from goalrunner.app.previous_run import LoadedRun
from goalrunner.app.run_snapshots import KeptStore
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.freshness import ChangeTimes
from goalrunner.core.observation import Snapshot
from goalrunner.snapshots.objects import Entry
from goalrunner.testing.recording import FileContent, FilesChanged


class RunFiles:
    """The files of a run, as its agent changed them.

    `current` is the snapshot up to which the changes were read.
    """

    def __init__(
        self, loaded: LoadedRun, home: Path, redact: Callable[[str], str]
    ) -> None:
        self.history = loaded.evidence.history
        self.left_out: set[str] = set()
        """Paths whose content is not in the snapshots."""
        self._loaded = loaded
        self._home = home
        self._redact = redact
        self._store: KeptStore | None = None
        self._current: Snapshot | None = None

    async def start(self) -> dict[str, FileContent]:
        """Return the files at the start. Raise WorkspaceError if they are gone."""
        if not self.history.snapshots:
            # The response is the deliverable, so no workspace was watched.
            return {}
        run_id = self._loaded.state.goal.run_id
        try:
            self._store = KeptStore(
                Path(self._loaded.started.workspace), self._home, os.environ
            )
            await self._store.require(*self.history.snapshots)
        except WorkspaceError as error:
            raise WorkspaceError(
                f"the files of run {run_id} cannot be replayed: {error.message}",
                "where the run was made, write a file with all that a replay needs: "
                f"goal export {run_id} --recording -o FILE",
            ) from error
        self._current = self.history.snapshots[0]
        entries = await self._store.store.entries(self._current)
        return await self._contents(entries)

    async def change_to(self, snapshot_id: str | None) -> FilesChanged | None:
        """Return what differs between the current snapshot and a later one, if any.

        The later one is the current one from then on.
        """
        target = self.history.find(snapshot_id)
        if target is None or self._current is None or target.id == self._current.id:
            return None
        assert self._store is not None, "there is a current snapshot"
        changes = await self._store.store.changes(self._current, target)
        entries = await self._store.store.entries(target)
        self._current = target
        changed: dict[str, Entry] = {}
        deleted: list[str] = []
        for change in changes:
            if change.path in entries:
                changed[change.path] = entries[change.path]
            elif change.kind == "deleted":
                deleted.append(change.path)
        return FilesChanged(
            type="files", files=await self._contents(changed), deleted=tuple(deleted)
        )

    async def _contents(self, entries: Mapping[str, Entry]) -> dict[str, FileContent]:
        assert self._store is not None, "it was opened"
        stored = {path: entry for path, entry in entries.items() if entry.stored}
        self.left_out |= entries.keys() - stored.keys()
        # Equal files have one content.
        blobs = {entry.blob: path for path, entry in stored.items()}
        contents = await self._store.store.contents(blobs)
        return {
            path: FileContent.of(contents[entry.blob], entry.mode, self._redact)
            for path, entry in stored.items()
        }


def time_of(path: str, touched: ChangeTimes | None) -> int | None:
    """Return when a path last changed; None if it is not known.

    Of a deleted file, that is the time of its folder.
    """
    times = touched or {}
    return times.get(path, times.get(f"{posixpath.dirname(path)}/"))
