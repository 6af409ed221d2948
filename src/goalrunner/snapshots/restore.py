"""Writing the files of snapshots, removing files and folders, and shrinking and removing snapshot stores."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from goalrunner.core.errors import WorkspaceError, os_errors
from goalrunner.core.observation import Snapshot
from goalrunner.snapshots.diff import SnapshotReader
from goalrunner.snapshots.files import Sorter, content_hash, set_aside
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.objects import REFS, Claim, Entry, kept_ids, raw


class Placing:
    """Writes the files of snapshots."""

    def __init__(self, reader: SnapshotReader, sorter: Sorter) -> None:
        self._git = reader.git
        self._reading = reader
        self._sorter = sorter

    async def checkout(self, snapshot: Snapshot, folder: Path) -> None:
        """Write a snapshot into an empty folder. Raise WorkspaceError."""
        with os_errors(f"cannot write a snapshot into {folder}", "", WorkspaceError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise WorkspaceError(f"{folder} is not empty")
            await self._with_new_index(
                folder, "-c", "checkout.workers=0", "read-tree", "--reset", "-u", f"{snapshot.tree}:content"
            )
            unstored = await self._reading.unstored(snapshot)
            missing = await asyncio.to_thread(
                lambda: [path for path, entry in sorted(unstored.items()) if not self._copied(path, entry, folder)]
            )
        if missing:
            raise WorkspaceError(
                f"not kept in the snapshot, and no longer the same in the workspace: {', '.join(missing)}",
                "add what is large or unreadable to .gitignore",
            )

    async def restore(self, before: Snapshot, snapshot: Snapshot) -> None:
        """Restore all watched files from `snapshot`; `before` is their current state. Raise WorkspaceError."""
        now, wanted = await self._reading.unstored(before), await self._reading.unstored(snapshot)
        extra = [path for path in now if path not in wanted and not path.endswith("/")]
        await asyncio.to_thread(self._remove, extra)
        workspace = self._git.workspace
        await self._git.ask("read-tree", "--reset", "-u", f"{snapshot.tree}:content", tree=workspace)

    async def restore_paths(self, before: Snapshot, snapshot: Snapshot, paths: Collection[str]) -> None:
        """Restore these files from `snapshot`; `before` is their current state. Raise WorkspaceError."""
        wanted, there = await self._reading.entries(snapshot), await self._reading.entries(before)
        await asyncio.to_thread(self._remove, [path for path in paths if path in there and path not in wanted])
        if found := [raw(path) + b"\0" for path in paths if path in wanted]:
            arguments = ("checkout", f"{snapshot.tree}:content", "--pathspec-from-file=-", "--pathspec-file-nul")
            await self._with_new_index(self._git.workspace, *arguments, stdin=b"".join(found))

    async def _with_new_index(self, tree: Path, *arguments: str, stdin: bytes = b"") -> None:
        with tempfile.TemporaryDirectory(prefix="tmp_", dir=self._git.store) as scratch:
            await self._git.ask(*arguments, stdin=stdin, tree=tree, index=Path(scratch, "index"))

    def _remove(self, paths: list[str]) -> None:
        for path in map(raw, paths):
            place = os.path.join(os.fsencode(self._git.workspace), path)
            if self._sorter.is_folder(os.path.dirname(path)) and os.path.lexists(place):
                os.unlink(place)

    def _copied(self, name: str, entry: Entry, folder: Path) -> bool:
        """Copy a file without kept content from the workspace; return False if it changed there or cannot be read."""
        path = raw(name)
        source = os.path.join(os.fsencode(self._git.workspace), path)
        target = os.path.join(os.fsencode(folder), path)
        try:
            if not entry.blob or not self._sorter.is_folder(os.path.dirname(path)):
                return False
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
            if not os.path.islink(target):
                os.chmod(target, 0o755 if entry.mode == "100755" else 0o644)
            return content_hash(target, os.lstat(target).st_mode).hex() == entry.blob
        except (OSError, shutil.Error):
            return False


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
