"""The kinds of paths in a workspace: what a snapshot stores, hashes or leaves out."""

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

from goalrunner.snapshots.objects import Entry
from goalrunner.snapshots.paths import printable_path

LARGE = 50_000_000
"""Bytes; a larger file is hashed, not stored."""

UNREADABLE = Entry("000000", "", stored=False)

# Files are read by the effective user, not by the real one.
_EFFECTIVE = os.access in os.supports_effective_ids
_TICK = 50_000_000
"""Nanoseconds of one tick of a file system's clock.

Two changes within one may have the same time.
"""


@dataclass
class Sorted:
    """Paths by kind: content to store, content to record by its hash, no content."""

    storable: list[bytes] = field(default_factory=list)
    unstored: dict[bytes, Entry] = field(default_factory=dict)
    gone: list[bytes] = field(default_factory=list)
    """Missing paths, and pipes, sockets, devices and folders."""


class Sorter:
    """Classifies paths below a folder; caches the hashes of files not stored."""

    def __init__(self, folder: Path, large: int) -> None:
        self._root = os.fsencode(folder)
        self._large = large
        self._hashes: dict[bytes, tuple[tuple[int, ...], Entry]] = {}
        """By path: the signature of a file when it was read, and its entry."""

    def sort(self, paths: Collection[bytes]) -> Sorted:
        """Classify paths; one below a link does not exist."""
        result = Sorted()
        folders = {b"": self.is_folder(b"")}
        for path in sorted(paths):
            if not self._is_reached(path.rpartition(b"/")[0], folders):
                result.gone.append(path)
                continue
            try:
                info = os.lstat(os.path.join(self._root, path))
                entry = self._unstored(path, info)
            except FileNotFoundError:
                # It was removed since git listed it.
                result.gone.append(path)
                continue
            if not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
                result.gone.append(path)
            elif entry:
                result.unstored[path] = entry
            else:
                result.storable.append(path)
        return result

    def _is_reached(self, folder: bytes, folders: dict[bytes, bool]) -> bool:
        """Return what `is_folder` returns, with one look at each of many folders.

        `folders` has the results so far.
        """
        if folder not in folders:
            is_real = False
            if self._is_reached(folder.rpartition(b"/")[0], folders):
                with contextlib.suppress(OSError):
                    info = os.lstat(os.path.join(self._root, folder))
                    is_real = stat.S_ISDIR(info.st_mode)
            folders[folder] = is_real
        return folders[folder]

    def changed_since(self, paths: Collection[bytes], second: int) -> set[bytes]:
        """Return the paths whose inode changed in that second of the epoch or later."""
        changed: set[bytes] = set()
        for path in paths:
            with contextlib.suppress(OSError):
                info = os.lstat(os.path.join(self._root, path))
                if info.st_ctime >= second:
                    changed.add(path)
        return changed

    def is_folder(self, path: bytes) -> bool:
        """Return whether a path is a folder and none of its parents is a link."""
        place = os.path.join(self._root, path).rstrip(b"/")
        return os.path.realpath(place) == place and os.path.isdir(place)

    def _unstored(self, path: bytes, info: os.stat_result) -> Entry | None:
        """Return the entry of a file whose content is not stored; None for others.

        Raise OSError.
        """
        place = os.path.join(self._root, path)
        is_link = stat.S_ISLNK(info.st_mode)
        is_reserved = _is_reserved(path, is_link=is_link)
        if is_link and is_reserved:
            digest = content_hash(place, info.st_mode).hex()
            return Entry("120000", digest, stored=False)
        if not stat.S_ISREG(info.st_mode):
            return None
        if not os.access(place, os.R_OK, effective_ids=_EFFECTIVE):
            # Raise FileNotFoundError if it was removed in the meantime.
            os.lstat(place)
            return UNREADABLE
        if info.st_size <= self._large and not is_reserved:
            return None
        return self._hashed(path, info)

    def _hashed(self, path: bytes, info: os.stat_result) -> Entry:
        """Return the entry of a file with its hash."""
        signature = (
            info.st_ino,
            info.st_size,
            info.st_mode,
            info.st_mtime_ns,
            info.st_ctime_ns,
        )
        if path in self._hashes and self._hashes[path][0] == signature:
            return self._hashes[path][1]
        began = time.time_ns()
        digest = content_hash(os.path.join(self._root, path), info.st_mode).hex()
        # Git looks at the bit of the owner alone.
        mode = "100755" if info.st_mode & 0o100 else "100644"
        entry = Entry(mode, digest, stored=False)
        # A file that changed just now may change again without another signature.
        if info.st_ctime_ns + _TICK < began:
            self._hashes[path] = (signature, entry)
        return entry


def _is_reserved(path: bytes, *, is_link: bool) -> bool:
    """Return whether git refuses to store a path.

    It reserves `.git` in any case, and links named `.gitmodules`.
    """
    lowered = path.lower()
    # Most paths need not be split.
    if b".git" not in lowered:
        return False
    parts = lowered.split(b"/")
    return b".git" in parts or (is_link and b".gitmodules" in parts)


def content_hash(place: bytes, mode: int) -> bytes:
    """Return a hash of the content of a file, or of the target of a link.

    Raise OSError if it cannot be read.
    """
    if stat.S_ISLNK(mode):
        return hashlib.sha256(os.readlink(place)).digest()
    if not stat.S_ISREG(mode):
        return b""
    # Without O_NONBLOCK, opening a pipe that replaced the file would wait.
    handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(handle, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def manifest(unstored: Mapping[bytes, Entry]) -> bytes:
    """Return the entries without content as JSON."""
    rows = {
        printable_path(path): [entry.mode, entry.blob]
        for path, entry in unstored.items()
    }
    return json.dumps(
        rows,
        sort_keys=True,
        indent=0,
    ).encode()


def read_manifest(data: bytes) -> dict[str, Entry]:
    """Return the entries of a manifest. Raise ValueError."""
    return {
        path: Entry(mode, blob, stored=False)
        for path, (mode, blob) in json.loads(data).items()
    }
