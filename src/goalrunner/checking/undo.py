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
from collections.abc import Iterator
from pathlib import Path

from goalrunner.checking import journal as journals
from goalrunner.checking.environment import copy_into, lstat, make_parents
from goalrunner.checking.git_files import keep_objects
from goalrunner.checking.journal import Journal, Move
from goalrunner.core.errors import GoalError
from goalrunner.core.observation import Snapshot
from goalrunner.records.files import remove, sync_folder, write_whole
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system import processes
from goalrunner.system.processes import end_helper, end_orphans, start_helper


async def undo(journal: Journal, store: SnapshotStore) -> Undo:
    """Undo a check whose processes have ended. The steps that fail are named; all others are done nevertheless.

    Interrupted at any point and repeated, it ends in the same state.
    """
    work = Undo(journal, store)
    await asyncio.to_thread(work.put_back)
    with work.step("reset") as needed:
        if needed:
            await work.reset()
    if not work.problems:
        await asyncio.to_thread(work.remove_journal)
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

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[bool]:
        """Give whether a step is needed, and record that it is done, or why it failed."""
        needed = not self._journal.is_done(name)
        try:
            yield needed
        except (GoalError, OSError) as error:
            reason = error.message if isinstance(error, GoalError) else error
            self.problems.append(f"{name}: {reason}")
        else:
            if needed:
                self._journal.set_done(name)

    def put_back(self) -> None:
        """Put back what was set aside; the check may have closed folders of the start."""
        for path, mode in sorted(self._journal.modes.items()):
            place = os.path.join(self._workspace, path)
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(mode) and stat.S_ISDIR(now := os.lstat(place).st_mode) and now != mode:
                    os.chmod(place, stat.S_IMODE(mode) | stat.S_IRWXU)
        for move in self._journal.moves:
            with self.step(move.path) as needed:
                if needed and not _move_back(move):
                    self.lost.append(f"{move.path}: the check removed {os.path.dirname(move.aside)}")

    async def reset(self) -> None:
        """Reset what no rule ignores to the snapshot, modes and folders included. The store keeps the state before."""
        journal, store = self._journal, self._store
        snapshot = Snapshot(**journal.snapshot)
        skip = {*await store.ignored_names(), *journal.own}
        await asyncio.to_thread(journals.modes_of, journal.workspace, skip, enter=True)
        before = await store.snapshot()
        if before.tree != snapshot.tree:
            self.kept = before
            await store.restore(snapshot)
        skip = {*await store.ignored_names(), *journal.own}
        await asyncio.to_thread(self._reset_modes, skip)
        await asyncio.to_thread(self._put_outputs_back)

    def _reset_modes(self, skip: set[str]) -> None:
        """Remove new folders that are empty, keep new git folders elsewhere, and restore modes."""
        recorded = self._journal.modes
        now = journals.modes_of(self._workspace, skip)
        for path in sorted(now.keys() - recorded.keys(), reverse=True):  # what is in a folder before the folder
            place, mode = os.path.join(self._workspace, path), now[path]
            if os.path.basename(path) == ".git":
                target = journals.checks_folder(Path(self._journal.home)) / "kept" / os.path.relpath(place, "/")
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with contextlib.suppress(OSError):  # on another file system: it stays
                    remove(target)
                    os.rename(place, target)
            elif stat.S_ISDIR(mode):
                with contextlib.suppress(OSError):  # ignored files are in it
                    os.rmdir(place)
            else:
                os.chmod(place, 0o755 if mode & stat.S_IXUSR else 0o644)
        for path, mode in sorted(recorded.items()):
            place = os.path.join(self._workspace, path)
            if stat.S_ISDIR(mode) and not os.path.lexists(place):
                os.mkdir(place)
        for path, mode in sorted(recorded.items(), reverse=True):
            place = os.path.join(self._workspace, path)
            info = lstat(place)
            if info and info.st_mode != mode and stat.S_IFMT(info.st_mode) == stat.S_IFMT(mode):
                os.chmod(place, stat.S_IMODE(mode))

    def _put_outputs_back(self) -> None:
        """Copy the outputs that were collected over what the reset has restored in their place."""
        outputs = self._journal.outputs
        for path in sorted(outputs.rglob("*")):
            if path.is_file() and not path.name.startswith(".goal-"):  # left by a process that was killed
                copy_into(outputs, Path(self._workspace), str(path.relative_to(outputs)))

    def remove_journal(self) -> None:
        """Remove the journal, then the folders in which live files waited."""
        journal = self._journal
        for folder in {os.path.dirname(move.path) for move in journal.moves}:
            with contextlib.suppress(OSError):  # not every file system can
                sync_folder(Path(folder))
        Path(journal.folder, journals.NAME).unlink(missing_ok=True)
        hidden = [place for place in journal.own if os.path.basename(place).startswith(journals.HIDDEN)]
        for folder in (journal.folder, *(os.path.join(self._workspace, place) for place in hidden)):
            shutil.rmtree(folder, ignore_errors=True)


def _move_back(move: Move) -> bool:
    """Put a live path back in place of its replacement; return False if the live one is missing. Raise OSError."""
    waiting, now = lstat(move.aside), lstat(move.path)
    if move.inode and not waiting:
        # Never set aside, or back already. Otherwise the reset to the snapshot restores what no rule ignores.
        return now is not None and now.st_ino == move.inode
    if move.copy and waiting:
        keep_objects(move.path, move.aside)
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
            self._process, self._sink = start_helper(_SCRIPT, undoing, log=log.fileno(), keep_open=[handle])

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
        with contextlib.suppress(FileNotFoundError):  # its watchdog has undone it meanwhile
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
            return [f"A check is running in {journal.workspace} (process {journal.pid})."]
        time.sleep(0.05)
    try:
        return _undone(journals.read(folder))
    finally:
        os.close(handle)


def _undone(journal: Journal) -> list[str]:
    """End the remaining processes of the check and git of its runner, then undo; return lines for the user."""
    end_orphans(os.path.basename(journal.folder))
    store = SnapshotStore(Path(journal.workspace), Path(journal.home), start=Path(journal.start))
    try:
        _end_git(store.folder)
        undone = asyncio.run(undo(journal, store))
    finally:
        store.close()
    what = f"An interrupted check in {journal.workspace}"
    if undone.problems:
        return [f"{what} is not undone: {'; '.join(undone.problems)}. See {journal.folder}."]
    lines = [f"{what} was undone."]
    if undone.lost:
        lines.append(f"Removed by the check and not restored: {'; '.join(undone.lost)}.")
    if undone.kept:
        lines.append(f"Files in {journal.workspace} were reset; the state before is snapshot {undone.kept.id[:12]}.")
    return lines


def _end_git(store: Path) -> None:
    """End the git processes of a snapshot store: one of the runner that was killed may still write into the workspace."""
    deadline = time.monotonic() + _PATIENCE
    argument = f"\0--git-dir={store}\0"
    while time.monotonic() < deadline:
        pids = [pid for pid, line in processes.command_lines() if argument in f"\0{line}\0" and pid != os.getpid()]
        if not pids:
            return
        for pid in pids:
            processes.send_signal(pid, signal.SIGKILL)
        time.sleep(0.01)


if __name__ == "__main__":
    interrupted = journals.read(Path(sys.argv[1]))
    done = _undone(interrupted)
    if not Path(interrupted.folder, journals.NAME).exists():  # else the next command tries again
        write_whole(Path(f"{interrupted.folder}{_REPORT}"), json.dumps([interrupted.workspace, *done]).encode())
