"""The stats and the content of ignored files, and the pack that the content of small ones is kept in."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.ignore_rules import CACHES

_CACHES = Patterns(CACHES, own=True)
PACK = ".contents"
"""Suffix of a pack."""
KEPT_FILE = 1 << 20
"""The content of a file with more bytes than this is not kept."""
KEPT_TOTAL = 256 << 20
"""The content of all files together; the smallest ones are kept first."""

Stat = tuple[int, int, int, int, int]
"""What tells that a file or link is still the same: size, mtime, ctime, inode and mode. Plain tuples are made fastest."""
SIZE, MODE = 0, 4
"""Positions in a `Stat`."""
Kept = tuple[str, int]
"""The hash of a file's content, and its place in the pack."""


def stat_of(path: str) -> Stat | None:
    """Return the stat of a file or link; None for anything else."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    known = stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)
    return (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_mode) if known else None


def content_of(path: str, info: Stat) -> bytes | None:
    """Return the content of a file or the target of a link; None if it cannot be read or no longer has that stat."""
    try:
        if stat.S_ISLNK(info[MODE]):
            data = os.fsencode(os.readlink(path))
        else:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:
                data = file.read(info[SIZE])
    except OSError:
        return None
    return data if len(data) == info[SIZE] and stat_of(path) == info else None


def write_pack(workspace: Path, files: Mapping[str, Stat], pack: Path) -> dict[str, Kept]:
    """Write the content of small files into one file; return what is kept of which.

    It is not flushed to the disk: each content is compared with its hash when it is used.
    """
    kept = {}
    offset = 0
    handle = os.open(pack, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(handle, "wb") as out:
        for size, path in sorted((info[SIZE], path) for path, info in files.items() if info[SIZE] <= KEPT_FILE):
            if offset + size > KEPT_TOTAL:
                break
            data = content_of(f"{workspace}/{path}", files[path])
            if data is None:
                continue
            out.write(data)
            kept[path] = (hashlib.sha256(data).hexdigest(), offset)
            offset += size
    return kept


def build_state(workspace: Path, paths: Sequence[str]) -> str:
    """Return a hash over names, sizes and times of build output, which validators see; caches are left out."""
    digest = hashlib.sha256()
    for path in paths:
        if _CACHES.match(path) or _CACHES.match(f"{path}/x"):
            continue
        top = os.fspath(workspace / path)
        below = (os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names)
        for file in (top, *below):
            with contextlib.suppress(OSError):  # it vanished
                info = os.lstat(file)
                digest.update(f"{file}\0{info.st_size} {info.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()
