"""The objects of a snapshot store: blobs, trees, and the names of snapshots."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.observation import Snapshot
from goalrunner.records.files import write_whole
from goalrunner.snapshots.git import Git


@dataclass(frozen=True)
class Entry:
    """One path of a snapshot. Equal entries mean equal files."""

    mode: str
    """The mode in git's form.

    It is 100644 for a file, 100755 for an executable file, 120000 for a symbolic link,
    and 000000 for an unreadable path.
    """
    blob: str
    """The id of the content in the store.

    It is the SHA-256 if the content is not stored, and empty for an unreadable path.
    """
    stored: bool = True
    """False if the content is too large, unreadable, or has a name reserved by git."""


EntryPair = tuple[Entry | None, Entry | None]
"""A path in two snapshots; None where it does not exist."""


def write_blob(store: Path, content: bytes) -> str:
    """Store bytes as a blob; return its id. Raise OSError."""
    return _write(store, "blob", content)


def write_tree(
    store: Path,
    *,
    trees: Mapping[str, str],
    blobs: Mapping[str, str],
) -> str:
    """Store a tree of named trees and blobs, given by their ids; return its id.

    Raise OSError.
    """
    rows: dict[str, bytes] = {}
    for name, tree in trees.items():
        # Git sorts a folder as if its name ended with a slash.
        rows[f"{name}/"] = f"40000 {name}".encode() + b"\0" + bytes.fromhex(tree)
    for name, blob in blobs.items():
        rows[name] = f"100644 {name}".encode() + b"\0" + bytes.fromhex(blob)
    return _write(store, "tree", b"".join(rows[name] for name in sorted(rows)))


def object_id(kind: str, body: bytes) -> str:
    """Return the id that git gives to this content."""
    return hashlib.sha1(_whole(kind, body), usedforsecurity=False).hexdigest()


def _whole(kind: str, body: bytes) -> bytes:
    return f"{kind} {len(body)}\0".encode() + body


def _write(
    store: Path,
    kind: str,
    body: bytes,
) -> str:
    name = object_id(kind, body)
    place = store / "objects" / name[:2] / name[2:]
    # An id stands for one content.
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        write_whole(place, zlib.compress(_whole(kind, body), 1), lasting=False)
    return name


def keep_snapshot(
    store: Path,
    tree: str,
    state: str,
) -> Snapshot:
    """Name a tree and the state of the repositories as a snapshot.

    `state` is a blob, or empty. Raise OSError.
    """
    identifier = _identifier(tree, state)
    blobs = {"repository": state} if state else {}
    root = write_tree(
        store,
        trees={"tree": tree},
        blobs=blobs,
    )
    # A ref, so that `git gc` keeps the objects.
    write_whole(store / REFS / identifier, f"{root}\n".encode(), lasting=False)
    return Snapshot(
        id=identifier,
        tree=tree,
        repository=state,
    )


def _identifier(tree: str, state: str) -> str:
    return hashlib.sha256(f"{tree} {state}".encode()).hexdigest()


REFS = "refs/snapshots/"


async def find_snapshot(git: Git, beginning: str) -> Snapshot:
    """Return the only snapshot whose id begins like this.

    Raise UsageError for none or several, or WorkspaceError.
    """
    # Every id begins with an empty text.
    matching = [
        name for name in await kept_ids(git) if beginning and name.startswith(beginning)
    ]
    if not matching:
        raise UsageError(
            f'no snapshot "{beginning}" is kept of {git.workspace}',
            "give the id, or its beginning",
        )
    if len(matching) > 1:
        raise UsageError(
            f'"{beginning}" matches {len(matching)} snapshots of {git.workspace}',
            "give more of the id",
        )
    [identifier] = matching
    output = await git.ask("ls-tree", "-z", REFS + identifier)
    blobs: dict[str, str] = {}
    for row in output.decode().split("\0")[:-1]:
        about, _, name = row.partition("\t")
        _, _, blobs[name] = about.split(" ")
    tree, repository = blobs["tree"], blobs.get("repository", "")
    # Git does not notice if a ref names another tree.
    if identifier != _identifier(tree, repository):
        raise WorkspaceError(f"snapshot {identifier} in {git.store} was changed")
    return Snapshot(
        id=identifier,
        tree=tree,
        repository=repository,
    )


async def kept_ids(git: Git) -> list[str]:
    """Return the ids of all snapshots in the store.

    Raise WorkspaceError if it cannot be read.
    """
    listed = await git.ask("for-each-ref", "--format=%(refname)", REFS)
    return [name.removeprefix(REFS) for name in listed.decode().split()]


async def keeps(git: Git, snapshot: Snapshot) -> bool:
    """Return whether the store has a snapshot.

    Raise WorkspaceError if the store cannot be read.
    """
    answer = await git.run("show-ref", "--verify", "--quiet", REFS + snapshot.id)
    return answer.code == 0
