"""Undoes an in-place check from its journal: in the runner, in its watchdog process, or in a later command.

The watchdog is a shell that reads a pipe which only the runner can write to. If the pipe closes without the last line,
the shell becomes `python -P -m goalrunner.checking.undo FOLDER`.
"""

# Paths are strings here, as in the journal.

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import stat
import sys
import time
from pathlib import Path

from goalrunner.checking import journal as journals
from goalrunner.checking.environment import is_below, lstat, make_parents
from goalrunner.checking.journal import Journal, Move
from goalrunner.core.errors import GoalError
from goalrunner.core.observation import Snapshot
from goalrunner.records.files import remove, sync_folder, write_whole
from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.objects import raw
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system import processes
from goalrunner.system.processes import end_helper, end_orphans, start_helper


async def undo(journal: Journal, store: SnapshotStore) -> Undo:
    """Undo a check whose processes have ended. The steps that fail are named; all others are done nevertheless.

    Interrupted at any point and repeated, it ends in the same state. Files that the check made stay.
    """
    work = Undo(journal, store)
    await asyncio.to_thread(work.put_back)
    try:
        if journal.snapshot:
            await work.restore()
            journal.snapshot = {}
    except (GoalError, OSError) as error:
        work.problems.append(
            error.message if isinstance(error, GoalError) else str(error)
        )
    await asyncio.to_thread(work.finish)
    return work


class Undo:
    """The undo of one check."""

    def __init__(self, journal: Journal, store: SnapshotStore) -> None:
        self._journal = journal
        self._workspace = journal.workspace
        self._store = store
        self.kept: Snapshot | None = None
        """The state before the reset; None if there was nothing to reset."""
        self.problems: list[str] = []
        """What could not be undone this time, in words; the journal stays."""
        self.lost: list[str] = []
        """What was set aside and removed by the check. A snapshot may contain it."""

    def put_back(self) -> None:
        """Put back what was set aside; the check may have closed folders of the start."""
        for path, mode in sorted(self._journal.modes.items()):
            place = os.path.join(self._workspace, path)
            with contextlib.suppress(OSError):
                if (
                    stat.S_ISDIR(mode)
                    and stat.S_ISDIR(now := os.lstat(place).st_mode)
                    and now != mode
                ):
                    os.chmod(place, stat.S_IMODE(mode) | stat.S_IRWXU)
        waiting, left = self._journal.waiting, []
        for move in self._journal.moves:
            try:
                is_replaced = (
                    os.path.relpath(move.path, self._workspace) in self._journal.made
                )
                if is_replaced and os.path.lexists(move.path):
                    remove(Path(move.aside))
                elif not _move_back(move):
                    self.lost.append(
                        f"{move.path}: the check removed {os.path.dirname(move.aside)}"
                    )
            except OSError as error:
                self.problems.append(f"{move.path}: {error.strerror}")
                left.append(move)
        for folder in {os.path.dirname(move.path) for move in self._journal.moves}:
            with contextlib.suppress(OSError):  # not every file system can
                sync_folder(Path(folder))
        self._journal.moves = left
        for folder in waiting if not left else ():
            if os.path.basename(folder) == ".git":
                shutil.rmtree(os.path.dirname(folder), ignore_errors=True)

    async def restore(self) -> None:
        """Restore what existed and what no rule ignores, modes included. The store keeps the state before."""
        journal, store = self._journal, self._store
        skip = {*await store.ignored_names(), *journal.own}
        modes = await asyncio.to_thread(
            journals.modes_of, journal.workspace, skip, enter=True
        )
        snapshot, before = Snapshot(**journal.snapshot), await store.snapshot()
        outputs = Patterns(journal.outputs)
        changes = await store.all_changes(snapshot, before)
        existed = [
            item.path
            for item in changes
            if item.kind in ("modified", "deleted") and not outputs.match(item.path)
        ]
        if damaged := [
            path
            for path in existed
            if not is_below(os.fsdecode(raw(path)), journal.made)
        ]:
            self.kept = before
            await store.restore(snapshot, damaged)
        new = {os.fsdecode(raw(item.path)) for item in changes if item.kind == "added"}
        usual = {
            path: _usual(mode)
            for path, mode in modes.items()
            if stat.S_ISREG(mode) and path not in new
        }
        await asyncio.to_thread(self._restore_modes, usual)

    def _restore_modes(self, usual: dict[str, int]) -> None:
        """Restore modes and empty folders. `usual` are the modes of files that had usual permissions."""
        recorded = (usual | self._journal.modes).items()
        for path, mode in sorted(recorded):
            place = os.path.join(self._workspace, path)
            if stat.S_ISDIR(mode) and not os.path.lexists(place):
                with contextlib.suppress(
                    NotADirectoryError
                ):  # a file of the check stands above it
                    os.mkdir(place)
        for path, mode in sorted(
            recorded, reverse=True
        ):  # what is in a folder before the folder
            place = os.path.join(self._workspace, path)
            info = lstat(place)
            if (
                info
                and info.st_mode != mode
                and stat.S_IFMT(info.st_mode) == stat.S_IFMT(mode)
            ):
                os.chmod(place, stat.S_IMODE(mode))

    def finish(self) -> None:
        """Remove the journal, or record what is left to do."""
        journal = self._journal
        if self.problems:
            with contextlib.suppress(OSError):  # the check may have removed its folder
                journal.write()
            return
        Path(journal.folder, journals.NAME).unlink(missing_ok=True)
        shutil.rmtree(journal.folder, ignore_errors=True)


