"""Stores made smaller, or removed, when no run names their snapshots any more. Owns doing it under the store's lock.

Which snapshots stay is for the caller to say, once nobody can take another one. What `goal restore` put aside stays for as
long as the caller keeps a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from goalrunner.errors import WorkspaceError
from goalrunner.workspace.claim import Claim
from goalrunner.workspace.command import Git
from goalrunner.workspace.removal import remove_whole

_REFS = "refs/snapshots/"
_PUT_ASIDE = "restored"
"""A file in the store: a line for each snapshot that a restoration put aside, time (seconds since 1970) and id."""


def put_aside(store: Path, identifier: str) -> None:
    """Remember that a snapshot is the way back from a restoration, which no run's log names. Raises OSError."""
    with open(os.open(store / _PUT_ASIDE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
        file.write(f"{int(time.time())} {identifier}\n")


def last_used(store: Path) -> float:
    """When something was last done in a store, in seconds since 1970; 0 for one that cannot be read."""
    times = [0.0]
    for name in ("lock", "index", "refs/snapshots", _PUT_ASIDE):
        with contextlib.suppress(OSError):
            times.append((store / name).stat().st_mtime)
    return max(times)


async def superfluous(store: Path, workspace: Path, environ: Mapping[str, str], keep: Collection[str]) -> list[str]:
    """The snapshots of a store that are not to be kept, by id. Raises WorkspaceError."""
    listed = await Git(store, workspace, environ).ask("for-each-ref", "--format=%(refname)", _REFS)
    return [name for line in listed.decode().split() if (name := line.removeprefix(_REFS)) not in keep]


def shrink(
    store: Path, workspace: Path, environ: Mapping[str, str], kept: Callable[[], Collection[str]], since: float
) -> int:
    """Drop every snapshot that is not `kept`, and what belongs to it alone; gives how many.

    `kept` is asked when no run can work there any more. What was put aside later than `since` (seconds since 1970) stays.
    Raises WorkspaceError, above all where a run works there.
    """
    with _claimed(store, workspace):
        return asyncio.run(_shrink(Git(store, workspace, environ), {*kept(), *_aside(store, since)}, environ))


def remove_store(store: Path, workspace: Path, is_needed: Callable[[], bool]) -> bool:
    """Remove a store, unless it is needed after all: that is asked when no run can work there any more; says whether.

    Raises WorkspaceError where a run works there, or it cannot be removed.
    """
    with _claimed(store, workspace):
        if is_needed():
            return False
        try:
            remove_whole(store)
        except OSError as error:
            raise WorkspaceError(f"{store} cannot be removed: {error.strerror}", "see who owns it") from error
    return True


@contextlib.contextmanager
def _claimed(store: Path, workspace: Path) -> Iterator[None]:
    try:
        claim = Claim(workspace if workspace != store and workspace.is_dir() else None, store / "lock")
    except OSError as error:
        raise WorkspaceError(f"{store} cannot be locked: {error.strerror}", "see who owns it") from error
    try:
        yield
    finally:
        claim.close()


async def _shrink(git: Git, keep: Collection[str], environ: Mapping[str, str]) -> int:
    dropped = await superfluous(git.store, git.workspace, environ, keep)
    if dropped:
        orders = "".join(f"delete {_REFS}{name}\n" for name in dropped)
        await git.ask("update-ref", "--stdin", stdin=orders.encode())
        await git.ask("gc", "--prune=now", "--quiet")
    return len(dropped)


def _aside(store: Path, since: float) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for line in (store / _PUT_ASIDE).read_text().splitlines():
            when, _, identifier = line.partition(" ")
            if when.isdecimal() and float(when) >= since:
                yield identifier
