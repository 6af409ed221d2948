"""Removing folders as a whole, and shrinking and removing snapshot stores."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from goalrunner.core.errors import WorkspaceError, os_errors
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.objects import REFS, Claim, kept_ids


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, also one that is read-only; do nothing if the path does not exist."""
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return

    def writable(function: Callable[[str], Any], name: str, _: object) -> None:
        for there in (os.path.dirname(name), name):
            if not os.path.islink(there):
                os.chmod(there, stat.S_IRWXU)
        if function in (os.scandir, os.open):  # a folder that could not be listed
            shutil.rmtree(name, ignore_errors=True)
        else:
            function(name)

    shutil.rmtree(path, onerror=writable)


def clear(path: Path) -> None:
    """Rename `path`, if it exists, and remove it. Raise OSError if it cannot be renamed.

    What cannot be removed, as a process still writes into it, stays under the other name.
    """
    if os.path.lexists(path):
        aside = set_aside(path)
        with contextlib.suppress(OSError):
            remove(aside)


def set_aside(path: Path) -> Path:
    """Rename a path to a hidden name beside it, which `unfinished` finds; return that. Raise OSError."""
    aside = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
    path.rename(aside)
    return aside


def remove_whole(path: Path) -> None:
    shutil.rmtree(set_aside(path))


def unfinished(folder: Path) -> list[Path]:
    """Return what interrupted removals left in a folder."""
    found = folder.iterdir() if folder.is_dir() else ()
    name = re.compile(r"\..+-[0-9a-f]{8}")
    return sorted(path for path in found if name.fullmatch(path.name) and path.is_dir() and not path.is_symlink())


def finish(folder: Path) -> int:
    """Remove what interrupted removals left; return how many. What cannot be removed stays."""
    found = unfinished(folder)
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return sum(not path.exists() for path in found)


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


def shrink(
    store: Path, workspace: Path, environ: Mapping[str, str], kept: Callable[[], Collection[str]], since: float
) -> int:
    """Remove every snapshot that is not `kept`, and its objects; return how many.

    `kept` is called while the workspace is locked. Snapshots taken before a restore later than `since` (seconds since
    1970) stay. Raise WorkspaceError, above all if a run works there.
    """
    with _claimed(store, workspace):
        keep = {*kept()}
        with contextlib.suppress(OSError):
            for line in (store / _PUT_ASIDE).read_text().splitlines():
                when, _, identifier = line.partition(" ")
                keep |= {identifier} if when.isdecimal() and float(when) >= since else set()
        return asyncio.run(_shrink(Git(store, workspace, environ), keep))


async def _shrink(git: Git, keep: Collection[str]) -> int:
    dropped = [name for name in await kept_ids(git) if name not in keep]
    if dropped:
        orders = "".join(f"delete {REFS}{name}\n" for name in dropped)
        await git.ask("update-ref", "--stdin", stdin=orders.encode())
        await git.ask("gc", "--prune=now", "--quiet")
    return len(dropped)


_OWNER = "check its owner and permissions"


def remove_store(store: Path, workspace: Path, is_needed: Callable[[], bool]) -> bool:
    """Remove a store unless `is_needed`, which is called while the workspace is locked; return whether it was removed.

    Raise WorkspaceError if a run works there, or the store cannot be removed.
    """
    with _claimed(store, workspace):
        if is_needed():
            return False
        with os_errors(f"{store} cannot be removed", _OWNER, WorkspaceError):
            remove_whole(store)
    return True


@contextlib.contextmanager
def _claimed(store: Path, workspace: Path) -> Iterator[None]:
    with os_errors(f"{store} cannot be locked", _OWNER, WorkspaceError):
        claim = Claim(workspace if workspace != store and workspace.is_dir() else None, store / "lock")
    with contextlib.closing(claim):
        yield
