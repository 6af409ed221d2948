"""Opening the store of a run's snapshots when the run is over. Owns what is said where it, or a snapshot, is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.errors import WorkspaceError
from goalrunner.model.snapshot import Snapshot
from goalrunner.workspace.command import Git
from goalrunner.workspace.finding import find_snapshot, keeps
from goalrunner.workspace.start import Start
from goalrunner.workspace.store import SnapshotStore


class KeptStore:
    """The snapshots of one workspace, to be read; nothing is claimed before something is taken or restored."""

    def __init__(
        self,
        workspace: Path,
        home: Path,
        environ: Mapping[str, str],
        outputs: Sequence[str] = (),
        start: Path | None = None,
    ) -> None:
        """`start` is the folder in which the run kept its ignore rules; where it did not, those of now are read.

        Raises WorkspaceError where there are no snapshots, or git is missing.
        """
        kept = start if start is not None and Start(start).frozen else None
        self.store = SnapshotStore(workspace, home, outputs=outputs, start=kept, environ=environ)
        if not self.store.folder.is_dir():
            raise WorkspaceError(
                f"the snapshots of {workspace} are gone: there is no {self.store.folder}",
                "they are kept for the home of the run (GOAL_HOME) and the path that the workspace had",
            )
        self._git = Git(self.store.folder, self.store.workspace, environ)

    async def require(self, *snapshots: Snapshot) -> None:
        """Raises WorkspaceError naming the first that is no longer kept."""
        for snapshot in snapshots:
            if not await keeps(self._git, snapshot):
                raise WorkspaceError(f"snapshot {snapshot.id[:12]} is no longer kept in {self.store.folder}")

    async def find(self, beginning: str) -> Snapshot:
        """The snapshot whose id begins so. Raises UsageError for none or several."""
        return await find_snapshot(self._git, beginning)
