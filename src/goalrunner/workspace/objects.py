"""Objects of the store in git's format: small ones written without a process, and the ids that contents must have."""

# Names on disk are bytes, which pathlib does not take.

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal


def write_blob(store: Path, content: bytes) -> str:
    """Keep bytes as a blob; gives its id. Raises OSError."""
    return _write(store, "blob", content)


def write_tree(store: Path, *, trees: Mapping[str, str], blobs: Mapping[str, str]) -> str:
    """Keep a tree of named trees and blobs, by their ids; gives its own id. Raises OSError."""
    rows = [(f"{name}/", f"40000 {name}", id_) for name, id_ in trees.items()]
    rows += [(name, f"100644 {name}", id_) for name, id_ in blobs.items()]
    body = b"".join(row.encode() + b"\0" + bytes.fromhex(id_) for _, row, id_ in sorted(rows))
    return _write(store, "tree", body)


def object_id(kind: Literal["blob", "tree"], body: bytes) -> str:
    """Return the id that git gives to this content."""
    return hashlib.sha1(_heading(kind, body) + body, usedforsecurity=False).hexdigest()


def tree_id(files: Iterable[tuple[bytes, str, str]]) -> str:
    """Return the id of the tree that holds these files: path, mode and blob of each. `content` is a folder in any case.

    Git does not compare what it reads with the ids of the objects, so a changed object is found in this way.
    """
    folders: dict[bytes, list[tuple[bytes, bytes]]] = {b"": [], b"content": []}
    for path, mode, blob in files:
        folder, _, name = path.rpartition(b"/")
        folders.setdefault(folder, []).append((name, b"%b %b\0%b" % (mode.encode(), name, bytes.fromhex(blob))))
    for folder in list(folders):
        above = folder.rpartition(b"/")[0]
        while above not in folders:
            folders[above] = []
            above = above.rpartition(b"/")[0]
    # The deepest first, the root last. Git sorts a folder as if its name ended with a slash.
    for folder in sorted(folders, key=lambda folder: folder.count(b"/") if folder else -1, reverse=True):
        id_ = object_id("tree", b"".join(row for _, row in sorted(folders[folder])))
        if folder:
            above, _, name = folder.rpartition(b"/")
            folders[above].append((name + b"/", b"40000 %b\0%b" % (name, bytes.fromhex(id_))))
    return id_


def _heading(kind: str, body: bytes) -> bytes:
    return f"{kind} {len(body)}\0".encode()


def _write(store: Path, kind: Literal["blob", "tree"], body: bytes) -> str:
    name = object_id(kind, body)
    place = store / "objects" / name[:2] / name[2:]
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        write_file(place, zlib.compress(_heading(kind, body) + body, 1))
    return name


def write_file(place: Path, data: bytes) -> None:
    """A file, whole or not at all. Raises OSError."""
    handle, new = tempfile.mkstemp(prefix="tmp_", dir=place.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        Path(new).replace(place)
    except BaseException:
        os.unlink(new)
        raise
