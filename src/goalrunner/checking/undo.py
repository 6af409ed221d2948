"""Undoes an in-place check from its journal: in the runner, in its watchdog process, or in a later command.

The watchdog is a shell that reads a pipe which only the runner can write to. If the pipe closes without the last line,
the shell becomes `python -P -m goalrunner.checking.undo HANDLE FOLDER`.
"""

# Paths are strings here, as in the journal.

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.checking import live_state
from goalrunner.checking.environment import written
from goalrunner.checking.journal import (
    Journal,
    Move,
    OpenJournal,
    checks_folder,
    found,
    lock,
    move_back,
    read,
    remove_aside,
)
from goalrunner.core.errors import GoalError
from goalrunner.core.observation import Snapshot
from goalrunner.records.files import sync_folder
from goalrunner.snapshots.objects import raw, shown
from goalrunner.snapshots.restore import remove
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
    snapshot = Snapshot(**opened.journal.snapshot)
    with work.step("reset"):
        await work.name_lost(snapshot)
        if not opened.is_done("reset"):
            await work.reset(snapshot)
            opened.set_done("reset")
    await asyncio.to_thread(work.finish)
    return work.result


class _Undo:
    def __init__(self, opened: OpenJournal, store: SnapshotStore) -> None:
        self._opened = opened
        self._journal = opened.journal
        self._store = store
        self._outputs = opened.folder / "outputs"
        self._keep = checks_folder(Path(self._journal.home)) / "kept"
        self._lost: list[Move] = []
        self.result = Undone()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record a failure of a step, and go on with the next one."""
        try:
            yield
        except (GoalError, OSError) as error:
            reason = error.message if isinstance(error, GoalError) else error
            self.result.problems.append(f"{name}: {reason}")

    def put_back(self) -> None:
        """Put back live files and git files; files that are declared outputs are moved out of the way first."""
        journal = self._journal
        live_state.make_accessible(journal.workspace, journal.folders)
        if not self._opened.is_done("outputs kept"):
            with self.step("outputs"):
                skip = self._own_folders() | set(journal.puts)
                paths = written(journal.workspace, journal.outputs, journal.since, skip)
                live_state.keep_outputs(journal.workspace, paths, self._outputs)
                self._opened.set_done("outputs kept")
        for move in journal.moves:
            with self.step(move.path):
                if not move_back(self._opened, move):
                    self._lost.append(move)
        if not self._opened.is_done("git"):
            before = len(self.result.problems)
            live_state.GitPutBack(self._opened, self._keep, self.step).run()
            if len(self.result.problems) == before:
                self._opened.set_done("git")
        self.result.lost += live_state.lost_git_files(journal)

    async def reset(self, snapshot: Snapshot) -> None:
        """Reset what no rule ignores to the snapshot, modes and folders included. The store keeps the state before."""
        journal, store = self._journal, self._store
        skip = {*await store.ignored_names(), *self._own_folders()}
        now = await asyncio.to_thread(live_state.look, journal.workspace, skip, enter=True)
        await asyncio.to_thread(self._remove_new, now)
        before = await store.snapshot()
        changed: set[str] = set()
        if before.tree != snapshot.tree:
            self.result.kept = before
            changes = await store.all_changes(before, snapshot)
            changed = {change.path for change in changes if change.kind != "repository"}
            await store.restore(snapshot)
        if unusual := now.files.keys() - journal.modes.keys():
            changed |= (await store.entries(snapshot)).keys() & {shown(os.fsencode(path)) for path in unusual}
        for path in sorted(now.modes.keys() - journal.folders.keys(), reverse=True):
            with contextlib.suppress(OSError):  # ignored files are in it
                os.rmdir(os.path.join(journal.workspace, path))
        paths = [os.fsdecode(raw(path)) for path in changed]
        await asyncio.to_thread(live_state.restore_modes, journal.workspace, journal.folders, journal.modes, paths)

    def _remove_new(self, now: live_state.Folders) -> None:
        """Remove what the check made and no snapshot contains: git folders, which are kept, pipes and sockets."""
        workspace = self._journal.workspace
        for folder in set(now.repositories) - set(self._journal.repositories):
            path = os.path.join(workspace, folder, ".git")
            target = self._keep / os.path.relpath(path, "/")
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # on another file system: it stays
                remove(target)
                os.rename(path, target)
        for path in sorted(set(now.special) - set(self._journal.special)):
            with self.step(path):
                os.unlink(os.path.join(workspace, path))

    async def name_lost(self, snapshot: Snapshot) -> None:
        """Name the live paths that the check removed, but for files that the snapshot contains."""
        for move in self._lost:
            path = shown(os.fsencode(os.path.relpath(move.path, self._journal.workspace)))
            if path not in await self._store.entries(snapshot):
                self.result.lost.append(f"{move.path} is lost: the check removed {os.path.dirname(move.aside)}")

    def finish(self) -> None:
        """Put outputs back, and remove the journal unless something failed."""
        journal, problems = self._journal, self.result.problems
        with self.step("outputs"):
            if self._opened.is_done("outputs kept") and self._opened.is_done("reset"):
                live_state.put_outputs_back(journal.workspace, self._outputs)
        for folder in {os.path.dirname(move.path) for move in journal.moves}:
            with contextlib.suppress(OSError):  # not every file system can
                sync_folder(Path(folder))
        if not problems:
            problems += [f"live files are left in {folder}" for folder in journal.asides if not remove_aside(folder)]
        if not problems:
            self._opened.remove()

    def _own_folders(self) -> set[str]:
        """Return the folders of this program in the workspace, relative to it."""
        places = {*map(os.path.dirname, self._journal.asides), *self._journal.asides, self._journal.home}
        workspace = self._journal.workspace
        return {os.path.relpath(place, workspace) for place in places if place.startswith(f"{workspace}/")}


_SCRIPT = """\
trap '' HUP INT QUIT TERM PIPE
read -r line
[ "$line" = done ] && exit 0
exec "$@"
"""
_PATIENCE = 15.0
"""Seconds in which the watchdog and git must have ended."""


class Watchdog:
    """The process that undoes a check if this one is killed. It holds the journal locked as well."""

    def __init__(self, opened: OpenJournal) -> None:
        undoing = [sys.executable, "-P", "-m", __name__, str(opened.handle), str(opened.folder)]
        with (opened.folder / "watchdog.log").open("wb") as log:
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
    for folder, journal in found(home):
        if journal.workspace == str(workspace):
            messages += _replayed(folder, journal, time.monotonic() + patience)
    return (*messages, *_reports(workspace, home))


def _replayed(folder: Path, journal: Journal, deadline: float) -> Iterator[str]:
    try:
        while (handle := lock(folder)) is None:
            if process_table.entry(journal.pid) or time.monotonic() > deadline:
                yield f"A check is running in {journal.workspace} (process {journal.pid})."
                return
            time.sleep(0.05)
    except OSError:  # its watchdog has undone it meanwhile
        return
    try:
        opened = read(handle, folder)
        yield from _lines(opened, _undone(opened))
    finally:
        os.close(handle)


def _undone(opened: OpenJournal) -> Undone:
    """End what is left of the check and of its runner, then undo."""
    journal = opened.journal
    end_orphans(journal.token)
    store = SnapshotStore(Path(journal.workspace), Path(journal.home), start=Path(journal.start))
    try:
        if journal.guard:
            # The list has the sessions and limits of processes that have lost their tag.
            _await_end("goalrunner.system.watchdog", journal.guard)
            end_orphans(journal.guard)
        _await_end(f"--git-dir={store.folder}", kill=True)  # git of the runner may still write
        return asyncio.run(undo(opened, store))
    finally:
        store.close()


def _lines(opened: OpenJournal, undone: Undone) -> Iterator[str]:
    """Yield what a person needs to know about an undo."""
    workspace = opened.journal.workspace
    if undone.problems:
        yield f"An interrupted check in {workspace} is not undone: {'; '.join(undone.problems)}. See {opened.folder}."
        return
    yield f"An interrupted check in {workspace} was undone."
    if undone.lost:
        yield f"Removed by the check and not restored: {'; '.join(undone.lost)}."
    if undone.kept:
        yield f"Files in {workspace} were reset; the state before is snapshot {undone.kept.id[:12]}."


def _reports(workspace: Path, home: Path) -> Iterator[str]:
    """Yield the lines that watchdogs left for this workspace, and remove them."""
    for path in sorted(checks_folder(home).glob("*.report")):
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
    opened = read(handle, folder)
    undone = _undone(opened)
    if not undone.problems:  # with problems, the journal stays and the next command tries again
        lines = (opened.journal.workspace, *_lines(opened, undone))
        with contextlib.suppress(OSError, GoalError):
            path = folder.with_name(f"{folder.name}.report")
            path.write_text("".join(f"{line}\n" for line in lines), errors="surrogateescape")


if __name__ == "__main__":
    main(sys.argv[1:])
