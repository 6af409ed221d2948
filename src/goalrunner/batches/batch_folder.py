"""The folder of a batch in GOAL_HOME: its plan, its goals, and its log."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from goalrunner.batches.history import EVENT, BatchEvent, BatchState, after, batch_state
from goalrunner.batches.names import BATCHES, LOG, PLAN, batches_of_runs
from goalrunner.batches.plan import BatchPlan
from goalrunner.core.errors import (
    RecordError,
    RunNotFound,
    UsageError,
    one_line,
    os_errors,
    quoted,
    some,
)
from goalrunner.records.event_log import encode
from goalrunner.records.files import AppendFile, sync_folder, write_whole
from goalrunner.records.removal import remove_whole
from goalrunner.records.run_folder import RUNS


@dataclass(frozen=True)
class BatchFolder:
    """The folder of one batch, and the paths in it; what they name need not exist."""

    path: Path

    @classmethod
    def create(cls, home: Path, plan: BatchPlan, goals: dict[str, str]) -> BatchFolder:
        """Write a new batch: its plan, and the text of each goal file by key.

        Raise UsageError if there is a batch of that name.
        """
        folder = cls(home / BATCHES / plan.batch_id)
        with os_errors(
            f"cannot make the batch's folder {folder.path}",
            "set GOAL_HOME to a folder that can be written",
            UsageError,
        ):
            folder.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                # Of two processes that choose one name, this refuses the second one.
                folder.path.mkdir(mode=0o700)
            except FileExistsError:
                raise _is_taken(plan.batch_id) from None
            folder.goal_file("").parent.mkdir(mode=0o700)
            for key, text in goals.items():
                write_whole(folder.goal_file(key), text.encode())
            # The plan is written last: without it, the folder is no batch.
            write_whole(folder.plan_file, plan.model_dump_json(indent=2).encode())
            # A batch that was reported as submitted is there after a power cut.
            sync_folder(folder.path)
            sync_folder(folder.path.parent)
        return folder

    @property
    def batch_id(self) -> str:
        return self.path.name

    @property
    def home(self) -> Path:
        """The GOAL_HOME in which the batch and its runs lie."""
        return self.path.parent.parent

    @property
    def plan_file(self) -> Path:
        return self.path / PLAN

    @property
    def log(self) -> Path:
        """The events, a line each."""
        return self.path / LOG

    @property
    def cancellation(self) -> Path:
        """The request of `goal cancel` to a running scheduler: its reason; usually
        missing.
        """
        return self.path / "cancel.txt"

    def goal_file(self, key: str) -> Path:
        """Return the path of an entry's goal file, as it was at the submission."""
        return self.path / "goals" / f"{key}.toml"

    def output(self, key: str) -> Path:
        """Return the path of what the process of an entry prints."""
        return self.path / f"output-{key}.log"

    @property
    def spent(self) -> Path:
        """What each run has used."""
        return self.path / "spent"

    @property
    def pauses(self) -> Path:
        """The folder with the usage limits of accounts that runs have reached."""
        return self.path / "pauses"

    def last_change(self) -> float:
        """Return when something happened in it, in seconds since 1970."""
        # A batch that was never driven has no log.
        file = self.log if self.log.exists() else self.plan_file
        return file.stat().st_mtime

    def plan(self) -> BatchPlan:
        """Return what was submitted. Raise RecordError."""
        try:
            return BatchPlan.model_validate_json(self.plan_file.read_bytes())
        except (OSError, ValidationError) as error:
            raise _damaged(self.plan_file, error) from error

    def events(self) -> Iterator[BatchEvent]:
        """Yield the events so far; an unfinished last line is left out.

        Raise RecordError.
        """
        try:
            # The last line is not whole if a scheduler writes it now, or was killed
            # then.
            lines = self.log.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return
        except OSError as error:
            raise _damaged(self.log, error) from error
        for line in lines:
            try:
                yield EVENT.validate_json(line)
            except ValidationError as error:
                raise _damaged(self.log, error) from error

    def state(self) -> BatchState:
        """Return how far the batch is. Raise RecordError."""
        return batch_state(self.plan(), self.events())

    @property
    def is_driven(self) -> bool:
        """Whether a scheduler works on it now."""
        try:
            handle = os.open(self._lock, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            # Shared, so that two readers do not take each other for a scheduler.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    @property
    def _lock(self) -> Path:
        return self.path / "lock"

    @contextmanager
    def writing(self) -> Iterator[BatchLog]:
        """Return a context in which this process alone drives the batch.

        Raise UsageError if another one does, and RecordError.
        """
        with os_errors(f"cannot lock {self.path}", "check GOAL_HOME", UsageError):
            handle = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file = AppendFile(self.log)
            try:
                # The state is read under the lock, so no event can come after it.
                yield BatchLog(file, self.state())
            finally:
                file.close()
        except BlockingIOError:
            raise UsageError(
                f"batch {self.batch_id} is driven by another process",
                f"goal watch {self.batch_id} follows it; "
                f"goal cancel {self.batch_id} ends it",
            ) from None
        finally:
            os.close(handle)


class BatchLog:
    """The open log of a batch, and the state that its events lead to."""

    def __init__(self, file: AppendFile, state: BatchState) -> None:
        self._file = file
        self.state = state

    def append(self, event: BatchEvent) -> None:
        """Write an event, which is durable when this returns. Raise RecordError."""
        try:
            self._file.append(encode(event.model_dump(mode="json")))
        except RecordError as error:
            resume = f"goal batch --resume {self.state.plan.batch_id} goes on"
            error.hint = f"{error.hint}; then {resume}" if error.hint else resume
            raise
        self.state = after(self.state, event)


def event_time() -> str:
    """Return the present moment in UTC as events have it, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def batch_names(home: Path) -> list[str]:
    """Return the names of all batches; none before the first one."""
    try:
        folders = list((home / BATCHES).iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(
            f"{home / BATCHES} cannot be read: {error.strerror}",
            "set GOAL_HOME to the folder that holds the runs",
        ) from error
    # Without a plan, the submission has not ended, or was killed.
    complete_folders = [
        path for path in folders if BatchFolder(path).plan_file.exists()
    ]
    return sorted(path.name for path in complete_folders)


def newest_batch(home: Path) -> BatchFolder:
    """Return the batch in which something happened last. Raise RunNotFound."""
    folders = [BatchFolder(home / BATCHES / name) for name in batch_names(home)]
    if not folders:
        raise RunNotFound(f"there is no batch in {home}", "goal batch GOALS starts one")

    return max(folders, key=BatchFolder.last_change)


def find_batch(home: Path, reference: str) -> BatchFolder:
    """Return the batch of that name, or of the only name with that prefix.

    Raise RunNotFound.
    """
    names = batch_names(home)
    # A whole name comes first: it may also be the beginning of another one.
    if reference in names:
        return BatchFolder(home / BATCHES / reference)
    matching = [name for name in names if reference and name.startswith(reference)]
    if len(matching) == 1:
        return BatchFolder(home / BATCHES / matching[0])
    if matching:
        raise RunNotFound(
            f"{quoted(reference)} matches {len(matching)} batches: {some(matching)}",
            "type more of the name",
        )
    raise RunNotFound(
        f"no batch {quoted(reference)} in {home}", "goal list --batch shows the batches"
    )


def remove_old_batches(
    home: Path, removed_runs: Collection[str], since: float, *, dry_run: bool
) -> int:
    """Remove the batches of which no run is left, and that have not changed since then.

    `since` is in seconds since 1970. Return how many. Raise OSError.
    """
    # A batch says how its runs belong together, so it stays with the last of them.
    still_needed = {
        batch
        for run_id, batch in batches_of_runs(home).items()
        if run_id not in removed_runs and (home / RUNS / run_id).exists()
    }
    removed = 0
    for name in set(batch_names(home)) - still_needed:
        folder = BatchFolder(home / BATCHES / name)
        # One that was submitted just now has no run yet.
        if folder.last_change() > since:
            continue
        removed += 1
        if not dry_run:
            remove_whole(folder.path)
    return removed


def _is_taken(name: str) -> UsageError:
    return UsageError(
        f"there is a batch {name} already",
        f"goal batch --resume {name} goes on with it; "
        "or choose another name: --name NAME",
    )


def _damaged(path: Path, error: Exception) -> RecordError:
    return RecordError(
        f"the batch was made by another version of goal, or {path} is damaged: "
        f"{one_line(str(error))}",
        "submit the goals again: goal batch GOALS",
    )
