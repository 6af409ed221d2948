"""The files and folders that have changed since a time, by their ctime."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import (
    Callable,
    Collection,
    Iterator,
)
from pathlib import Path

from goalrunner.core.freshness import MAKING, UNCERTAIN

_SKEW = 1_000_000_000


def is_overlay(place: Path) -> bool:
    """Return whether a folder is on an overlay.

    Opening a file for writing changes its ctime there.
    """
    file_system, longest = "", -1
    mounts = Path("/proc/self/mountinfo")
    try:
        lines = mounts.read_text(
            encoding="utf-8",
            errors="replace",
        ).splitlines()
    except OSError:
        return False
    for line in lines:
        mount_fields, _, system_fields = line.partition(" - ")
        root = mount_fields.split()[4]
        contains_place = place == Path(root) or Path(root) in place.parents
        # The innermost mount counts; of several at one place, the last one.
        if contains_place and len(root) >= longest:
            file_system, longest = system_fields.split()[0], len(root)
    return file_system == "overlay"


class ChangedSince:
    """The files and folders below `root` that have changed since a time.

    `is_file` tells which names are files to look at. Other entries of a folder, such as
    caches, explain why it changed.
    """

    def __init__(
        self,
        root: bytes,
        since: int,
        is_file: Callable[[bytes], bool],
    ) -> None:
        self._root = root
        self._since = since
        self._is_file = is_file
        # Concatenated later, because `os.path.join` is slow for 100,000 paths.
        self._prefix = os.path.join(root, b"")
        self.times: dict[bytes, int] = {}
        """By path, the ctime in ns. A folder ends with a slash; the root is "/"."""
        self.older_content: set[bytes] = set()
        """Changed files whose content has an older time.

        Their mode or name changed, or a copy has the time of its original.
        """
        self.in_future = False
        """Whether a time lies in the future: the file system has another clock."""

    def look(self, files: Collection[bytes], folders: Collection[bytes]) -> None:
        """Look at files and folders; those that do not exist are left out."""
        latest = time.time_ns() + _SKEW
        for path in files:
            info = self._changed(path)
            if info is None:
                continue
            self.times[path] = info.st_ctime_ns
            self.in_future |= info.st_ctime_ns > latest
            if info.st_mtime_ns < self._since:
                self.older_content.add(path)
        for folder in folders:
            info = self._changed(folder)
            # A file may be in the place of a folder now.
            if info is None or not stat.S_ISDIR(info.st_mode):
                continue
            self.in_future |= info.st_ctime_ns > latest
            if not self._is_explained(folder, info.st_ctime_ns):
                self.times[folder + b"/"] = info.st_ctime_ns

    def _changed(self, path: bytes) -> os.stat_result | None:
        """Return the stat of a path if it has changed since; None otherwise."""
        try:
            info = os.lstat(self._prefix + path)
        except OSError:
            return None
        return info if info.st_ctime_ns >= self._since else None

    def _is_explained(self, folder: bytes, changed: int) -> bool:
        """Return whether a folder changed only by a cache or an ignored entry.

        Such an entry was made at the time at which the folder changed (ns).
        """
        try:
            with os.scandir(os.path.join(self._root, folder)) as entries:
                others = [
                    entry for entry in entries if not self._is_watched(folder, entry)
                ]
            for entry in others:
                for made in _times(entry):
                    if changed - UNCERTAIN <= made <= changed + MAKING:
                        return True
            return False
        except OSError:
            # It vanished or is closed, so nothing explains its change.
            return False

    def _is_watched(self, folder: bytes, entry: os.DirEntry[bytes]) -> bool:
        path = os.path.join(folder, entry.name)
        return entry.name == b".git" or self._is_file(path)


def _times(entry: os.DirEntry[bytes]) -> Iterator[int]:
    """Yield the ctime of an entry, and of the entries in a folder.

    The ctime of a folder itself changes as long as it is filled.
    """
    yield entry.stat(follow_symlinks=False).st_ctime_ns
    if entry.is_dir(follow_symlinks=False):
        with os.scandir(entry.path) as inner_entries:
            for inner in inner_entries:
                yield inner.stat(follow_symlinks=False).st_ctime_ns
