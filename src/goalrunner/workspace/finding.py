"""Finding a snapshot of a store again by its id. Owns reading the store's list; takes no snapshot, claims nothing."""

from __future__ import annotations

import hashlib
import re

from goalrunner.errors import UsageError, WorkspaceError
from goalrunner.model.snapshot import Snapshot
from goalrunner.workspace.command import Git

_BEGINNING = re.compile(r"[0-9a-f]{1,64}")
_FOLDER = "refs/snapshots/"


async def find_snapshot(git: Git, beginning: str) -> Snapshot:
    """The only snapshot of the store whose id begins so. Raises UsageError for none or several, WorkspaceError."""
    listed = await git.ask("for-each-ref", "--format=%(refname)", _FOLDER)
    names = [name.removeprefix(_FOLDER) for name in listed.decode().split()]
    found = [name for name in names if _BEGINNING.fullmatch(beginning) and name.startswith(beginning)]
    if not found:
        raise UsageError(f'no snapshot "{beginning}" is kept of {git.workspace}', "give the id, or its beginning")
    if len(found) > 1:
        raise UsageError(f'"{beginning}" begins {len(found)} snapshots of {git.workspace}', "give more of the id")
    return await _read(git, found[0])


async def keeps(git: Git, snapshot: Snapshot) -> bool:
    """Whether the store still has a snapshot. Raises WorkspaceError when the store cannot be read."""
    answer = await git.run("show-ref", "--verify", "--quiet", f"{_FOLDER}{snapshot.id}")
    return answer.code == 0


async def _read(git: Git, identifier: str) -> Snapshot:
    rows = (await git.ask("ls-tree", "-z", f"{_FOLDER}{identifier}")).decode().split("\0")[:-1]
    parts = {name: meta.split(" ")[2] for meta, _, name in (row.partition("\t") for row in rows)}
    tree, repository = parts.get("tree", ""), parts.get("repository", "")
    if hashlib.sha256(f"{tree} {repository}".encode()).hexdigest() != identifier:
        raise WorkspaceError(f"snapshot {identifier} in {git.store} is not what was kept")
    return Snapshot(id=identifier, tree=tree, repository=repository)
