"""Undoes an in-place check from its journal.

The runner does it, or its watchdog process, or a later command. The watchdog is a shell
that reads a pipe which only the runner can write to. If the pipe closes without the
last line, the shell becomes `python -P -m goalrunner.checking.undo FOLDER`.
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
from goalrunner.records.files import sync_folder, write_whole
from goalrunner.records.removal import remove
from goalrunner.snapshots.paths import raw
from goalrunner.snapshots.patterns import Patterns
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.snapshots.store_folder import store_of
from goalrunner.system import processes
from goalrunner.system.watchdog import end_helper, end_orphans, start_helper


async def undo(journal: Journal, store: SnapshotStore) -> Undo:
    """Undo a check whose processes have ended.

    The steps that fail are in `problems` of the result; all others are done. If it is
    interrupted at any point and repeated, it ends in the same state. Files that the
    check made stay.
    """
    work = Undo(journal, store)
    await asyncio.to_thread(work.put_back)
    try:
        if journal.snapshot:
            await work.restore()
            # An undo that is repeated must not reset newer work.
            journal.snapshot = {}
    except GoalError as error:
        work.problems.append(error.message)
    except OSError as error:
        work.problems.append(str(error))
    await asyncio.to_thread(work.finish)
    return work


class Undo:
    """The undo of one check."""

    def __init__(self, journal: Journal, store: SnapshotStore) -> None:
        self._journal = journal
        self._workspace = journal.workspace
        self._store = store
        self.before_reset: Snapshot | None = None
        """The state before the reset; None if there was nothing to reset."""
        self.problems: list[str] = []
        """What could not be undone this time, in words; the journal stays."""
        self.lost: list[str] = []
        """What was set aside and removed by the check. A snapshot may contain it."""

    def put_back(self) -> None:
        """Put back what was set aside."""
        self._open_folders()
        # The paths change with the moves below.
        waiting_folders = self._journal.waiting
        replaced_folders = {os.path.dirname(move.path) for move in self._journal.moves}
        failed_moves: list[Move] = []
        for move in self._journal.moves:
            try:
                self._put_back(move)
            except OSError as error:
                self.problems.append(f"{move.path}: {error.strerror}")
                failed_moves.append(move)
        for folder in replaced_folders:
            # Some file systems cannot flush a folder.
            with contextlib.suppress(OSError):
                sync_folder(Path(folder))
        self._journal.moves = failed_moves
        if failed_moves:
            return
        for folder in waiting_folders:
            parent, name = os.path.split(folder)
            if name == ".git":
                shutil.rmtree(parent, ignore_errors=True)

    def _open_folders(self) -> None:
        """Let the user write into folders that the check may have closed."""
        for path, mode in sorted(self._journal.modes.items()):
            if not stat.S_ISDIR(mode):
                continue
            place = os.path.join(self._workspace, path)
            with contextlib.suppress(OSError):
                current = os.lstat(place).st_mode
                if stat.S_ISDIR(current) and current != mode:
                    os.chmod(place, stat.S_IMODE(mode) | stat.S_IRWXU)

    def _put_back(self, move: Move) -> None:
        """Put one path back. Raise OSError."""
        path = os.path.relpath(move.path, self._workspace)
        if path in self._journal.made and os.path.lexists(move.path):
            # An earlier check made it, and this one made it again.
            remove(Path(move.aside))
        elif not _move_back(move):
            folder = os.path.dirname(move.aside)
            self.lost.append(f"{move.path}: the check removed {folder}")

    async def restore(self) -> None:
        """Restore what existed and what no rule ignores, modes included.

        The store has the state before.
        """
        journal, store = self._journal, self._store
        skip = {*await store.ignored_names(), *journal.program_folders}
        modes = await asyncio.to_thread(
            journals.modes_of,
            journal.workspace,
            skip,
            enter=True,
        )
        snapshot = Snapshot(**journal.snapshot)
        before_reset = await store.snapshot()
        outputs = Patterns(journal.outputs)
        new: set[str] = set()
        damaged: list[str] = []
        for change in await store.all_changes(snapshot, before_reset):
            path = os.fsdecode(raw(change.path))
            if change.kind == "added":
                new.add(path)
            if change.kind not in ("modified", "deleted"):
                continue
            if not outputs.match(change.path) and not is_below(path, journal.made):
                damaged.append(change.path)
        if damaged:
            self.before_reset = before_reset
            await store.restore(snapshot, damaged)
        # The journal has unusual modes alone, so all other files had a usual one.
        usual_modes = {
            path: _usual(mode)
            for path, mode in modes.items()
            if stat.S_ISREG(mode) and path not in new
        }
        await asyncio.to_thread(self._restore_modes, usual_modes)

    def _restore_modes(self, usual_modes: dict[str, int]) -> None:
        """Restore empty folders, and modes; `usual_modes` are those of other files."""
        modes = sorted((usual_modes | self._journal.modes).items())
        for path, mode in modes:
            place = os.path.join(self._workspace, path)
            if stat.S_ISDIR(mode) and not os.path.lexists(place):
                # A file of the check may be in the place of a folder above it.
                with contextlib.suppress(NotADirectoryError):
                    os.mkdir(place)
        # What is in a folder comes before the folder, which may be closed.
        for path, mode in reversed(modes):
            place = os.path.join(self._workspace, path)
            info = lstat(place)
            if info is None or info.st_mode == mode:
                continue
            if stat.S_IFMT(info.st_mode) == stat.S_IFMT(mode):
                os.chmod(place, stat.S_IMODE(mode))

    def finish(self) -> None:
        """Remove the journal, or record what is left to do."""
        journal = self._journal
        if self.problems:
            # The check may have removed its folder.
            with contextlib.suppress(OSError):
                journal.write()
            return
        # First of all: without it, a later command does not undo the check again.
        Path(journal.folder, journals.NAME).unlink(missing_ok=True)
        shutil.rmtree(journal.folder, ignore_errors=True)


def _usual(mode: int) -> int:
    """Return the mode with which a snapshot restores a file."""
    return stat.S_IFREG | (0o755 if mode & stat.S_IXUSR else 0o644)


def _move_back(move: Move) -> bool:
    """Put a live path back in place of its replacement.

    Return False if the live one is missing. Raise OSError.
    """
    waiting, current = lstat(move.aside), lstat(move.path)
    if move.inode and not waiting:
        # It was never set aside, or is back already. Otherwise the reset to the
        # snapshot restores it if no rule ignores it.
        return current is not None and current.st_ino == move.inode
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
"""Suffix of the file with the lines of a watchdog that has undone a check.

