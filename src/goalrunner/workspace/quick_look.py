"""Whether a small workspace is as it was at the last look, seen without git: names, sizes, times and inodes of its files."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Collection
from dataclasses import dataclass, field

LIMIT = 4_000
"""Files and folders; in a larger workspace git is faster."""

_TICK = 50_000_000
"""Nanoseconds in which two changes of a file may carry the same time."""
_RACY_BYTES = 4_000_000

_Signature = tuple[int, int, int, int, int]


@dataclass
class Look:
    """One look: the names in each folder, the signature of each watched file, and the content of files that changed just
    before it, whose signature may stay the same although they change again."""

    names: dict[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    files: dict[bytes, _Signature] = field(default_factory=dict)
    racy: dict[bytes, bytes] = field(default_factory=dict)

    def same_names(self, other: Look) -> bool:
        """Return whether every folder has the same names."""
        return self.names == other.names


class QuickLook:
    """Looks at a workspace below `root`, an absolute path as bytes."""

    def __init__(self, root: bytes) -> None:
        self._root = root

    def look(self, ignored: Collection[bytes]) -> Look | None:
        """Look at everything but `ignored` paths (folders end with a slash); None if there is too much, or it cannot be read."""
        closed = frozenset(path.rstrip(b"/") for path in ignored)
        seen, now = Look(), time.time_ns()
        waiting, count, budget = [b""], 0, _RACY_BYTES
        try:
            while waiting:
                folder = waiting.pop()
                with os.scandir(os.path.join(self._root, folder)) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
                seen.names[folder] = tuple(entry.name for entry in found)
                count += len(found)
                if count > LIMIT:
                    return None
                for entry in found:
                    path = os.path.join(folder, entry.name)
                    if entry.name == b".git" or path in closed:
                        continue
                    info = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(info.st_mode):
                        waiting.append(path)
                        continue
                    seen.files[path] = (info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
                    if now - max(info.st_ctime_ns, info.st_mtime_ns) < _TICK:
                        budget -= info.st_size
                        if budget < 0:
                            return None
                        seen.racy[path] = self._content(path, info.st_mode)
        except OSError:
            return None
        return seen

    def unchanged(self, before: Look, now: Look) -> bool:
        """Return whether nothing changed between two looks."""
        if not before.same_names(now) or before.files != now.files:
            return False
        try:
            return all(self._content(path, before.files[path][0]) == content for path, content in before.racy.items())
        except OSError:
            return False

    def _content(self, path: bytes, mode: int) -> bytes:
        """Return a hash of the content. Raise OSError if it cannot be read."""
        place = os.path.join(self._root, path)
        if stat.S_ISLNK(mode):
            return os.readlink(place)
        if not stat.S_ISREG(mode):
            return b""
        handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(handle, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
