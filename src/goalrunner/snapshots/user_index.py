"""The first index of a store, made of what the index of the user's repository says.

With it, fewer files are read. The content is copied from the user's repository into one
pack of the store, which git does several times faster than it compresses files. The
store needs nothing of the repository afterwards: the user may prune or remove it.
Nothing is written in the repository; objects that are shared as alternates or hard
links would get new times whenever git meets them again.

An index can be wrong. An earlier agent may have set flags with which git overlooks
changes, or written any blob for a file whose times and size are right. Entries that
have flags, conflicts, filters or another size than their blob are left out, and so are
files that changed in the last second before the index was written: the store reads
these files itself. All other paths are noted as taken over. Before anything rests on
their content, `SnapshotStore.verify` compares it with the files.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import tempfile
from collections.abc import (
    Iterable,
    Iterator,
    Mapping,
)
from pathlib import Path
from typing import NamedTuple

from goalrunner.records.files import write_whole
from goalrunner.snapshots.git import Git, GitFailed
from goalrunner.snapshots.repositories import Repository

_TAKEN_OVER = "taken-over"
"""The file of the store with the paths whose content was not read."""

_HEAD = struct.Struct(">10I20sH")
"""The beginning of an entry of an index.

It has times, device, inode, mode, owner, size, blob, and flags.
"""
_LENGTH = 0x0FFF
"""The part of the flags with the length of the path.

The others tell of conflicts, and of what git is to overlook.
"""
_EXTENDED = 0x4000
"""The flag of an entry with two more bytes of flags."""
_MODES = frozenset({0o100644, 0o100755, 0o120000})
_UNFIT = re.compile(rb'[\n\r"]|(?:^|/)(?:\.\.?|\.git)?(?:/|$)', re.IGNORECASE)
"""Paths that git may read otherwise in a list, one a line.

Those that no snapshot has, such as `.git/HEAD`, are among them.
"""
_FILTERS = ("filter", "working-tree-encoding")
"""Attributes with which a blob and its file can have the same size and other bytes."""


class _Entry(NamedTuple):
    """A file or link, without flags or conflict."""

    path: bytes
    blob: str
    size: int
    head: bytes
    """The beginning of the entry, as the index has it."""


async def take_over(
    git: Git,
    repository: Repository,
    large: int,
) -> bool:
    """Copy objects of a repository into a new store, and write the store's index.

    Files with more than `large` bytes are left out. Return whether that was done.
    """
    below = os.fsencode(os.path.relpath(git.workspace, repository.root)) + b"/"
    prefix = b"" if below == b"./" else below
    try:
        entries = [
            entry for entry in _read(repository.index) if entry.path.startswith(prefix)
        ]
        blobs = {entry.blob for entry in entries}
        sizes = await _copied_objects(git, repository, blobs, large)
        filtered = await _filtered(git, repository, [entry.path for entry in entries])
    except (OSError, ValueError, IndexError, struct.error, GitFailed):
        # The index has another format, or objects are damaged: the files are read.
        return False
    paths: list[bytes] = []
    parts: list[bytes] = []
    for entry in entries:
        if sizes.get(entry.blob) != entry.size or entry.path in filtered:
            continue
        path = entry.path.removeprefix(prefix)
        paths.append(path)
        parts.append(_written(entry.head, path))
    _write_taken_over(git.store, paths)
    data = b"DIRC" + struct.pack(">2I", 2, len(parts)) + b"".join(parts)
    checksum = hashlib.sha1(data, usedforsecurity=False).digest()
    write_whole(git.store / "index", data + checksum, lasting=False)
    return True


def taken_over(store: Path) -> set[bytes]:
    """Return the paths that were taken over, and that were not verified since."""
    try:
        return {*(store / _TAKEN_OVER).read_bytes().split(b"\0")} - {b""}
    except FileNotFoundError:
        return set()


def note_verified(store: Path, paths: Iterable[bytes]) -> None:
    """Note that the content of these paths was compared with the files.

    Raise OSError.
    """
    _write_taken_over(store, sorted(taken_over(store).difference(paths)))


def _write_taken_over(store: Path, paths: Iterable[bytes]) -> None:
    data = b"".join(path + b"\0" for path in paths)
    write_whole(store / _TAKEN_OVER, data, lasting=False)


def forget_index(store: Path) -> None:
    """Remove the index of a store, so that every file is read again. Raise OSError."""
    (store / "index").unlink(missing_ok=True)
    (store / _TAKEN_OVER).unlink(missing_ok=True)


def _read(index: Path) -> Iterator[_Entry]:
    """Yield the entries of an index that can be believed.

    Raise OSError, ValueError, IndexError or struct.error.
    """
    info, data = index.stat(), index.read_bytes()
    checksum = hashlib.sha1(data[:-20], usedforsecurity=False).digest()
    if data[:4] != b"DIRC" or checksum != data[-20:]:
        raise ValueError(f"{index} is no index with a checksum")
    # A file that changed in the second in which the index was written may have changed
    # again unnoticed. A program can set the time of modification, but not the ctime.
    written = int(min(info.st_mtime, info.st_ctime))
    version, count = struct.unpack_from(">2I", data, 4)
    place, path = 12, b""
    for _ in range(count):
        ctime, _, mtime, _, _, _, mode, _, _, size, blob, flags = _HEAD.unpack_from(
            data,
            place,
        )
        name = place + _HEAD.size
        if flags & _EXTENDED:
            name += 2
        if version == 4:
            # The path has no common beginning with the one before it.
            dropped, name = _number(data, name)
            end = data.index(b"\0", name)
            path = path[: len(path) - dropped] + data[name:end]
            following = end + 1
        else:
            end = data.index(b"\0", name)
            path = data[name:end]
            # Entries are padded to a multiple of eight bytes.
            following = place + (end - place + 8) // 8 * 8
        is_plain = not flags & ~_LENGTH and mode in _MODES and not _UNFIT.search(path)
        if is_plain and ctime < written and mtime < written:
            yield _Entry(path, blob.hex(), size, data[place : place + _HEAD.size - 2])
        place = following


def _number(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends.

    The format is that of offsets in packs: a set high bit announces another byte.
    """
    number = data[place] & 0x7F
    while data[place] & 0x80:
        place += 1
        number = ((number + 1) << 7) | (data[place] & 0x7F)
    return number, place + 1


