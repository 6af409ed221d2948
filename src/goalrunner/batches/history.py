"""What has happened in a batch: the events of its log, and the state they lead to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from goalrunner.batches.plan import BatchEntry, BatchLimits, BatchPlan
from goalrunner.core.field_types import Frozen


class EntryStarted(Frozen):
    """A process is about to run, or to resume, the run of an entry."""

    type: Literal["entry_started"] = "entry_started"
    at: str
    key: str
    run_id: str


class EntryEnded(Frozen):
    """The run of an entry has ended, and its outcome is written."""

    type: Literal["entry_ended"] = "entry_ended"
    at: str
    key: str
    status: str
    """That of the outcome: complete, capped, blocked, failed or cancelled. A run that
    never began has failed.
    """
    message: str = ""
    """Why it ended."""
    stopped: bool = False
    """Whether the batch stopped the run, so that `goal batch --resume` goes on."""


class EntrySkipped(Frozen):
    """An entry will not be run, because what it depends on is not complete."""

    type: Literal["entry_skipped"] = "entry_skipped"
    at: str
    key: str
    reason: str


class BatchStopped(Frozen):
    """No further entry begins: a limit is reached, or a person stopped the batch."""

    type: Literal["batch_stopped"] = "batch_stopped"
    at: str
    reason: str
    ends_runs: bool = True
    """Whether the runs at work are stopped as well; otherwise they go on to their end.
    """
    cancelled: bool = False
    """Whether `goal cancel` ended it, so that it cannot be resumed."""


class BatchResumed(Frozen):
    """The batch goes on, with these limits.

    Entries that failed or were skipped begin again, and so do those whose process was
    lost with the earlier scheduler.
    """

    type: Literal["batch_resumed"] = "batch_resumed"
    at: str
    limits: BatchLimits
    jobs: int


class EntryIntegrated(Frozen):
    """The change of an entry is verified on the branch of the batch, or is left out."""

    type: Literal["entry_integrated"] = "entry_integrated"
    at: str
    key: str
    branch: str
    commit: str = ""
    """Empty: it was left out."""
    reason: str = ""
    """Why it was left out."""


BatchEvent = Annotated[
    EntryStarted
    | EntryEnded
    | EntrySkipped
    | BatchStopped
    | BatchResumed
    | EntryIntegrated,
    Field(discriminator="type"),
]
"""All events of a batch, in `type` and `at` (ISO 8601, UTC) alike."""

EVENT: TypeAdapter[BatchEvent] = TypeAdapter(BatchEvent)

EntryStatus = Literal["pending", "running", "stopped", "ended", "skipped"]


@dataclass(frozen=True)
class EntryState:
    """How far an entry is."""

    entry: BatchEntry
    status: EntryStatus = "pending"
    run_id: str = ""
    """Empty before the first start. A retry and a resume are the same run."""
    started_at: str = ""
    """When its last process was started."""
    starts: int = 0
    """How often a process was started for it."""
    failures: int = 0
    """How often its run failed since the batch was submitted or resumed."""
    losses: int = 0
    """How often its process was killed without an outcome since then."""
    outcome: str = ""
    """The status of the run's outcome, once it has ended."""
    message: str = ""
    """Why it ended, was stopped or was skipped."""
    commit: str = ""
    """The verified commit with its change; empty: none."""
    left_out: str = ""
    """Why its change is not on the branch of the batch; empty: it is, or no attempt was
    made.
    """

    @property
    def is_complete(self) -> bool:
        """Whether the run has ended with a proof."""
        return self.status == "ended" and self.outcome == "complete"

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it in this batch."""
        return self.status in ("ended", "skipped")


@dataclass(frozen=True)
class BatchState:
    """A plan, and what has become of it."""

    plan: BatchPlan
    limits: BatchLimits
    jobs: int
    entries: dict[str, EntryState] = field(default_factory=dict)
    """By key, in the order of the plan."""
    stopped: BatchStopped | None = None
    branch: str = ""
    """The branch with the verified changes; empty: none."""
    updated_at: str = ""
    """When the last event happened, in ISO 8601; the submission before the first."""

    @property
    def complete(self) -> int:
        """The number of complete entries."""
        return sum(entry.is_complete for entry in self.entries.values())

    @property
    def needed(self) -> int:
        """The number of complete entries that make the batch a success."""
        if self.plan.at_least is not None:
            return self.plan.at_least
        return 1 if self.plan.kind == "group" else len(self.entries)

    @property
    def is_success(self) -> bool:
        """Whether enough entries are complete."""
        return self.complete >= self.needed


def batch_state(plan: BatchPlan, events: Iterable[BatchEvent]) -> BatchState:
    """Return the state of a batch after these events."""
    entries = {entry.key: EntryState(entry) for entry in plan.entries}
    state = BatchState(
        plan, plan.limits, plan.jobs, entries, updated_at=plan.created_at
    )
    for event in events:
        state = after(state, event)
    return state


def after(state: BatchState, event: BatchEvent) -> BatchState:
    """Return the state after one more event."""
    state = replace(state, updated_at=event.at)
    match event:
        case BatchStopped():
            return replace(state, stopped=event)
        case BatchResumed(limits=limits, jobs=jobs):
            entries = {key: _reopened(entry) for key, entry in state.entries.items()}
            return replace(
                state, stopped=None, limits=limits, jobs=jobs, entries=entries
            )
        # A change that is left out makes no branch.
        case EntryIntegrated(branch=branch, commit=commit) if commit:
            state = replace(state, branch=branch)
    entry = _entry_after(state.entries[event.key], event)
    return replace(state, entries={**state.entries, event.key: entry})


def _reopened(state: EntryState) -> EntryState:
    """Return an entry as it is when the batch is resumed."""
    status: EntryStatus = state.status
    if status == "skipped":
        status = "pending"
    elif status == "running" or state.outcome == "failed":
        # A capped or blocked run stays ended: it needs a new limit, or a decision.
        status = "stopped"
    # A service that failed may be well again, so attempts are counted anew.
    return replace(state, status=status, failures=0, losses=0)


def _entry_after(
    state: EntryState,
    event: EntryStarted | EntryEnded | EntrySkipped | EntryIntegrated,
) -> EntryState:
    match event:
        case EntryStarted(run_id=run_id, at=started_at):
            return replace(
                state,
                status="running",
                run_id=run_id,
                started_at=started_at,
                starts=state.starts + 1,
                # Without an end between, the earlier process left no outcome.
                losses=state.losses + (state.status == "running"),
                outcome="",
                message="",
            )
        case EntryEnded(status=outcome, message=message, stopped=stopped):
            return replace(
                state,
                status="stopped" if stopped else "ended",
                failures=state.failures + (outcome == "failed"),
                outcome=outcome,
                message=message,
            )
        case EntrySkipped(reason=reason):
            return replace(state, status="skipped", message=reason)
        case EntryIntegrated(commit=commit, reason=reason):
            return replace(state, commit=commit, left_out=reason)
