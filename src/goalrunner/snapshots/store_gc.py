"""Shrinking or removing snapshot stores that no run needs."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from goalrunner.core.errors import WorkspaceError
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.repositories import Claim

_ASIDE = re.compile(r"\..+-[0-9a-f]{8}")


def remove_whole(path: Path) -> None:
    """Remove a folder: away under its name at once, then piece by piece. Raises OSError."""
    with _held(path):
        aside = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
        path.rename(aside)
        shutil.rmtree(aside)


def unfinished(folder: Path) -> list[Path]:
    """What removals that were killed left in a folder; not what somebody removes now, and nothing of another name."""
    return sorted(path for path in _removal_aside(folder) if not _is_removed_now(path))


def finish(folder: Path) -> int:
    """Remove what killed removals left; gives how many. Never raises: what cannot be removed stays for another time."""
    done = 0
    for path in unfinished(folder):
        with contextlib.suppress(OSError), _held(path):
            shutil.rmtree(path)
            done += 1
    return done


def _removal_aside(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _ASIDE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                yield path


def _is_removed_now(path: Path) -> bool:
    try:
        with _held(path):
            return False
    except OSError:
        return True


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """The lock on a folder. Raises OSError where another process has it."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


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
