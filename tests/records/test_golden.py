"""Logs as real runs wrote them fold to what they always meant.

In three of them, of earlier schemas at first, the last check of the round is a second run in a clean checkout.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.core.evidence_index import evidence_of
from goalrunner.core.fold import apply
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.core.run_state import RunState
from goalrunner.core.state_outcome import outcome_of
from goalrunner.records.event_log import read_records

GOLDEN = Path(__file__).with_name("golden")


def folded(path: Path, *, twice: bool = False) -> RunState:
    """The state of a log; `twice` applies each record two times."""
    state: RunState | None = None
    for record in read_records(path):
        state = apply(state, record)
        state = apply(state, record) if twice else state
    assert state is not None
    return state


@pytest.mark.parametrize(
    ("name", "observation"),
    [("quickstart", "o13"), ("external_agent", "o8"), ("resumed", "o5")],
)
def test_the_last_check_of_a_round_is_its_evidence(name: str, observation: str) -> None:
    path = GOLDEN / f"{name}.jsonl"
    state = folded(path)
    assert [(item.passed, item.observation) for item in state.validators] == [
        (True, observation)
    ]
    assert state.memory.step_evidence["prove-3"] == observation
    _, rows = evidence_of(read_records(path))
    assert [
        (row.observation, row.known, row.fresh)
        for row in rows
        if row.kind == "validator"
    ] == [(observation, True, True)]


def test_three_rounds_of_the_quickstart() -> None:
    """Three rounds of the quickstart: a red one, one that the judge refuses, and the one that is proven."""
    state = folded(GOLDEN / "quickstart.jsonl")
    assert (state.status, state.stop_reason) == (
        GoalStatus.COMPLETE,
        StopReason.SATISFIED,
    )
    assert (state.round, state.iterations, state.memory.version) == (3, 3, 74)
    assert [(attempt.attempt, attempt.passed) for attempt in state.attempts] == [
        (1, False),
        (2, False),
        (3, True),
    ]
    assert (state.total.tokens, state.total.calls) == (18_730, 9)
    assert (state.goal.status, state.memory.stop_reason) == ("completed", "success")
    _, rows = evidence_of(read_records(GOLDEN / "quickstart.jsonl"))
    assert sum(row.satisfied for row in rows) == len(rows) > 0


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem
)
def test_a_record_that_is_applied_twice_changes_nothing(path: Path) -> None:
    assert folded(path, twice=True) == folded(path)


def test_an_external_agent() -> None:
    """An external agent: a red round, one whose report is stale, and one in which nothing changed, so that it counts."""
    state = folded(GOLDEN / "external_agent.jsonl")
    assert (state.status, state.stop_reason) == (
        GoalStatus.COMPLETE,
        StopReason.SATISFIED,
    )
    assert (state.round, state.iterations, state.sandbox) == (3, 3, "none")
    assert [(attempt.attempt, attempt.passed) for attempt in state.attempts] == [
        (1, False),
        (2, False),
        (3, True),
    ]
    assert state.kept
    assert state.usage["agent"].cost_usd == pytest.approx(0.75)
    _, rows = evidence_of(read_records(GOLDEN / "external_agent.jsonl"))
    assert (rows[0].observation, rows[0].seen_by, rows[0].fresh) == (
        "o6",
        "double",
        True,
    )
    assert all(row.satisfied for row in rows)


def test_a_run_that_was_killed_and_resumed() -> None:
    """An external agent: a round that told what it used, one that was killed, one that told nothing, and the last."""
    state = folded(GOLDEN / "resumed.jsonl")
    assert (state.status, state.stop_reason, state.resumes) == (
        GoalStatus.COMPLETE,
        StopReason.SATISFIED,
        2,
    )
    used = state.usage["agent"]
    assert (
        used.input_tokens,
        used.output_tokens,
        used.estimated_tokens,
        used.uncounted_calls,
    ) == (207, 21, 110, 1)
    assert (used.cost_usd, used.known_cost_usd) == (None, 0.75)
    assert state.plan.unenforced == ("cost_usd",)


def test_checks_in_place() -> None:
    """Checks in place: a round that a person denies the changed test of, and one whose test is checked as it was."""
    state = folded(GOLDEN / "in_place.jsonl")
    assert (state.status, state.stop_reason, state.check_environment) == (
        GoalStatus.COMPLETE,
        StopReason.SATISFIED,
        "in-place",
    )
    assert (state.round, state.iterations, state.plan.hidden) == (2, 2, ("hush",))
    assert [(attempt.attempt, attempt.passed) for attempt in state.attempts] == [
        (1, False),
        (2, True),
    ]
    assert [(item.kind, item.decision) for item in state.approvals] == [
        ("checks", "denied")
    ]
    outcome = outcome_of(state)
    assert (outcome.labels, outcome.differing) == (
        ("self-judged", "not verified: tests/check.sh"),
        ("tests/check.sh",),
    )
    assert [(item.name, item.hidden, item.passed) for item in state.validators] == [
        ("check", False, True),
        ("hush", True, True),
    ]
    _, rows = evidence_of(read_records(GOLDEN / "in_place.jsonl"))
    assert all(row.satisfied and row.known for row in rows)
