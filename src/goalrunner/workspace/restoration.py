"""Putting files of a checkout back as they were. Owns writing and removing there; follows no link, decides nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goalrunner.errors import WorkspaceError
from goalrunner.workspace.entry import Entry
from goalrunner.workspace.names import raw
from goalrunner.workspace.protection import EXECUTABLE, LINK, Touched

PATIENCE = 5.0
"""Seconds for those who still write into a folder that is to go."""


async def restore(
    folder: Path,
    found: Sequence[Touched],
    base: Mapping[str, Entry],
    read: Callable[[str], Awaitable[bytes | None]],
) -> None:
    """Changed paths restored, deleted ones back, planted ones gone. Raises WorkspaceError when one cannot be."""
    await asyncio.to_thread(drop, folder, [entry.path for entry in found])
    for entry in found:
        if entry.path not in base:
            continue
        data = await read(entry.path) if base[entry.path].stored else None
        if data is None:
            raise WorkspaceError(
                f"{entry.path} was {entry.kind} and cannot be put back: the snapshot at the start does not hold it",
                f"put it back by hand, or write {entry.lift}" if entry.lift else "put it back by hand",
            )
        await asyncio.to_thread(_write, folder, entry.path, base[entry.path].mode, data)


def drop(folder: Path, paths: Iterable[str]) -> None:
    """Remove files, links and whole folders, and what is empty without them."""
    for path in sorted(paths):
        here = on_disk(folder, path)
        if _reaches(folder, path) and os.path.lexists(here):
            remove(here)
            _prune(folder, here.parent)


def on_disk(folder: Path, path: str) -> Path:
    """Where a path of a snapshot stands on the disk."""
    return folder / os.fsdecode(raw(path))


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, also one that was made read-only; nothing there is fine."""
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
    """Make room at `path` whatever stands there, also while somebody still writes into it: moved aside, then removed.

    Raises OSError where it cannot even be moved. What cannot be removed for long is left there, under another name.
    """
    if not os.path.lexists(path):
        return
    aside = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
    path.rename(aside)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            remove(aside)
            return
        except OSError:  # a process that is being ended wrote once more
            if time.monotonic() > deadline:
                return
        time.sleep(0.05)


def _reaches(folder: Path, path: str) -> bool:
    """Whether every folder on the way is a real one; behind a link or a file, nothing of ours stands."""
    here = folder
    for name in on_disk(Path(), path).parts[:-1]:
        here /= name
        if here.is_symlink() or not here.is_dir():
            return False
    return True


def _prune(folder: Path, here: Path) -> None:
    while here != folder:
        try:
            here.rmdir()
        except OSError:
            return
        here = here.parent


def _write(folder: Path, path: str, mode: str, data: bytes) -> None:
    here = folder
    for name in on_disk(Path(), path).parts[:-1]:
        here /= name
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            here.unlink()
        here.mkdir(exist_ok=True)
    target = on_disk(folder, path)
    remove(target)
    if mode == LINK:
        target.symlink_to(os.fsdecode(data))
        return
    bits = 0o755 if mode == EXECUTABLE else 0o644
    sink = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, bits)
    with os.fdopen(sink, "wb") as file:
        file.write(data)
