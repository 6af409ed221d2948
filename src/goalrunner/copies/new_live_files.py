"""Hiding the files that a person makes in the live tree while a run works in a copy of
it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from goalrunner.checking.namespace import mount_points
from goalrunner.copies.frozen_base import OPAQUE
from goalrunner.copies.run_copy import CopyRecord
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.snapshots.patterns import CACHES, Patterns

_TRIES = 5


class NewLiveFiles:
    """The files that show through in folders whose ignored content is shared with the
    live tree.

    A folder that holds something ignored cannot be frozen as a whole, so a new file of
    the live tree appears in it. It is removed from the copy: the overlay notes that in
    its upper layer, and the live file stays.
    """

    def __init__(self, record: CopyRecord) -> None:
        self._root = Path(record.root)
        self._upper = record.layer(0) / "u"
        self._base = Path(record.bases[0]) / "tree"
        self._shared = {path.rstrip("/") for path in record.shared}
        self._folders = _folders_of(record.shared)
        self._caches = Patterns(CACHES)

    def hide(self) -> None:
        """Remove them from the copy.

        Raise EnvironmentFailed if this process is not in the copy, and OSError.
        """
        for path in self.find():
            self._require_overlay()
            _remove(self._root / path)

    def find(self) -> Iterator[str]:
        """Yield their paths, relative to the root of the copy; for a new folder only
        its own.
        """
        folders = list(self._folders)
        for folder in folders:
            try:
                names = os.listdir(self._root / folder)
            except FileNotFoundError:
                continue
            for name in sorted(names):
                path = f"{folder}/{name}" if folder else name
                if path in self._shared or self._caches.match(f"{path}/"):
                    continue
                if os.path.lexists(self._base / path):
                    continue
                if not os.path.lexists(self._upper / path):
                    yield path
                elif self._is_merged(path):
                    # The loop goes on with it: such folders lie in each other.
                    folders.append(path)

    def _is_merged(self, path: str) -> bool:
        """Return whether a path is a new live folder in which the run has written.

        A folder that the run itself has made hides everything below it.
        """
        place = self._upper / path
        is_folder = stat.S_ISDIR(place.lstat().st_mode)
        return is_folder and not any(name in os.listxattr(place) for name in OPAQUE)

    def _require_overlay(self) -> None:
        """Raise EnvironmentFailed unless the root is the overlay: elsewhere, the
        person's own files would be removed.
        """
        info = self._root.stat()
        device = f"{os.major(info.st_dev)}:{os.minor(info.st_dev)}"
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            fields, _, source = line.partition(" - ")
            # On the overlay of a container, the live tree is no mount point.
            if (
                fields.split()[2] == device
                and source.startswith("overlay ")
                and self._root in mount_points()
            ):
                return
        raise EnvironmentFailed(
            f"this process is not in the copy of {self._root}", "start the run again"
        )


def _remove(place: Path) -> None:
    """Remove a file or a folder that the person may remove at the same time."""
    for _ in range(_TRIES):
        # If a file in a folder is gone, the others are removed at the next try. What is
        # never found is only in the listing of its folder: the overlay still has the
        # state of before, and what the person has made since cannot be read.
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(place.lstat().st_mode):
                shutil.rmtree(place)
            else:
                place.unlink()
            return


def _folders_of(shared: Sequence[str]) -> list[str]:
    """Return every folder above the shared paths, the root as an empty string first."""
    folders = set()
    for path in shared:
        folder = path.rstrip("/")
        while folder:
            folder = os.path.dirname(folder)
            folders.add(folder)
    return sorted(folders)
