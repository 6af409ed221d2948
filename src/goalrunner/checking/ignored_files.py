"""The stats and the content of ignored files, and the pack that the content of small ones is kept in."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.ignore_rules import CACHES

_CACHES = Patterns(CACHES, own=True)
DEPENDENCY_FILES = frozenset({".pnp.cjs", ".pnp.loader.mjs"})
_FILES = [name for name in CACHES if not name.endswith("/")]
_WHOLE = {name for name in _FILES if "*" not in name} | {"coverage.xml", "coverage.json", "coverage.lcov", "lcov.info"}
_BEGINNINGS = tuple(name[:-1] for name in _FILES if name.endswith("*"))
_ENDINGS = (
    *(name[1:] for name in _FILES if name.startswith("*")),
    *(".o", ".obj", ".lo", ".class", ".gcda", ".gcno", ".gcov", ".rlib", ".rmeta", ".hi", ".dyn_o", ".beam"),
)
_IN_TEXT = (*(f"{ending}\0" for ending in _ENDINGS), *(f"\0{beginning}" for beginning in _BEGINNINGS))


PACK = ".contents"
"""Suffix of a pack."""
KEPT_FILE = 1 << 20
"""The content of a file with more bytes than this is not kept."""
KEPT_TOTAL = 256 << 20
"""The content of all files together; the smallest ones are kept first."""
_KINDS = (stat.S_IFREG, stat.S_IFLNK)

Stat = tuple[int, int, int, int, int]
"""What tells that a file or link is still the same: size, mtime, ctime, inode and mode. Plain tuples are made fastest."""
SIZE, MODE = 0, 4
"""Positions in a `Stat`."""


class Kept(NamedTuple):
    """The hash of a file's content, and its place in the pack."""

    sha256: str
    offset: int


def is_build_file(name: str) -> bool:
    """Return whether a file of this name is build output by itself."""
    return name in _WHOLE or name.endswith(_ENDINGS) or name.startswith(_BEGINNINGS) or name in DEPENDENCY_FILES


def build_files(names: Sequence[str]) -> Collection[str]:
    """Return the names that are build output by themselves. Most folders have none, which a few searches tell at once."""
    text = "\0".join(("", *names, ""))
    if _WHOLE.isdisjoint(names) and DEPENDENCY_FILES.isdisjoint(names) and not any(part in text for part in _IN_TEXT):
        return ()
    return {name for name in names if is_build_file(name)}


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
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, mode


def add_files(
    found: dict[str, Stat | None], entries: Iterable[os.DirEntry[str]], folder: str, left: Collection[str]
) -> list[os.DirEntry[str]]:
    """Add the regular files of a folder, by their paths; return the other entries, and those with names in `left`."""
    others = []
    for entry in entries:
        name = entry.name
        if name in left or not entry.is_file(follow_symlinks=False):
            others.append(entry)
            continue
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            found[f"{folder}/{name}"] = None
            continue
        # This runs for each file: a call of `_stat` would take as long as all the rest.
        mode = info.st_mode
        key = info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, mode
        found[f"{folder}/{name}"] = key if stat.S_IFMT(mode) in _KINDS else None
    return others


def content_of(path: str, info: Stat) -> bytes | None:
    """Return the content of a file or the target of a link; None if it cannot be read or no longer has that stat."""
    try:
        if stat.S_ISLNK(info[MODE]):
            data = os.fsencode(os.readlink(path))
        else:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                data = os.read(handle, info[SIZE])
            finally:
                os.close(handle)
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
            kept[path] = Kept(hashlib.sha256(data).hexdigest(), offset)
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
