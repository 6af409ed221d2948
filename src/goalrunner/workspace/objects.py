"""Small objects of the store, written without a process. Owns git's format of a loose blob and tree."""

# Names on disk are bytes, which pathlib does not take.

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from collections.abc import Mapping
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


def _write(store: Path, kind: Literal["blob", "tree"], body: bytes) -> str:
    data = f"{kind} {len(body)}\0".encode() + body
    name = hashlib.sha1(data, usedforsecurity=False).hexdigest()  # git's name of it, no proof of anything
    place = store / "objects" / name[:2] / name[2:]
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        write_file(place, zlib.compress(data, 1))
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
