"""Undoes an in-place check from its journal: in the runner, in its watchdog process, or in a later command.

The watchdog is a shell that reads a pipe which only the runner can write to. If the pipe closes without the last line,
the shell becomes `python -P -m goalrunner.checking.undo HANDLE FOLDER`.
"""

# Paths are strings here, as in the journal.

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.checking import journal as journals
from goalrunner.checking.files import UNFINISHED, copy_into, written
from goalrunner.checking.journal import Journal, Move, OpenJournal
from goalrunner.checking.live_state import look, make_accessible, put_git_files_back, restore_modes
from goalrunner.core.errors import GoalError
from goalrunner.core.observation import Snapshot
from goalrunner.records.files import sync_folder
from goalrunner.snapshots.files import remove
from goalrunner.snapshots.objects import raw, shown
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system import process_table
from goalrunner.system.watchdog import end_helper, end_orphans, start_helper


@dataclass
class Undone:
    """What an undo did."""

    kept: Snapshot | None = None
    """The state before the reset; None if there was nothing to reset."""
    problems: list[str] = field(default_factory=list)
    """What could not be undone this time, in words; the journal stays."""
    lost: list[str] = field(default_factory=list)
    """What the check removed and no undo can put back, in words."""


async def undo(opened: OpenJournal, store: SnapshotStore) -> Undone:
    """Undo a check whose processes have ended. The steps that fail are named; all others are done nevertheless.

    Interrupted at any point and repeated, it ends in the same state.
    """
    work = _Undo(opened, store)
    await asyncio.to_thread(work.put_back)
    if not opened.is_done("reset"):
        with work.step("reset"):
            await work.reset()
            await asyncio.to_thread(work.put_outputs_back)
            opened.set_done("reset")
    await asyncio.to_thread(work.finish)
    return work.result


