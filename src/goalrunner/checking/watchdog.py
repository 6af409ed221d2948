"""Undoes in-place checks whose runner is gone: at once by a process that waits for it, or by the next command.

The process is a shell that reads a pipe which only the runner can write to. If the pipe closes without the last line,
the shell becomes `python -P -m goalrunner.checking.watchdog HANDLE FOLDER`.
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
from pathlib import Path

from goalrunner.checking.journal import Journal, OpenJournal, checks_folder, found, lock, read
from goalrunner.checking.undo import Undone, undo
from goalrunner.core.errors import GoalError
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system import process_table
from goalrunner.system.orphans import end_orphans
from goalrunner.system.watchdog import end_helper, start_helper

_SCRIPT = """\
trap '' HUP INT QUIT TERM PIPE
read -r line
[ "$line" = done ] && exit 0
exec "$@"
"""
_PATIENCE = 15.0
"""Seconds in which the watchdog and git must have ended."""
_REPORT = "report"


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
    end_orphans(journal.token, ())
    store = SnapshotStore(Path(journal.workspace), Path(journal.home), start=Path(journal.start))
    try:
        if journal.guard:
            # The list has the sessions and limits of processes that have lost their tag.
            _await_end("goalrunner.system.orphans", journal.guard)
            end_orphans(journal.guard, ())
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
    if undone.overwritten:
        kept = f"; the state before is snapshot {undone.kept.id[:12]}" if undone.kept else ""
        yield f"Reset in {workspace}: {', '.join(undone.overwritten[:10])}{kept}."


def _reports(workspace: Path, home: Path) -> Iterator[str]:
    """Yield the lines that watchdogs left for this workspace, and remove them."""
    for path in sorted(checks_folder(home).glob(f"*.{_REPORT}")):
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
            path = folder.with_name(f"{folder.name}.{_REPORT}")
            path.write_text("".join(f"{line}\n" for line in lines), errors="surrogateescape")


if __name__ == "__main__":
    main(sys.argv[1:])