def _written(head: bytes, path: bytes) -> bytes:
    """Return an entry of an index of version 2."""
    padding = 8 - (_HEAD.size + len(path)) % 8
    return head + struct.pack(">H", min(len(path), _LENGTH)) + path + b"\0" * padding


async def _copied_objects(
    git: Git,
    repository: Repository,
    blobs: set[str],
    large: int,
) -> Mapping[str, int]:
    """Copy objects into the store; return the sizes of the blobs.

    They are `blobs`, and the trees of the commit that is checked out.
    """
    # It fails in a repository without a commit, which has no trees.
    committed = await git.run(
        "rev-list", "--objects", "--no-object-names", "--no-walk",
        "--filter=blob:none", "HEAD", repository=repository.git_dir,
    )  # fmt: skip
    names = blobs.union(committed.output.decode().split())
    listed = await git.ask(
        "cat-file",
        "--batch-check=%(objecttype) %(objectsize) %(objectname)",
        "--buffer",
        stdin="\n".join(names).encode() + b"\n",
        objects=repository.common / "objects",
    )
    sizes: dict[str, int] = {}
    copied: list[str] = []
    for line in listed.decode().splitlines():
        # "NAME missing" for an object that does not exist.
        fields = line.split(" ")
        if fields[0] == "tree":
            copied.append(fields[2])
        elif fields[0] == "blob" and int(fields[1]) <= large:
            copied.append(fields[2])
            sizes[fields[2]] = int(fields[1])
    await _pack(git, copied, repository.common / "objects")
    return sizes


async def _pack(
    git: Git,
    names: list[str],
    objects: Path,
) -> None:
    """Copy objects into a pack of the store.

    Raise GitFailed if one has another content than its id says. Git itself copies such
    an object as it is, and later writes its content into a checkout.
    """
    stdin = "".join(f"{name}\n" for name in names).encode()
    with tempfile.TemporaryDirectory(
        prefix="tmp_",
        dir=git.store,
    ) as scratch:
        packing = ("pack-objects", "-q", "--non-empty", "--window=0", f"{scratch}/pack")
        await git.ask(
            *packing,
            stdin=stdin,
            objects=objects,
        )
        for index in Path(scratch).glob("*.idx"):
            await git.ask("verify-pack", str(index))
        # Git uses a pack once it has an index, so the index is moved last.
        index_last = sorted(
            Path(scratch).iterdir(),
            key=lambda file: file.suffix == ".idx",
        )
        for file in index_last:
            file.replace(git.store / "objects" / "pack" / file.name)


async def _filtered(
    git: Git,
    repository: Repository,
    paths: list[bytes],
) -> set[bytes]:
    """Return the paths whose content a filter of git converts."""
    output = await git.ask(
        "check-attr",
        "--stdin",
        "-z",
        *_FILTERS,
        stdin=b"".join(path + b"\0" for path in paths),
        tree=repository.root,
        repository=repository.git_dir,
        # With the repository's own index, git would write into the repository if that
        # is split or sparse.
        index=git.store / "none",
    )
    # Path, attribute and value.
    fields = output.split(b"\0")
    values = zip(fields[::3], fields[2::3], strict=False)
    return {path for path, value in values if value not in (b"unspecified", b"unset")}
