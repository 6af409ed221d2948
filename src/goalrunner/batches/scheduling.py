"""What a batch does next. Pure: it reads the state of the batch, and no clock."""

from __future__ import annotations

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
    # One that is skipped may let further ones be skipped, so these come first.
    return _skips(state) or _starts(state)


def is_waiting(state: BatchState, entry: EntryState) -> bool:
    """Return whether an entry is still to be run, again or for the first time."""
    if entry.status in ("pending", "stopped"):
        return True
    is_failed = entry.status == "ended" and entry.outcome == "failed"
    return is_failed and entry.failures <= state.plan.retries


def failures(state: BatchState) -> int:
    """Return the number of entries that have ended without success."""
    number = 0
    for entry in state.entries.values():
        if entry.status != "ended" or entry.is_complete:
            continue
        if not is_waiting(state, entry):
            number += 1
    return number


def reached_budget(limits: BatchLimits, spent: Spent) -> str:
    """Return which shared budget is spent, in words; empty if none is."""
    if limits.cost_usd is not None and spent.cost_usd >= limits.cost_usd:
        return f"the cost limit of ${limits.cost_usd:.2f} is reached"
    if limits.tokens is not None and spent.tokens >= limits.tokens:
        return f"the limit of {limits.tokens:,} tokens is reached"
    return ""


def _stop(state: BatchState, spent: Spent, now: datetime) -> StopBatch | None:
    """Return the stop that a limit demands; None if there is none, or it was made."""
    waits = any(is_waiting(state, entry) for entry in state.entries.values())
    reason = reached_budget(state.limits, spent) or _time_is_over(state.limits, now)
    # After a stop for failures, runs go on: a budget can still demand the other stop.
    is_made = state.stopped is not None and state.stopped.ends_runs
    # The end of the last run needs no stop.
    if reason and not is_made and (waits or _running(state)):
        return StopBatch(reason, ends_runs=True)
    most = state.limits.max_failures
    if most is None or state.stopped is not None or not waits:
        return None
    if failures(state) < most:
        return None
    noun = "goal" if most == 1 else "goals"
    return StopBatch(f"{most} {noun} ended without success", ends_runs=False)


def _time_is_over(limits: BatchLimits, now: datetime) -> str:
    """Return the words for a time limit that has passed; empty if none has."""
    if limits.until is None:
        return ""
    until = datetime.fromisoformat(limits.until)
    if now < until:
        return ""
    return f"the time is over: {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _running(state: BatchState) -> list[str]:
    """Return the keys of the entries whose process works."""
    entries = state.entries.items()
    return [key for key, entry in entries if entry.status == "running"]


def _stop_runs(state: BatchState) -> list[Action]:
    return [StopRun(key) for key in _running(state)]


def _skips(state: BatchState) -> list[Action]:
    """Return the entries that cannot begin, because one before them is not complete."""
    skips: list[Action] = []
    for key, entry in state.entries.items():
        if entry.status != "pending":
            continue
        lacking: list[str] = []
        for before in _entries_before(state, entry):
            is_open = before.is_complete or is_waiting(state, before)
            if before.is_over and not is_open:
                lacking.append(before.entry.name)
        if lacking:
            verb = "is" if len(lacking) == 1 else "are"
            skips.append(Skip(key, f"{some(lacking)} {verb} not complete"))
    return skips


def _starts(state: BatchState) -> list[Action]:
    """Return the entries that begin now, in the order of the plan."""
    free = state.jobs - len(_running(state))
    starts: list[Action] = []
    for key, entry in state.entries.items():
        if len(starts) >= free:
            break
        before = _entries_before(state, entry)
        if is_waiting(state, entry) and all(other.is_complete for other in before):
            starts.append(StartRun(key))
    return starts


def _entries_before(state: BatchState, entry: EntryState) -> list[EntryState]:
    return [state.entries[key] for key in entry.entry.after]