The next command prints them.
"""
_PATIENCE = 15.0
"""Seconds in which git of the runner must have ended."""


class UndoWatchdog:
    """The process that undoes a check if this process is killed.

    It also holds the lock of the journal, `handle`.
    """

    def __init__(self, folder: Path, handle: int) -> None:
        undoing = [sys.executable, "-P", "-m", __name__, str(folder)]
        with (folder / "watchdog.log").open("wb") as log:
            self._process, self._sink = start_helper(
                _SCRIPT,
                undoing,
                log=log.fileno(),
                keep_open=[handle],
            )

    def close(self) -> None:
        """End the process. Closing twice does nothing.

        The check is undone, or its undo has failed and would fail in the watchdog too.
        """
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.write(self._sink, b"done\n")
            end_helper(self._process, self._sink)


def undo_checks(
    workspace: Path,
    home: Path,
    *,
    store: Path | None = None,
    patience: float = 30.0,
) -> tuple[str, ...]:
    """Undo the checks in a workspace whose runners are gone; return lines about them.

    In a copy of the workspace, `store` is the folder of its own snapshot store.
    Lines of watchdogs are among them. Wait up to `patience` seconds for a watchdog that
    is at work. Do nothing while a runner lives.
    """
    messages: list[str] = []
    store = store or store_of(workspace.resolve(), home.resolve())
    for journal in journals.journals_of(home.resolve(), store):
        # Its watchdog may have undone it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            messages += _replayed(journal, time.monotonic() + patience)
    for report in sorted(journals.checks_folder(home).glob(f"*{_REPORT}")):
        # Another command may have printed it.
        with contextlib.suppress(OSError):
            reported_workspace, *lines = json.loads(report.read_bytes())
            if reported_workspace == str(workspace.resolve()):
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
        # Read again: a watchdog may have undone a part of it.
        return _undone(journals.read(folder))
    finally:
        os.close(handle)


def _undone(journal: Journal) -> list[str]:
    """Undo a check of a runner that is gone; return lines for the user.

    The remaining processes of the check, and git of its runner, are ended first.
    """
    end_orphans(os.path.basename(journal.folder))
    store = SnapshotStore(
        Path(journal.workspace),
        Path(journal.home),
        start=Path(journal.start),
        folder=Path(journal.store),
    )
    try:
        _end_git(store.folder)
        undone = asyncio.run(undo(journal, store))
    finally:
        store.close()
    check = f"An interrupted check in {journal.workspace}"
    if undone.problems:
        problems = "; ".join(undone.problems)
        return [f"{check} is not undone: {problems}. See {journal.folder}."]
    lines = [f"{check} was undone."]
    if undone.lost:
        lines.append(
            f"Removed by the check and not restored: {'; '.join(undone.lost)}."
        )
    if undone.before_reset:
        lines.append(
            f"Files in {journal.workspace} were reset; "
            f"the state before is snapshot {undone.before_reset.id[:12]}."
        )
    return lines


def _end_git(store: Path) -> None:
    """End the git processes of a snapshot store.

    One of the runner that was killed may still write into the workspace.
    """
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
    report_lines = _undone(interrupted)
    # If the journal still exists, the next command tries again and reports that.
    if not Path(interrupted.folder, journals.NAME).exists():
        write_whole(
            Path(f"{interrupted.folder}{_REPORT}"),
            json.dumps([interrupted.workspace, *report_lines]).encode(),
        )
