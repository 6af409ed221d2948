"""The kinds of paths in a workspace, and a look at a small workspace that shows without git whether anything changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.snapshots.objects import Entry, printable_path

LARGE = 50_000_000
"""Bytes; a larger file is hashed, not stored."""

UNREADABLE = Entry("000000", "", stored=False)

_EFFECTIVE = os.access in os.supports_effective_ids
_TICK = 50_000_000
"""Nanoseconds of one tick of a file system's clock: two changes within one may have the same time."""


@dataclass
class Sorted:
    """Paths by kind: content to store, content to record by its hash, no content."""

    storable: list[bytes] = field(default_factory=list)
    unstored: dict[bytes, Entry] = field(default_factory=dict)
    gone: list[bytes] = field(default_factory=list)
    """Missing paths, and pipes, sockets, devices and folders."""


class Sorter:
    """Classifies paths below a folder, and caches the hashes of files that are not stored."""

    def __init__(self, folder: Path, large: int) -> None:
        self._root = os.fsencode(folder)
        self._large = large
        self._hashes: dict[bytes, tuple[tuple[int, ...], Entry]] = {}

    def sort(self, paths: Collection[bytes]) -> Sorted:
        """Classify paths; one below a link does not exist."""
        result = Sorted()
        folders = {b"": self.is_folder(b"")}
        for path in sorted(paths):
            is_reached = self._is_reached(path.rpartition(b"/")[0], folders)
            try:
                info = os.lstat(os.path.join(self._root, path)) if is_reached else None
                entry = self._unstored(path, info) if info else None
            except FileNotFoundError:
                info = entry = None
            if info is None or not (
                stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)
            ):
                result.gone.append(path)
            elif entry:
                result.unstored[path] = entry
            else:
                result.storable.append(path)
        return result

    def _is_reached(self, folder: bytes, known: dict[bytes, bool]) -> bool:
        """Return what `is_folder` returns, with one look at each of many folders."""
        if folder not in known:
            is_real = False
            if self._is_reached(folder.rpartition(b"/")[0], known):
                with contextlib.suppress(OSError):
                    is_real = stat.S_ISDIR(
                        os.lstat(os.path.join(self._root, folder)).st_mode
                    )
            known[folder] = is_real
        return known[folder]

    def changed_since(self, paths: Collection[bytes], second: int) -> set[bytes]:
        """Return the paths whose inode changed in that second of the epoch or later."""
        found = set()
        for path in paths:
            with contextlib.suppress(OSError):
                found |= (
                    {path}
                    if os.lstat(os.path.join(self._root, path)).st_ctime >= second
                    else set()
                )
        return found

    def is_folder(self, path: bytes) -> bool:
        """Return whether a path is a folder and none of its parents is a link."""
        place = os.path.join(self._root, path).rstrip(b"/")
        return os.path.realpath(place) == place and os.path.isdir(place)

    def _unstored(self, path: bytes, info: os.stat_result) -> Entry | None:
        """Return the entry of a file whose content is not kept; None for other files."""
        lowered = path.lower()
        parts = lowered.split(b"/") if b".git" in lowered else []
        is_link = stat.S_ISLNK(info.st_mode)
        # Git reserves `.git` in any case, and links named `.gitmodules`.
        is_reserved = b".git" in parts or (is_link and b".gitmodules" in parts)
        place = os.path.join(self._root, path)
        if is_link and is_reserved:
            return Entry(
                "120000", content_hash(place, info.st_mode).hex(), stored=False
            )
        if not stat.S_ISREG(info.st_mode):
            return None
        if not os.access(place, os.R_OK, effective_ids=_EFFECTIVE):
            os.lstat(place)  # raises if it was removed in the meantime
            return UNREADABLE
        if info.st_size <= self._large and not is_reserved:
            return None
        mark = (
            info.st_ino,
            info.st_size,
            info.st_mode,
            info.st_mtime_ns,
            info.st_ctime_ns,
        )
        if path in self._hashes and self._hashes[path][0] == mark:
            return self._hashes[path][1]
        began = time.time_ns()
        digest = content_hash(place, info.st_mode).hex()
        entry = Entry(
            "100755" if info.st_mode & 0o100 else "100644", digest, stored=False
        )
        if info.st_ctime_ns + _TICK < began:
            self._hashes[path] = (mark, entry)
        return entry


