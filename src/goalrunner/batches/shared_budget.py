"""The budget that the runs of a batch share: what each of them has used, in one file.

A run adds each call at once and sees what the others have used, so that no call begins
after the limit is known to be reached. Together they exceed it by a call each at most.
"""

from __future__ import annotations

import os
import signal
import struct
from pathlib import Path

from goalrunner.batches.history import BatchState
from goalrunner.batches.plan import BatchLimits
from goalrunner.batches.scheduling import Spent, reached_budget
from goalrunner.core.errors import record_errors
from goalrunner.core.events import Record, RunResumed, UsageRecorded
from goalrunner.core.outcome import Usage
from goalrunner.core.run_state import RunState

_SLOT = struct.Struct("<dq")
"""The dollars and tokens of one run, as far as they are known."""


class SpentFile:
    """The file: a slot for each entry of the batch."""

    def __init__(self, path: Path, state: BatchState) -> None:
        """Open the file, or make it. Raise RecordError."""
        self._offsets: dict[str, int] = {}
        for number, key in enumerate(state.entries):
            self._offsets[key] = number * _SLOT.size
        self._size = len(state.entries) * _SLOT.size
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        with record_errors(f"cannot write {path}"):
            self._handle = os.open(path, flags, 0o600)
            written = os.fstat(self._handle).st_size
            # Zeros are written now: a full disk must not stop the counting later.
            missing = bytes(max(0, self._size - written))
            os.pwrite(self._handle, missing, written)

    def write(self, key: str, spent: Spent) -> None:
        """Replace what the run of an entry has used."""
        # No lock is needed: each run writes to its own slot alone.
        content = _SLOT.pack(spent.cost_usd, spent.tokens)
        os.pwrite(self._handle, content, self._offsets[key])

    def total(self) -> Spent:
        """Return what all runs have used."""
        content = os.pread(self._handle, self._size, 0)
        total_cost, total_tokens = 0.0, 0
        for cost, tokens in _SLOT.iter_unpack(content):
            total_cost += cost
            total_tokens += tokens
        # Sums of dollars such as 0.1 + 0.2 are not exact.
        return Spent(round(total_cost, 9), total_tokens)

    def close(self) -> None:
        os.close(self._handle)


class BudgetObserver:
    """Counts what a run uses, and ends it when the shared budget is spent.

    The run can be resumed then.
    """

    def __init__(self, file: SpentFile, key: str, limits: BatchLimits) -> None:
        self._file = file
        self._key = key
        self._limits = limits
        self._spent = Spent()
        self._is_ended = False

    def on_state(self, state: RunState) -> None:
        """Count what an earlier process has used."""
        # The state has all calls of the run so far, so it replaces what was counted.
        self._spent = Spent()
        self._add(state.total)

    def on_record(self, record: Record) -> None:
        """Count a call."""
        match record.event:
            case UsageRecorded(usage=usage):
                self._add(usage)
            case RunResumed(in_flight=calls):
                for usage in calls.values():
                    self._add(usage)

    def _add(self, usage: Usage) -> None:
        cost = self._spent.cost_usd + usage.known_cost_usd
        self._spent = Spent(cost, self._spent.tokens + usage.tokens)
        self._file.write(self._key, self._spent)
        is_spent = bool(reached_budget(self._limits, self._file.total()))
        # A second signal would kill the children of the run at once.
        if is_spent and not self._is_ended:
            self._is_ended = True
            os.kill(os.getpid(), signal.SIGTERM)
