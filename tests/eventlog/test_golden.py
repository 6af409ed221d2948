"""Logs of earlier schema versions, as real runs wrote them, fold to what they always meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.eventlog import read_records
from goalrunner.model.outcome import GoalStatus, StopReason
from goalrunner.state import RunState, apply
from goalrunner.state.evidence import evidence_of

GOLDEN = Path(__file__).with_name("golden")


def folded(path: Path, *, twice: bool = False) -> RunState:
    """The state of a log; `twice` applies each record two times."""
    state: RunState | None = None
    for record in read_records(path):
        state = apply(state, record)
        state = apply(state, record) if twice else state
    assert state is not None
    return state


def test_schema_1_0() -> None:
    """Three rounds of the quickstart: a red one, one that the judge refuses, and the one that is proven."""
    state = folded(GOLDEN / "1.0.jsonl")
    assert (state.status, state.stop_reason) == (GoalStatus.COMPLETE, StopReason.SATISFIED)
    assert (state.round, state.iterations, state.memory.version) == (3, 3, 74)
    assert [(attempt.attempt, attempt.passed) for attempt in state.attempts] == [(1, False), (2, False), (3, True)]
    assert (state.total.tokens, state.total.calls) == (18_730, 9)
    assert (state.goal.status, state.memory.stop_reason) == ("completed", "success")
    _, rows = evidence_of(read_records(GOLDEN / "1.0.jsonl"))
    assert sum(row.satisfied for row in rows) == len(rows) > 0


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_record_that_is_applied_twice_changes_nothing(path: Path) -> None:
    assert folded(path, twice=True) == folded(path)


def test_schema_1_2() -> None:
    """An external agent: a red round, one whose report is stale, and one in which nothing changed, so that it counts."""
    state = folded(GOLDEN / "1.2.jsonl")
    assert (state.status, state.stop_reason) == (GoalStatus.COMPLETE, StopReason.SATISFIED)
    assert (state.round, state.iterations, state.sandbox) == (3, 3, "none")
    assert [(attempt.attempt, attempt.passed) for attempt in state.attempts] == [(1, False), (2, False), (3, True)]
    assert state.kept
    assert state.usage["agent"].cost_usd == pytest.approx(0.75)
    _, rows = evidence_of(read_records(GOLDEN / "1.2.jsonl"))
    assert (rows[0].observation, rows[0].seen_by, rows[0].fresh) == ("o6", "double", True)
    assert all(row.satisfied for row in rows)
    assert not [record for record in read_records(GOLDEN / "1.2.jsonl") if record.event.type == "unrecognised"]


def test_schema_1_3() -> None:
    """An external agent: a round that told what it used, one that was killed, one that told nothing, and the last."""
    state = folded(GOLDEN / "1.3.jsonl")
    assert (state.status, state.stop_reason, state.resumes) == (GoalStatus.COMPLETE, StopReason.SATISFIED, 2)
    used = state.usage["agent"]
    assert (used.input_tokens, used.output_tokens, used.estimated_tokens, used.uncounted_calls) == (207, 21, 110, 1)
    assert (used.cost_usd, used.known_cost_usd) == (None, 0.75)
    assert state.plan.unenforced == ("cost_usd",)
    assert not [record for record in read_records(GOLDEN / "1.3.jsonl") if record.event.type == "unrecognised"]