def content_hash(place: bytes, mode: int) -> bytes:
    """Return a hash of the content of a file, or of the target of a link. Raise OSError if it cannot be read."""
    if stat.S_ISLNK(mode):
        return hashlib.sha256(os.readlink(place)).digest()
    if not stat.S_ISREG(mode):
        return b""
    with open(
        os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb"
    ) as file:
        return hashlib.file_digest(file, "sha256").digest()


def manifest(unstored: Mapping[bytes, Entry]) -> bytes:
    """Return the entries without content as JSON."""
    rows = {
        printable_path(path): [entry.mode, entry.blob]
        for path, entry in unstored.items()
    }
    return json.dumps(rows, sort_keys=True, indent=0).encode()


def read_manifest(data: bytes) -> dict[str, Entry]:
    """Return the entries of a manifest. Raise ValueError."""
    return {
        path: Entry(mode, blob, stored=False)
        for path, (mode, blob) in json.loads(data).items()
    }


MOST_TO_LOOK_AT = 300
"""Files and folders; in a larger workspace, git is asked."""
_COARSE = 3_000_000_000
"""Nanoseconds: some file systems keep times in steps of one or two seconds."""
_RACY_BYTES = 4_000_000
"""Most bytes to hash at one look."""


@dataclass
class Look:
    """The names in each folder (those of folders end with a slash), and the signature of each file that is not ignored.

    `racy` has a hash of each file that changed just before: it may change again without another signature. If these are
    too many bytes, the hash is empty, and the file counts as changed.
    """

    names: dict[bytes, list[bytes]] = field(default_factory=dict)
    files: dict[bytes, tuple[int, ...]] = field(default_factory=dict)
    racy: dict[bytes, bytes] = field(default_factory=dict)

    def is_same(self, now: Look, root: bytes) -> bool:
        """Return whether nothing changed below `root` from this look to a later one. Raise OSError."""
        if self.names != now.names or self.files != now.files:
            return False
        return all(
            content_hash(os.path.join(root, path), self.files[path][0]) == content
            for path, content in self.racy.items()
        )


def look_at(root: bytes, ignored: Collection[bytes]) -> Look | None:
    """Look at everything below `root` except `ignored` paths, as `Index.ignored` returns them.

    Return None if that is too much, or if a folder cannot be read.
    """
    # A folder with other ignored paths in it is not ignored itself: another file in it may not be ignored.
    parents = {
        path[: end + 1]
        for path in ignored
        for end in range(len(path) - 1)
        if path[end] == ord("/")
    }
    left_out = set(ignored) - parents
    look, waiting, bytes_left = Look(), [b""], _RACY_BYTES
    now = time.time_ns()
    try:
        while waiting:
            folder = waiting.pop()
            with os.scandir(os.path.join(root, folder)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
            look.names[folder] = [
                entry.name + b"/" * entry.is_dir(follow_symlinks=False)
                for entry in found
            ]
            for entry in found:
                path = os.path.join(folder, entry.name)
                info = entry.stat(follow_symlinks=False)
                is_folder = stat.S_ISDIR(info.st_mode)
                if (
                    entry.name == b".git"
                    or (path + b"/" if is_folder else path) in left_out
                ):
                    continue
                if is_folder:
                    waiting.append(path)
                    continue
                look.files[path] = (
                    info.st_mode,
                    info.st_size,
                    info.st_mtime_ns,
                    info.st_ctime_ns,
                    info.st_ino,
                )
                if now - max(info.st_ctime_ns, info.st_mtime_ns) < _COARSE:
                    bytes_left -= info.st_size
                    look.racy[path] = (
                        content_hash(entry.path, info.st_mode)
                        if bytes_left >= 0
                        else b""
                    )
            if len(look.files) + len(look.names) > MOST_TO_LOOK_AT:
                return None
    except OSError:
        return None
    return look
