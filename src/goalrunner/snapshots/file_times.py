"""The files and folders that have changed since a time, by their ctime."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from goalrunner.core.freshness import MAKING, UNCERTAIN

_SKEW = 1_000_000_000


def is_overlay(place: Path) -> bool:
    """Return whether a folder is on an overlay, where opening a file for writing changes its ctime."""
    found, longest = "", -1
    try:
        lines = (
            Path("/proc/self/mountinfo")
            .read_text(encoding="utf-8", errors="replace")
            .splitlines()
        )
    except OSError:
        return False
    for line in lines:
        fields, _, rest = line.partition(" - ")
        root = fields.split()[4]
        if len(root) >= longest and (
            place == Path(root) or Path(root) in place.parents
        ):
            found, longest = rest.split()[0], len(root)
    return found == "overlay"


class ChangedSince:
    """The files and folders below `root` that have changed since a time, by their ctime.

    `is_file` says which names are files to look at; other entries of a folder, such as caches, explain why it changed.
    """

    def __init__(
        self, root: bytes, since: int, is_file: Callable[[bytes], bool]
    ) -> None:
        self._root, self._since, self._is_file = root, since, is_file
        self._prefix = os.path.join(root, b"")
        self.times: dict[bytes, int] = {}
        """By path: its ctime in nanoseconds. A folder ends with a slash; the root is "/"."""
        self.kept: set[bytes] = set()
        """Changed files whose content has an older time: their mode or name changed, or a copy got its old time."""
        self.in_future = False
        """Whether a time lies in the future, so that the clock of the file system is another one."""

    def look(self, files: Collection[bytes], folders: Collection[bytes]) -> None:
        """Look at files and folders; those that do not exist are left out."""
        latest = time.time_ns() + _SKEW
        for path in files:
            info = self._stat(path)
            if info is None or info.st_ctime_ns < self._since:
                continue
            self.times[path] = info.st_ctime_ns
            self.in_future |= info.st_ctime_ns > latest
            if info.st_mtime_ns < self._since:
                self.kept.add(path)
        for folder in folders:
            info = self._stat(folder)
            if (
                info is not None
                and stat.S_ISDIR(info.st_mode)
                and info.st_ctime_ns >= self._since
            ):
                self.in_future |= info.st_ctime_ns > latest
                if not self._is_explained(folder, info.st_ctime_ns):
                    self.times[folder + b"/"] = info.st_ctime_ns

    def _stat(self, path: bytes) -> os.stat_result | None:
        try:
            return os.lstat(self._prefix + path)
        except OSError:
            return None

    def _is_explained(self, folder: bytes, changed: int) -> bool:
        """Return whether the folder changed because a cache or an ignored entry was made in it at that time."""
        try:
            with os.scandir(os.path.join(self._root, folder)) as entries:
                others = [
                    entry
                    for entry in entries
                    if entry.name != b".git"
                    and not self._is_file(os.path.join(folder, entry.name))
                ]
            return any(
                changed - UNCERTAIN <= made <= changed + MAKING
                for entry in others
                for made in _times(entry)
            )
        except OSError:
            return False


def _times(entry: os.DirEntry[bytes]) -> Iterator[int]:
    """Yield the ctime of an entry, and of those in a folder: its own ctime changes as long as it is filled."""
    yield entry.stat(follow_symlinks=False).st_ctime_ns
    if entry.is_dir(follow_symlinks=False):
        with os.scandir(entry.path) as inside:
            yield from (one.stat(follow_symlinks=False).st_ctime_ns for one in inside)
