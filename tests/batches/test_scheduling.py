"""What a batch does next, by the state of its entries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from goalrunner.batches.history import (
    BatchEvent,
    BatchResumed,
    BatchState,
    BatchStopped,
    EntryEnded,
    EntrySkipped,
    EntryStarted,
    batch_state,
)
from goalrunner.batches.plan import BatchEntry, BatchLimits, BatchPlan
from goalrunner.batches.scheduling import (
    Action,
    Skip,
    Spent,
    StartRun,
    StopBatch,
    StopRun,
    next_actions,
)

AT = "2026-01-01T00:00:00+00:00"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def state_of(
    words: str, *, after: dict[str, tuple[str, ...]] | None = None, **fields: Any
) -> BatchState:
    """The state of entries 1, 2, 3, ... from one word each.

    `run` runs, `stop` was stopped, `-` is pending, `skip` was skipped; any other word is the status of an outcome.
    """
    entries = [
        BatchEntry(
            key=key,
            name=f"g{key}",
            source=f"/p/{key}.toml",
            objective=key,
            workspace="/p",
            after=(after or {}).get(key, ()),
        )
        for key in map(str, range(1, len(words.split()) + 1))
    ]
    values = {"batch_id": "b", "created_at": AT, "entries": entries, "jobs": 2}
    events: list[BatchEvent] = []
    for key, word in enumerate(words.split(), 1):
        events += _events(str(key), word)
    return batch_state(BatchPlan.model_validate(values | fields), events)


def _events(key: str, word: str) -> list[BatchEvent]:
    started = EntryStarted(at=AT, key=key, run_id=f"r{key}")
    match word:
        case "-":
            return []
        case "skip":
            return [EntrySkipped(at=AT, key=key, reason="")]
        case "run":
            return [started]
        case "stop":
            ended = EntryEnded(at=AT, key=key, status="cancelled", stopped=True)
            return [started, ended]
        case _:
            return [started, EntryEnded(at=AT, key=key, status=word)]


COST, TOKENS = BatchLimits(cost_usd=2), BatchLimits(tokens=1000)
LATE = BatchLimits(until="2026-01-01T11:00:00+00:00")
FAILURES = BatchLimits(max_failures=2)
ENOUGH = Spent(cost_usd=2.0, tokens=1000)


@pytest.mark.parametrize(
    ("words", "fields", "spent", "expected"),
    [
        ("- - -", {}, Spent(), [StartRun("1"), StartRun("2")]),
        ("run - -", {}, Spent(), [StartRun("2")]),
        ("run run -", {}, Spent(), []),
        ("complete stop -", {}, Spent(), [StartRun("2"), StartRun("3")]),
        ("complete complete", {}, Spent(), []),
        # Retries are for failures alone.
        ("failed capped blocked cancelled", {"retries": 1}, Spent(), [StartRun("1")]),
        ("failed", {}, Spent(), []),
        # An entry waits for those before it, and for their retries.
        ("- -", {"after": {"2": ("1",)}}, Spent(), [StartRun("1")]),
        ("run -", {"after": {"2": ("1",)}}, Spent(), []),
        ("complete -", {"after": {"2": ("1",)}}, Spent(), [StartRun("2")]),
        ("failed -", {"after": {"2": ("1",)}, "retries": 1}, Spent(), [StartRun("1")]),
        (
            "capped -",
            {"after": {"2": ("1",)}},
            Spent(),
            [Skip("2", "g1 is not complete")],
        ),
        (
            "skip -",
            {"after": {"2": ("1",)}},
            Spent(),
            [Skip("2", "g1 is not complete")],
        ),
        (
            "failed capped -",
            {"after": {"3": ("1", "2")}},
            Spent(),
            [Skip("3", "g1, g2 are not complete")],
        ),
        # Limits stop the batch once, unless nothing is left to stop.
        (
            "run -",
            {"limits": COST},
            ENOUGH,
            [StopBatch("the cost limit of $2.00 is reached", ends_runs=True)],
        ),
        (
            "run -",
            {"limits": TOKENS},
            ENOUGH,
            [StopBatch("the limit of 1,000 tokens is reached", ends_runs=True)],
        ),
        (
            "run -",
            {"limits": LATE},
            Spent(),
            [StopBatch("the time is over: 2026-01-01 11:00 UTC", ends_runs=True)],
        ),
        ("complete complete", {"limits": COST}, ENOUGH, []),
        (
            "failed",
            {"limits": COST, "retries": 1},
            ENOUGH,
            [StopBatch("the cost limit of $2.00 is reached", ends_runs=True)],
        ),
        ("run -", {"limits": COST}, Spent(cost_usd=1.99), [StartRun("2")]),
        (
            "failed capped - run",
            {"limits": FAILURES},
            Spent(),
            [StopBatch("2 goals ended without success", ends_runs=False)],
        ),
        ("failed run run -", {"limits": FAILURES, "retries": 1}, Spent(), []),
        ("failed capped run", {"limits": FAILURES}, Spent(), []),
        # A group ends at the first complete run.
        (
            "complete run - stop",
            {"kind": "group", "ends_at_first": True},
            Spent(),
            [StopRun("2")],
        ),
        ("complete run -", {"kind": "group"}, Spent(), [StartRun("3")]),
    ],
)
def test_what_is_done_next(
    words: str, fields: dict[str, Any], spent: Spent, expected: list[Action]
) -> None:
    assert next_actions(state_of(words, **fields), spent, NOW) == expected


@pytest.mark.parametrize(
    ("ends_runs", "expected"), [(True, [StopRun("1")]), (False, [])]
)
def test_nothing_begins_after_a_stop(ends_runs: bool, expected: list[Action]) -> None:
    state = state_of("run - failed", retries=5)
    stopped = BatchStopped(at=AT, reason="", ends_runs=ends_runs)
    state = batch_state(state.plan, [*_events("1", "run"), stopped])
    assert next_actions(state, Spent(), NOW) == expected


def test_a_resumed_batch_goes_on_with_what_failed_was_lost_or_was_skipped() -> None:
    words = "failed skip run complete capped stop"
    plan = state_of(words, jobs=9).plan
    events: list[BatchEvent] = []
    for key, word in enumerate(words.split(), 1):
        events += _events(str(key), word)
    resumed = BatchResumed(at=AT, limits=BatchLimits(), jobs=9)
    state = batch_state(plan, [*events, resumed])
    expected = [StartRun("1"), StartRun("2"), StartRun("3"), StartRun("6")]
    assert next_actions(state, Spent(), NOW) == expected
