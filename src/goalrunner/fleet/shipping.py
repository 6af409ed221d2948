"""Storing the folder of a run after each round, while the run goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.errors import GoalError, RecordError
from goalrunner.core.events import (
    ApprovalRequested,
    BaselineTaken,
    QuestionOpened,
    Record,
    RoundFinished,
    RoundStarted,
    ValidatorsFinished,
    VerdictRecorded,
    WaitStarted,
)
from goalrunner.fleet import runs
from goalrunner.fleet.archives import ArchiveWriter, Stamps
from goalrunner.fleet.database import Database
from goalrunner.fleet.run_place import WorkerPlace
from goalrunner.fleet.runs import TakenRun
from goalrunner.fleet.store import FleetStore, patiently
from goalrunner.records.run_summaries import read_summary

# After these events, everything that the log names is in the folder, and no call is
# open: a run can begin there again.
_POINTS = (
    ApprovalRequested,
    BaselineTaken,
    QuestionOpened,
    RoundFinished,
    ValidatorsFinished,
    VerdictRecorded,
    WaitStarted,
)
_LOGGER = logging.getLogger("goalrunner")


def _is_first_round(record: Record) -> bool:
    """Return whether the agent is about to work for the first time.

    Of a run that was never stored, nothing would be known at another machine. Later
    rounds begin where the check of the one before ended, which was stored.
    """
    return isinstance(record.event, RoundStarted) and record.event.round == 1


def _folder(taken_run: TakenRun) -> str:
    """Return the folder of a run in the store."""
    return f"runs/{taken_run.run_id}"


@dataclass(frozen=True)
class _Archive:
    """The new files of a run, at one moment of it."""

    path: Path
    stamps: Stamps
    seq: int
    """The number of the last event in it."""
    ends_round: bool
    is_whole: bool
    """Whether it has all files, and needs no archive before it."""


class Shipping:
    """Stores the home of one run. Implements the port `Observer`.

    It has the database for itself, because it works in a thread.
    """

    def __init__(
        self,
        database: Database,
        store: FleetStore,
        taken_run: TakenRun,
        place: WorkerPlace,
    ) -> None:
        self._database = database
        self._store = store
        self._taken_run = taken_run
        self._place = place
        self._writer = ArchiveWriter(place.home)
        self._keys = list(taken_run.shipped)
        """The archives that the store should have of this run."""
        self._lost_archives = False
        if taken_run.shipped:
            # What was fetched, or was stored from here, need not be stored again.
            self._writer.archived = dict(self._writer.files())
        self._count = 0
        self._seq = taken_run.shipped_seq
        self._thread: threading.Thread | None = None

    def on_record(self, record: Record) -> None:
        """Store the folder when nothing is open in the run."""
        self._seq = record.seq
        if not isinstance(record.event, _POINTS) and not _is_first_round(record):
            return
        if self._thread is not None and self._thread.is_alive():
            # The store is slow. The next archive will have this as well.
            return
        # It is written while the run waits, so that its files belong together.
        try:
            archive = self._archive(ends_round=isinstance(record.event, RoundFinished))
        except RecordError as error:
            self._warn(error)
            return
        self._thread = threading.Thread(
            target=self._try_to_ship, args=(archive,), name="goal-ship", daemon=True
        )
        self._thread.start()

    def finish(self, patience: float) -> None:
        """Store the folder as it is at the end of the run.

        While the store does not answer, try again for so many seconds. Raise GoalError.
        """
        if self._thread is not None:
            self._thread.join()
        patiently(lambda: self._ship(self._archive()), patience)
        if self._lost_archives:
            patiently(lambda: self._ship(self._archive()), patience)

    def _archive(self, *, ends_round: bool = False) -> _Archive:
        # On the disk of the run; one that a killed process left is written again.
        path = self._place.folder / "archive.tar"
        is_whole = self._lost_archives
        if is_whole:
            self._writer.archived = {}
        stamps = self._writer.write(path)
        return _Archive(path, stamps, self._seq, ends_round, is_whole)

    def _try_to_ship(self, archive: _Archive) -> None:
        try:
            self._ship(archive)
        except GoalError as error:
            self._warn(error)

    def _warn(self, error: GoalError) -> None:
        # The run goes on; the next archive has what this one has.
        _LOGGER.warning("run %s is not stored: %s", self._taken_run.run_id, error)

    def _ship(self, archive: _Archive) -> None:
        self._count += 1
        key = f"{_folder(self._taken_run)}/{self._taken_run.token}-{self._count}.tar"
        try:
            self._store.put(archive.path, key)
        finally:
            archive.path.unlink(missing_ok=True)
        summary = read_summary(self._place.run)
        self._database.call(
            lambda connection: runs.record_shipped(
                connection,
                self._taken_run,
                key,
                archive.seq,
                summary,
                ends_round=archive.ends_round,
                is_whole=archive.is_whole,
            )
        )
        # Until the next round, which may take long, a connection would be for nothing.
        self._database.close()
        self._writer.archived |= archive.stamps
        self._keys = [key] if archive.is_whole else [*self._keys, key]
        self._lost_archives = not self._stored(self._keys)

    def _stored(self, keys: Sequence[str]) -> bool:
        """Return whether the store has these archives.

        They are not written anew now: the run goes on meanwhile, and files that change
        do not belong together.
        """
        names = self._store.names(_folder(self._taken_run))
        return all(key.rpartition("/")[2] in names for key in keys)