class _Undo:
    def __init__(self, opened: OpenJournal, store: SnapshotStore) -> None:
        self._opened = opened
        self._journal = journal = opened.journal
        self._workspace = Path(journal.workspace)
        self._store = store
        self._outputs = opened.folder / "outputs"
        self._keep = journals.checks_folder(Path(journal.home)) / "kept"
        places = {*map(os.path.dirname, journal.asides), *journal.asides, journal.home}
        self._own = {os.path.relpath(place, self._workspace) for place in places}
        """The folders of this program, relative to the workspace."""
        self._lost: list[Move] = []
        self.result = Undone()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        try:
            yield
        except (GoalError, OSError) as error:
            reason = error.message if isinstance(error, GoalError) else error
            self.result.problems.append(f"{name}: {reason}")

    def put_back(self) -> None:
        """Put back live files and git files; files that are declared outputs are copied first."""
        opened, journal = self._opened, self._journal
        make_accessible(journal.workspace, journal.modes)
        outputs = () if opened.is_done("reset") else journal.outputs
        with self.step("outputs"):
            for path in written(journal.workspace, outputs, journal.since, self._own | set(journal.puts)):
                if not (self._outputs / path).exists():  # else an earlier undo, which did not end, has copied it
                    copy_into(self._workspace, self._outputs, path)
        for move in [move for move in journal.moves if not opened.is_done(move.path)]:
            with self.step(move.path):
                if journals.move_back(move):
                    opened.set_done(move.path)
                else:
                    self._lost.append(move)
        if not opened.is_done("git"):
            problems = len(self.result.problems)
            self.result.lost += put_git_files_back(journal, self._keep, self.step)
            if len(self.result.problems) == problems:
                opened.set_done("git")

    async def reset(self) -> None:
        """Reset what no rule ignores to the snapshot, modes and folders included. The store keeps the state before."""
        journal, store = self._journal, self._store
        snapshot = Snapshot(**journal.snapshot)
        entries = await store.entries(snapshot)
        for move in self._lost:  # but for files that the snapshot contains
            if shown(os.fsencode(os.path.relpath(move.path, self._workspace))) not in entries:
                self.result.lost.append(f"{move.path} is lost: the check removed {os.path.dirname(move.aside)}")
        skip = {*await store.ignored_names(), *self._own}
        now = await asyncio.to_thread(look, journal.workspace, skip, enter=True)
        new = {path: mode for path, mode in now.items() if path not in journal.modes}
        await asyncio.to_thread(self._remove_new, new)
        changed = {shown(os.fsencode(path)) for path in new} & entries.keys()
        before = await store.snapshot()
        if before.tree != snapshot.tree:
            self.result.kept = before
            changed |= {change.path for change in await store.restore(snapshot)}
        for path in sorted(new, reverse=True):
            with contextlib.suppress(OSError):  # it is no folder, or ignored files are in it
                os.rmdir(self._workspace / path)
        paths = [os.fsdecode(raw(path)) for path in changed]
        await asyncio.to_thread(restore_modes, journal.workspace, journal.modes, paths)

    def _remove_new(self, new: dict[str, int]) -> None:
        """Remove what the check made and no snapshot contains: git folders, which are kept, pipes and sockets."""
        for name, mode in new.items():
            path = self._workspace / name
            if path.name == ".git":
                target = self._keep / path.relative_to("/")
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with contextlib.suppress(OSError):  # on another file system: it stays
                    remove(target)
                    path.rename(target)
            elif not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                with self.step(name):
                    path.unlink()

    def put_outputs_back(self) -> None:
        """Copy outputs over what the reset has restored in their place."""
        for path in sorted(self._outputs.rglob("*")):
            if path.is_file() and not path.name.startswith(UNFINISHED):
                copy_into(self._outputs, self._workspace, str(path.relative_to(self._outputs)))
        shutil.rmtree(self._outputs, ignore_errors=True)

    def finish(self) -> None:
        """Remove the journal unless something failed."""
        journal, problems = self._journal, self.result.problems
        for folder in {os.path.dirname(move.path) for move in journal.moves}:
            with contextlib.suppress(OSError):  # not every file system can
                sync_folder(Path(folder))
        if not problems:
            problems += [
                f"live files are left in {folder}" for folder in journal.asides if not journals.remove_aside(folder)
            ]
        if not problems:
            for name in (journals.NAME, journals.DONE, journals.LOG):
                (self._opened.folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._opened.folder.rmdir()


_SCRIPT = """\
trap '' HUP INT QUIT TERM PIPE
read -r line
[ "$line" = done ] && exit 0
exec "$@"
"""
_PATIENCE = 15.0
"""Seconds in which the watchdog and git must have ended."""


class Watchdog:
    """The process that undoes a check if this process is killed. It also holds the lock of the journal."""

    def __init__(self, opened: OpenJournal) -> None:
        undoing = [sys.executable, "-P", "-m", __name__, str(opened.handle), str(opened.folder)]
        with (opened.folder / journals.LOG).open("wb") as log:
            self._process, self._sink = start_helper(_SCRIPT, undoing, log=log.fileno(), keep_open=[opened.handle])

    def close(self) -> None:
        """End the process: the check is undone, or its undo has failed here and would fail there.

        Closing twice does nothing.
        """
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.write(self._sink, b"done\n")
            end_helper(self._process, self._sink)


def replay(workspace: Path, home: Path, *, patience: float = 30.0) -> tuple[str, ...]:
    """Undo the checks of runners that are gone in a workspace; return one line about each.

    Wait up to `patience` seconds for a watchdog that is at work. Never act while the runner lives.
    """
    workspace, home = workspace.resolve(), home.resolve()
    messages = list(_reports(workspace, home))
    for folder, journal in journals.found(home):
        if journal.workspace == str(workspace):
            messages += _replayed(folder, journal, time.monotonic() + patience)
    return (*messages, *_reports(workspace, home))


def _replayed(folder: Path, journal: Journal, deadline: float) -> list[str]:
    try:
        while (handle := journals.lock(folder)) is None:
            if process_table.entry(journal.pid) or time.monotonic() > deadline:
                return [f"A check is running in {journal.workspace} (process {journal.pid})."]
            time.sleep(0.05)
    except OSError:  # its watchdog has undone it meanwhile
        return []
    try:
        return _undone(journals.read(handle, folder))[1]
    finally:
        os.close(handle)


def _undone(opened: OpenJournal) -> tuple[Undone, list[str]]:
    """End the remaining processes of the check and of its runner, then undo; also return a note for the user."""
    journal = opened.journal
    end_orphans(journal.token)
    store = SnapshotStore(Path(journal.workspace), Path(journal.home), start=Path(journal.start))
    try:
        if journal.guard:
            # The list has the sessions and limits of processes that have lost their tag.
            _await_end("goalrunner.system.watchdog", journal.guard)
            end_orphans(journal.guard)
        _await_end(f"--git-dir={store.folder}", kill=True)  # git of the runner may still write
        undone = asyncio.run(undo(opened, store))
    finally:
        store.close()
    what = f"An interrupted check in {journal.workspace}"
    if undone.problems:
        return undone, [f"{what} is not undone: {'; '.join(undone.problems)}. See {opened.folder}."]
    lines = [f"{what} was undone."]
    if undone.lost:
        lines.append(f"Removed by the check and not restored: {'; '.join(undone.lost)}.")
    if undone.kept:
        lines.append(f"Files in {journal.workspace} were reset; the state before is snapshot {undone.kept.id[:12]}.")
    return undone, lines


def _reports(workspace: Path, home: Path) -> Iterator[str]:
    """Yield the lines that watchdogs left for this workspace, and remove them."""
    for path in sorted(journals.checks_folder(home).glob("*.report")):
        with contextlib.suppress(OSError):
            where, *lines = path.read_text(errors="surrogateescape").splitlines()
            if where == str(workspace):
                path.unlink()
                yield from lines


def _await_end(*arguments: str, kill: bool = False) -> None:
    """Wait until no other process has these arguments in a row on its command line; with `kill`, end those."""
    words = "\0".join(("", *arguments, ""))
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        lines = process_table.command_lines()
        pids = [pid for pid, line in lines if words in f"\0{line}" and pid != os.getpid()]
        if not pids:
            return
        for pid in pids if kill else ():
            process_table.send_signal(pid, signal.SIGKILL)
        time.sleep(0.01)


def main(arguments: Sequence[str]) -> None:
    """Undo the check in the journal that is open as the given handle; leave a report for the next command."""
    handle, folder = int(arguments[0]), Path(arguments[1])
    opened = journals.read(handle, folder)
    undone, lines = _undone(opened)
    if not undone.problems:  # with problems, the journal stays and the next command tries again
        with contextlib.suppress(OSError, GoalError):
            text = "".join(f"{line}\n" for line in (opened.journal.workspace, *lines))
            folder.with_name(f"{folder.name}.report").write_text(text, errors="surrogateescape")


if __name__ == "__main__":
    main(sys.argv[1:])
