"""The stats and the content of ignored files, and the pack that the content of small ones is kept in."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from goalrunner.workspace.caches import CACHES
from goalrunner.workspace.patterns import Patterns

_CACHES = Patterns(CACHES, own=True)

KEPT_FILE = 1 << 20
"""The content of a file with more bytes than this is not kept."""
KEPT_TOTAL = 256 << 20
"""The content of all files together; the smallest ones are kept first."""
_KINDS = (stat.S_IFREG, stat.S_IFLNK)


class Stat(NamedTuple):
    """What tells that a file or link is still the same."""

    size: int
    mtime: int
    ctime: int
    inode: int
    mode: int


class Kept(NamedTuple):
    """What is kept of a file: its stat, and the hash and place of its content if the pack holds that."""

    stat: Stat
    sha256: str = ""
    offset: int = 0


def stat_of(path: str) -> Stat | None:
    """Return the stat of a file or link; None for anything else."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return _stat(info)


def stat_of_entry(entry: os.DirEntry[str]) -> Stat | None:
    """Return the same for an entry of a folder, without looking its path up once more."""
    try:
        return _stat(entry.stat(follow_symlinks=False))
    except OSError:
        return None


def _stat(info: os.stat_result) -> Stat | None:
    mode = info.st_mode
    if stat.S_IFMT(mode) not in _KINDS:
        return None
    return Stat(info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, mode)


def content_of(path: str, info: Stat) -> bytes | None:
    """Return the content of a file or the target of a link; None if it cannot be read or no longer has that stat."""
    try:
        if stat.S_ISLNK(info.mode):
            data = os.fsencode(os.readlink(path))
        else:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                data = os.read(handle, info.size)
            finally:
                os.close(handle)
    except OSError:
        return None
    return data if len(data) == info.size and stat_of(path) == info else None


def write_pack(workspace: Path, files: Mapping[str, Kept], pack: Path) -> dict[str, Kept]:
    """Write the content of small files into one file; return what is kept of which."""
    kept = {}
    offset = 0
    handle = os.open(pack, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(handle, "wb") as out:
        for size, path in sorted((file.stat.size, path) for path, file in files.items() if file.stat.size <= KEPT_FILE):
            if offset + size > KEPT_TOTAL:
                break
            data = content_of(f"{workspace}/{path}", files[path].stat)
            if data is None:
                continue
            out.write(data)
            kept[path] = Kept(files[path].stat, hashlib.sha256(data).hexdigest(), offset)
            offset += size
        out.flush()
        os.fsync(out.fileno())
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
