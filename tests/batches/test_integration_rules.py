"""Which goals of a batch come onto its branch, and in which order."""

from __future__ import annotations

import pytest

from goalrunner.batches.history import (
    BatchEvent,
    BatchState,
    EntryEnded,
    EntryIntegrated,
    EntryStarted,
    batch_state,
)
from goalrunner.batches.integration_rules import (
    NOTHING_CHANGED,
    Decisions,
    decisions_on,
    integration_order,
    lasting_decisions,
    missing_dependency,
)
from goalrunner.batches.plan import BatchEntry, BatchPlan

AT = "2026-01-01T00:00:00+00:00"
TAKEN, LEFT_OUT = "c0ffee", ""


def _state(after: dict[str, tuple[str, ...]], incomplete: str = "") -> BatchState:
    """A batch of the keys 1, 2, 3; `incomplete` are those that are not complete."""
    entries = [
        BatchEntry(
            key=key,
            name=f"goal-{key}",
            source="/p/goal.toml",
            objective=key,
            workspace="/p",
            after=after.get(key, ()),
        )
        for key in "123"
    ]
    plan = BatchPlan(batch_id="night", created_at=AT, entries=tuple(entries), jobs=1)
    events: list[BatchEvent] = []
    for key in "123":
        status = "capped" if key in incomplete else "complete"
        events.append(EntryStarted(at=AT, key=key, run_id=f"r{key}"))
        events.append(EntryEnded(at=AT, key=key, status=status))
    return batch_state(plan, events)


def _decided(**commits: str) -> dict[str, EntryIntegrated]:
    """Decisions by key, written as `k1=commit`."""
    return {
        name[1:]: EntryIntegrated(
            at=AT,
            key=name[1:],
            branch="b",
            commit=commit,
            reason="" if commit else "red",
        )
        for name, commit in commits.items()
    }


@pytest.mark.parametrize(
    ("after", "incomplete", "decisions", "order"),
    [
        ({}, "", {}, "123"),
        ({"1": ("3",)}, "", {}, "312"),
        ({"1": ("2",), "2": ("3",)}, "", {}, "321"),
        ({"1": ("3",)}, "3", {}, "12"),
        ({}, "", _decided(k1=TAKEN, k2=LEFT_OUT), "3"),
    ],
)
def test_complete_goals_come_in_the_order_of_the_plan_after_those_they_need(
    after: dict[str, tuple[str, ...]], incomplete: str, decisions: Decisions, order: str
) -> None:
    state = _state(after, incomplete)
    assert "".join(integration_order(state, decisions)) == order


@pytest.mark.parametrize(
    ("decisions", "reason"),
    [
        (_decided(k1=TAKEN), ""),
        (_decided(k1=LEFT_OUT), "it comes after goal-1, which is not on the branch"),
        ({}, "it comes after goal-1, which is not on the branch"),
        (
            {"1": EntryIntegrated(at=AT, key="1", branch="b", reason=NOTHING_CHANGED)},
            "",
        ),
    ],
)
def test_a_goal_is_left_out_with_one_that_it_needs(
    decisions: Decisions, reason: str
) -> None:
    assert missing_dependency(_state({"2": ("1",)}), "2", decisions) == reason


@pytest.mark.parametrize(
    ("decisions", "commits", "lasting"),
    [
        (_decided(k1=TAKEN, k2=LEFT_OUT), {TAKEN}, "12"),
        (_decided(k1=TAKEN, k2=LEFT_OUT), {"another"}, "2"),
        (_decided(k1=TAKEN, k2=LEFT_OUT), None, ""),
        (_decided(k2=LEFT_OUT), None, "2"),
        (_decided(k3=TAKEN), None, ""),
    ],
)
def test_decisions_hold_until_a_person_removes_the_commit_or_the_branch(
    decisions: Decisions, commits: set[str] | None, lasting: str
) -> None:
    kept = lasting_decisions(decisions, ("1", "2"), commits)
    assert "".join(kept) == lasting


def test_the_last_decision_for_a_branch_counts() -> None:
    first, second = _decided(k1=LEFT_OUT)["1"], _decided(k1=TAKEN)["1"]
    elsewhere = first.model_copy(update={"branch": "other"})
    assert decisions_on("b", [first, second, elsewhere]) == {"1": second}


def test_a_batch_has_no_branch_before_a_change_is_taken() -> None:
    state = _state({})
    [left_out] = _decided(k1=LEFT_OUT).values()
    [taken] = _decided(k2=TAKEN).values()
    events = [left_out, taken]
    branches = [batch_state(state.plan, events[:number]).branch for number in range(3)]
    assert branches == ["", "", "b"]
