"""What a batch does next. Pure: it reads the state of the batch, and no clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from goalrunner.batches.history import BatchState, EntryState
from goalrunner.batches.plan import BatchLimits
from goalrunner.core.errors import some

MOST_LOSSES = 3
"""A run whose process was killed more often without an outcome has failed: the machine
may lack the memory for it.
"""


@dataclass(frozen=True)
class Spent:
    """What all runs of a batch have used, as far as it is known."""

    cost_usd: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class StartRun:
    """Run an entry, or resume its run."""

    key: str


@dataclass(frozen=True)
class StopRun:
    """End the run of an entry, so that it can be resumed."""

    key: str


@dataclass(frozen=True)
class Skip:
    """Do not run an entry."""

    key: str
    reason: str


@dataclass(frozen=True)
class StopBatch:
    """Begin no further entry; with `ends_runs`, end the runs at work as well."""

    reason: str
    ends_runs: bool


Action = StartRun | StopRun | Skip | StopBatch


def next_actions(state: BatchState, spent: Spent, now: datetime) -> list[Action]:
    """Return what is to be done now.

    A batch without an action and without a running entry is over. After a StopBatch or
    a Skip, further actions follow from the new state.
    """
    stop = _stop(state, spent, now)
    if stop is not None:
        return [stop]
    if state.stopped is not None:
        return _stop_runs(state) if state.stopped.ends_runs else []
    if state.plan.ends_at_first and state.is_success:
        return _stop_runs(state)
    skips = _skips(state)
    if skips:
        return skips
    running = [entry for entry in state.entries.values() if entry.status == "running"]
    free = max(0, state.jobs - len(running))
    ready = (entry for entry in state.entries.values() if _is_ready(state, entry))
    return [
        StartRun(entry.entry.key) for _, entry in zip(range(free), ready, strict=False)
    ]


def is_waiting(state: BatchState, entry: EntryState) -> bool:
    """Return whether an entry is still to be run, again or for the first time."""
    if entry.status in ("pending", "stopped"):
        return True
    is_failed = entry.status == "ended" and entry.outcome == "failed"
    return is_failed and entry.failures <= state.plan.retries


def failures(state: BatchState) -> int:
    """Return the number of entries that have ended without success."""
    ended = [entry for entry in state.entries.values() if entry.status == "ended"]
    return sum(
        not entry.is_complete and not is_waiting(state, entry) for entry in ended
    )


def reached_budget(limits: BatchLimits, spent: Spent) -> str:
    """Return which shared budget is spent, in words; empty if none is."""
    if limits.cost_usd is not None and spent.cost_usd >= limits.cost_usd:
        return f"the cost limit of ${limits.cost_usd:.2f} is reached"
    if limits.tokens is not None and spent.tokens >= limits.tokens:
        return f"the limit of {limits.tokens:,} tokens is reached"
    return ""


def _reached_limit(limits: BatchLimits, spent: Spent, now: datetime) -> str:
    if reason := reached_budget(limits, spent):
        return reason
    if limits.until is not None and now >= datetime.fromisoformat(limits.until):
        until = datetime.fromisoformat(limits.until).astimezone(UTC)
        return f"the time is over: {until:%Y-%m-%d %H:%M} UTC"
    return ""


def _stop(state: BatchState, spent: Spent, now: datetime) -> StopBatch | None:
    """Return the stop that a limit demands; None if there is none, or it was made."""
    ends_runs = state.stopped is not None and state.stopped.ends_runs
    is_open = any(not entry.is_over for entry in state.entries.values())
    reason = _reached_limit(state.limits, spent, now)
    if reason and is_open and not ends_runs:
        return StopBatch(reason, ends_runs=True)
    most = state.limits.max_failures
    if state.stopped is None and most is not None and failures(state) >= most:
        waits = any(is_waiting(state, entry) for entry in state.entries.values())
        if waits:
            noun = "goal" if most == 1 else "goals"
            return StopBatch(f"{most} {noun} ended without success", ends_runs=False)
    return None


def _stop_runs(state: BatchState) -> list[Action]:
    return [
        StopRun(key)
        for key, entry in state.entries.items()
        if entry.status == "running"
    ]


def _skips(state: BatchState) -> list[Action]:
    """Return the entries that cannot begin, because one before them is not complete."""
    skips: list[Action] = []
    for key, entry in state.entries.items():
        if entry.status != "pending":
            continue
        lacking = [
            before.entry.name
            for before in _entries_before(state, entry)
            if before.is_over
            and not before.is_complete
            and not is_waiting(state, before)
        ]
        if lacking:
            verb = "is" if len(lacking) == 1 else "are"
            skips.append(Skip(key, f"{some(lacking)} {verb} not complete"))
    return skips


def _is_ready(state: BatchState, entry: EntryState) -> bool:
    before = _entries_before(state, entry)
    return is_waiting(state, entry) and all(other.is_complete for other in before)


def _entries_before(state: BatchState, entry: EntryState) -> Iterator[EntryState]:
    return (state.entries[key] for key in entry.entry.after)
