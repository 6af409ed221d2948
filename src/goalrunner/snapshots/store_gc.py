"""Shrinking and removing snapshot stores."""

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
    """Rename a folder, then remove it. Raise OSError."""
    with _held(path):
        aside = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
        path.rename(aside)
        shutil.rmtree(aside)


def unfinished(folder: Path) -> list[Path]:
    """Return what interrupted removals left in a folder, without removals that are running."""
    return sorted(path for path in _removal_aside(folder) if not _is_removed_now(path))


def finish(folder: Path) -> int:
    """Remove what interrupted removals left; return how many. What cannot be removed stays."""
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
    """Hold the lock on a folder. Raise OSError if another process has it."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


_REFS = "refs/snapshots/"
_PUT_ASIDE = "restored"
"""A file in the store with the time (seconds since 1970) and id of each snapshot taken before a restore."""


def put_aside(store: Path, identifier: str) -> None:
    """Note a snapshot taken before a restore, which no log names. Raise OSError."""
    with open(os.open(store / _PUT_ASIDE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
        file.write(f"{int(time.time())} {identifier}\n")


def last_used(store: Path) -> float:
    """Return when a store was last used, in seconds since 1970; 0 if it cannot be read."""
    times = [0.0]
    for name in ("lock", "index", "refs/snapshots", _PUT_ASIDE):
        with contextlib.suppress(OSError):
            times.append((store / name).stat().st_mtime)
    return max(times)


async def superfluous(store: Path, workspace: Path, environ: Mapping[str, str], keep: Collection[str]) -> list[str]:
    """Return the ids of snapshots that are not to be kept. Raise WorkspaceError."""
    listed = await Git(store, workspace, environ).ask("for-each-ref", "--format=%(refname)", _REFS)
    return [name for line in listed.decode().split() if (name := line.removeprefix(_REFS)) not in keep]


def shrink(
    store: Path, workspace: Path, environ: Mapping[str, str], kept: Callable[[], Collection[str]], since: float
) -> int:
    """Remove every snapshot that is not `kept`, and its objects; return how many.

    `kept` is called while the workspace is locked. Snapshots taken before a restore later than `since` (seconds since
    1970) stay. Raise WorkspaceError, above all if a run works there.
    """
    with _claimed(store, workspace):
        return asyncio.run(_shrink(Git(store, workspace, environ), {*kept(), *_aside(store, since)}, environ))


def remove_store(store: Path, workspace: Path, is_needed: Callable[[], bool]) -> bool:
    """Remove a store unless `is_needed`, which is called while the workspace is locked; return whether it was removed.

    Raise WorkspaceError if a run works there, or the store cannot be removed.
    """
    with _claimed(store, workspace):
        if is_needed():
            return False
        try:
            remove_whole(store)
        except OSError as error:
            raise WorkspaceError(
                f"{store} cannot be removed: {error.strerror}", "check its owner and permissions"
            ) from error
    return True


@contextlib.contextmanager
def _claimed(store: Path, workspace: Path) -> Iterator[None]:
    try:
        claim = Claim(workspace if workspace != store and workspace.is_dir() else None, store / "lock")
    except OSError as error:
        raise WorkspaceError(
            f"{store} cannot be locked: {error.strerror}", "check its owner and permissions"
        ) from error
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