def _usual(mode: int) -> int:
    return stat.S_IFREG | (0o755 if mode & stat.S_IXUSR else 0o644)


def _move_back(move: Move) -> bool:
    """Put a live path back in place of its replacement; return False if the live one is missing. Raise OSError."""
    waiting, now = lstat(move.aside), lstat(move.path)
    if move.inode and not waiting:
        # Never set aside, or back already. Otherwise the reset to the snapshot restores what no rule ignores.
        return now is not None and now.st_ino == move.inode
    make_parents(move.root, move.path)
    remove(Path(move.path))
    if waiting:
        os.rename(move.aside, move.path)
    return True


_SCRIPT = """\
trap '' HUP INT QUIT TERM PIPE
read -r line
[ "$line" = done ] && exit 0
exec "$@"
"""
_REPORT = ".undone"
"""Suffix of the file with the lines of a watchdog that has undone a check; the next command shows them."""
_PATIENCE = 15.0
"""Seconds in which git of the runner must have ended."""


class UndoWatchdog:
    """The process that undoes a check if this process is killed. It also holds the lock of the journal, `handle`."""

    def __init__(self, folder: Path, handle: int) -> None:
        undoing = [sys.executable, "-P", "-m", __name__, str(folder)]
        with (folder / "watchdog.log").open("wb") as log:
            self._process, self._sink = start_helper(
                _SCRIPT, undoing, log=log.fileno(), keep_open=[handle]
            )

    def close(self) -> None:
        """End the process: the check is undone, or its undo has failed here and would fail there.

        Closing twice does nothing.
        """
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.write(self._sink, b"done\n")
            end_helper(self._process, self._sink)


def replay(workspace: Path, home: Path, *, patience: float = 30.0) -> tuple[str, ...]:
    """Undo the checks of runners that are gone in a workspace; return lines about each, and those of watchdogs.

    Wait up to `patience` seconds for a watchdog that is at work. Never act while the runner lives.
    """
    messages: list[str] = []
    for journal in journals.found(home.resolve(), str(workspace.resolve())):
        with contextlib.suppress(
            FileNotFoundError
        ):  # its watchdog has undone it meanwhile
            messages += _replayed(journal, time.monotonic() + patience)
    for report in sorted(journals.checks_folder(home).glob(f"*{_REPORT}")):
        with contextlib.suppress(OSError):  # another command shows it
            about, *lines = json.loads(report.read_bytes())
            if about == str(workspace.resolve()):
                report.unlink()
                messages += lines
    return tuple(messages)


def _replayed(journal: Journal, deadline: float) -> list[str]:
    folder = Path(journal.folder)
    while (handle := journals.lock(folder)) is None:
        if processes.entry(journal.pid) or time.monotonic() > deadline:
            return [
                f"A check is running in {journal.workspace} (process {journal.pid})."
            ]
        time.sleep(0.05)
    try:
        return _undone(journals.read(folder))
    finally:
        os.close(handle)


def _undone(journal: Journal) -> list[str]:
    """End the remaining processes of the check and git of its runner, then undo; return lines for the user."""
    end_orphans(os.path.basename(journal.folder))
    store = SnapshotStore(
        Path(journal.workspace), Path(journal.home), start=Path(journal.start)
    )
    try:
        _end_git(store.folder)
        undone = asyncio.run(undo(journal, store))
    finally:
        store.close()
    what = f"An interrupted check in {journal.workspace}"
    if undone.problems:
        return [
            f"{what} is not undone: {'; '.join(undone.problems)}. See {journal.folder}."
        ]
    lines = [f"{what} was undone."]
    if undone.lost:
        lines.append(
            f"Removed by the check and not restored: {'; '.join(undone.lost)}."
        )
    if undone.kept:
        lines.append(
            f"Files in {journal.workspace} were reset; the state before is snapshot {undone.kept.id[:12]}."
        )
    return lines


def _end_git(store: Path) -> None:
    """End the git processes of a snapshot store: one of the runner that was killed may still write into the workspace."""
    deadline = time.monotonic() + _PATIENCE
    argument = f"\0--git-dir={store}\0"
    while time.monotonic() < deadline:
        pids = [
            pid
            for pid, line in processes.command_lines()
            if argument in f"\0{line}\0" and pid != os.getpid()
        ]
        if not pids:
            return
        for pid in pids:
            processes.send_signal(pid, signal.SIGKILL)
        time.sleep(0.01)


if __name__ == "__main__":
    interrupted = journals.read(Path(sys.argv[1]))
    done = _undone(interrupted)
    if not Path(
        interrupted.folder, journals.NAME
    ).exists():  # else the next command tries again
        write_whole(
            Path(f"{interrupted.folder}{_REPORT}"),
            json.dumps([interrupted.workspace, *done]).encode(),
        )
