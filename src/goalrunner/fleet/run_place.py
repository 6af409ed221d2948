"""The folder of a run on a worker's machine, and how it is continued there.

It has the same path on every machine of a fleet, because a run that goes on elsewhere
needs its workspace at the path that its records name.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from goalrunner.core.errors import RecordError, UsageError, WorkspaceBusy, os_errors
from goalrunner.core.events import (
    RECORD,
    Account,
    RunResumed,
    ToolCalled,
    UsageRecorded,
)
from goalrunner.core.outcome import Usage
from goalrunner.fleet.archives import extract
from goalrunner.fleet.intents import LostLine
from goalrunner.fleet.runs import TakenRun
from goalrunner.fleet.store import FleetStore
from goalrunner.records.event_log import read_end
from goalrunner.records.files import AppendFile, write_whole
from goalrunner.records.removal import remove_whole
from goalrunner.records.run_folder import RUNS, RunFolder

_PATIENCE = 5.0
"""Seconds for an earlier process of the run to end by itself; then it is killed."""

Lines = Sequence[tuple[int, bytes]]


@dataclass(frozen=True)
class AbandonedRound:
    """What an earlier worker did after it had stored the run for the last time.

    Its machine has the files of it, and its effects elsewhere cannot be known.
    """

    calls: tuple[str, ...] = ()
    """The calls of tools, for people: "shell: make deploy"."""
    usage: dict[Account, Usage] = field(default_factory=dict)
    """What it used, by account."""


@dataclass(frozen=True)
class WorkerPlace:
    """The paths of one run below the root of a worker."""

    root: Path
    run_id: str

    @property
    def folder(self) -> Path:
        return self.root / "runs" / self.run_id

    @property
    def home(self) -> Path:
        """The GOAL_HOME of this run alone."""
        return self.folder / "home"

    @property
    def project(self) -> Path:
        """The repository with the workspace."""
        return self.folder / "project"

    @property
    def output(self) -> Path:
        """What the processes of the run have printed."""
        return self.folder / "output.log"

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.home / RUNS / self.run_id)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Return a context in which this process alone uses the place.

        An earlier process of the run has lost its right to it. It is killed if it does
        not end. Raise WorkspaceBusy.
        """
        with os_errors(
            f"cannot use {self.folder}", "check the --root of the worker", UsageError
        ):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Beside the folder, in which an agent could replace it.
            path = self.folder.with_name(f"{self.run_id}.lock")
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            _lock(handle, self.run_id)
            # The next process may have to kill this one.
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

    def has_newest_records(self, taken_run: TakenRun, lines: Lines) -> bool:
        """Return whether this machine had the run last, so that its files go on.

        `lines` are those that the last worker has written into the database.
        """
        if taken_run.previous_token not in (0, *self._tokens()):
            return False
        # Also the lines: the folder may be an old copy of the disk.
        return _agree(lines, _lines_of_file(self.run.events))

    def note_holder(self, taken_run: TakenRun, *, is_new: bool) -> None:
        """Record that this machine has the run now; `is_new`: it was elsewhere."""
        # A worker that ended before it wrote a line changes nothing, so that the
        # tokens of all that worked on these files count.
        tokens = [] if is_new else self._tokens()
        tokens.append(taken_run.token)
        write_whole(self._holder, json.dumps({"tokens": tokens}).encode())

    def _tokens(self) -> list[int]:
        try:
            return [
                int(token) for token in json.loads(self._holder.read_bytes())["tokens"]
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    @property
    def _holder(self) -> Path:
        return self.folder / "holder.json"

    def lines_after(self, seq: int) -> Lines:
        """Return the lines of the log here after a number."""
        return _lines_of_file(self.run.events)[seq:]

    def add_lines(self, lines: Lines) -> None:
        """Append the lines that the database has and the log here lacks.

        The process was killed between the two. Raise RecordError.
        """
        last = read_end(self.run.events).seq
        missing = [line for seq, line in lines if seq > last]
        if not missing or not self.run.path.exists():
            return
        file = AppendFile(self.run.events)
        try:
            for line in missing:
                file.append(line)
        finally:
            file.close()
        # It raises an error if they do not follow each other.
        read_end(self.run.events)

    def fetch(self, taken_run: TakenRun, store: FleetStore) -> None:
        """Replace the place by what the store has of the run. Raise GoalError."""
        # If this is killed, nothing here counts as the files of the run.
        self._holder.unlink(missing_ok=True)
        for folder in (self.home, self.project):
            if folder.exists():
                remove_whole(folder)
        with tempfile.TemporaryDirectory(prefix="goal-fleet-") as scratch:
            archives: list[Path] = []
            for number, key in enumerate(taken_run.shipped):
                archive = Path(scratch) / f"{number}.tar"
                store.get(key, archive)
                archives.append(archive)
            extract(archives, self.home)


def _lines_of_file(log: Path) -> list[tuple[int, bytes]]:
    """Return the whole lines of a log with their numbers."""
    if not log.exists():
        return []
    # A killed process may have left a part of a line at the end.
    *lines, _ = log.read_bytes().split(b"\n")
    return list(enumerate(lines, 1))


def _agree(lines: Lines, lines_of_file: Lines) -> bool:
    """Return whether a line in both of them is the same."""
    written = dict(lines_of_file)
    return all(written.get(seq, line) == line for seq, line in lines)


def abandoned_round(run_id: str, lines: Sequence[LostLine]) -> AbandonedRound:
    """Return what lines after the last stored one say. Raise RecordError."""
    calls: list[str] = []
    usage: dict[Account, Usage] = {}
    for lost in lines:
        try:
            event = RECORD.validate_json(lost.line).event
        except ValueError as error:
            raise RecordError(
                f"line {lost.seq} of run {run_id} in the database is damaged"
            ) from error
        match event:
            case ToolCalled():
                calls.append(f"{event.tool}: {event.summary}")
            case _ if lost.is_replaced:
                # The line that replaced it says what was used until then.
                pass
            case UsageRecorded():
                _add(usage, event.account, event.usage)
            case RunResumed():
                for name, estimate in event.in_flight.items():
                    _add(usage, cast(Account, name), estimate)
            case _:
                pass
    return AbandonedRound(tuple(calls), usage)


def _add(usage: dict[Account, Usage], account: Account, used: Usage) -> None:
    usage[account] = usage.get(account, Usage()) + used


def _lock(handle: int, run_id: str) -> None:
    until = time.monotonic() + _PATIENCE
    was_killed = False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(0.05)
            elif was_killed:
                raise WorkspaceBusy(
                    f"an earlier process of run {run_id} does not end",
                    "restart the machine, or the worker with another --root",
                ) from None
            else:
                _kill_holder(handle, run_id)
                was_killed = True
                until = time.monotonic() + _PATIENCE
        else:
            return


def _kill_holder(handle: int, run_id: str) -> None:
    """Kill the process that holds a lock: it may be stopped, and would never end."""
    with contextlib.suppress(OSError, ValueError):
        pid = int(os.pread(handle, 20, 0))
        # In another container, that number is another process.
        if run_id.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
