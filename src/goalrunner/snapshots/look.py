"""A look at a small workspace, which shows without git whether anything changed."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from goalrunner.snapshots.files import content_hash

MOST_TO_LOOK_AT = 300
"""Files and folders; in a larger workspace, git is asked."""
_COARSE = 3_000_000_000
"""Nanoseconds: some file systems keep times in steps of one or two seconds."""
_RACY_BYTES = 4_000_000
"""Most bytes to hash at one look."""


@dataclass
class Look:
    """The names in each folder, and the signature of each file that is not ignored."""

    names: dict[bytes, list[bytes]] = field(default_factory=dict)
    """By folder; the names of folders end with a slash."""
    files: dict[bytes, tuple[int, ...]] = field(default_factory=dict)
    racy: dict[bytes, bytes] = field(default_factory=dict)
    """A hash of each file that changed just before the look.

    It may change again without another signature. If these are too many bytes, the hash
    is empty, and the file counts as changed.
    """

    def is_same(self, now: Look, root: bytes) -> bool:
        """Return whether nothing changed below `root` from this look to a later one.

        Raise OSError.
        """
        if self.names != now.names or self.files != now.files:
            return False
        for path, earlier_hash in self.racy.items():
            mode = self.files[path][0]
            if content_hash(os.path.join(root, path), mode) != earlier_hash:
                return False
        return True


def look_at(root: bytes, ignored: Collection[bytes]) -> Look | None:
    """Look at everything below `root` except `ignored` paths.

    These are as `Index.ignored` returns them. Return None if that is too much, or if a
    folder cannot be read.
    """
    left_out = set(ignored) - _folders_above(ignored)
    look = Look()
    waiting = [b""]
    bytes_to_hash = _RACY_BYTES
    now = time.time_ns()
    try:
        while waiting:
            folder = waiting.pop()
            with os.scandir(os.path.join(root, folder)) as listing:
                # `scandir` lists in any order.
                entries = sorted(listing, key=lambda entry: entry.name)
            names = look.names[folder] = []
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                name = entry.name + b"/" * is_folder
                names.append(name)
                if entry.name == b".git" or os.path.join(folder, name) in left_out:
                    continue
                path = os.path.join(folder, entry.name)
                if is_folder:
                    waiting.append(path)
                    continue
                info = entry.stat(follow_symlinks=False)
                look.files[path] = _signature(info)
                if now - max(info.st_ctime_ns, info.st_mtime_ns) < _COARSE:
                    bytes_to_hash -= info.st_size
                    look.racy[path] = b""
                    # Hashing more would take longer than asking git.
                    if bytes_to_hash >= 0:
                        look.racy[path] = content_hash(entry.path, info.st_mode)
            # Git is faster with more files.
            if len(look.files) + len(look.names) > MOST_TO_LOOK_AT:
                return None
    except OSError:
        # Something vanished, or a folder is closed: git finds out what.
        return None
    return look


def _signature(info: os.stat_result) -> tuple[int, ...]:
    return (
        info.st_mode,
        info.st_size,
        info.st_mtime_ns,
        info.st_ctime_ns,
        info.st_ino,
    )


def _folders_above(ignored: Collection[bytes]) -> set[bytes]:
    """Return the folders, each with a slash, that contain other ignored paths.

    Such a folder is not ignored itself: another file in it may not be ignored.
    """
    folders: set[bytes] = set()
    for path in ignored:
        end = path.find(b"/")
        while 0 <= end < len(path) - 1:
            folders.add(path[: end + 1])
            end = path.find(b"/", end + 1)
    return folders
