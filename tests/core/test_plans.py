"""What of an agent's plan is believed."""

from __future__ import annotations

import pytest

from goalrunner.core.events import PlanProposed
from goalrunner.core.observation import Observation
from goalrunner.engine.plans import settle_plan

KNOWN = {
    "o1": Observation(id="o1", source="shell", facts=("exit 0",), round=1),
    "o2": Observation(id="o2", source="plan", facts=("noted",), round=1),
    "o3": Observation(id="o3", source="shell", facts=("interrupted",), round=1),
    "o4": Observation(id="o4", source="edit_file", facts=("error",), round=1),
}


def test_a_step_that_a_result_shows_is_done() -> None:
    plan = PlanProposed(
        current="b", pending=("c",), completed={"a": "o1"}, stop_reason="none"
    )
    event, told = settle_plan(plan, KNOWN.get)
    assert (event.current, event.pending, event.completed, event.refused) == (
        "b",
        ("c",),
        {"a": "o1"},
        (),
    )
    assert event.stop_reason == "none"
    assert told == "The plan is kept: 1 completed, 1 pending.\n"


@pytest.mark.parametrize(
    ("step", "shown", "why"),
    [
        ("a", "o99", "there is no result o99"),
        ("a", "o2", "o2 shows nothing that was done"),
        ("a", "o3", "o3 shows nothing that was done"),
        ("a", "o4", "o4 shows nothing that was done"),
        ("audit-1", "o1", "its name is one of the runner's own"),
        ("audit-log", "o1", "its name is one of the runner's own"),
    ],
)
def test_a_step_without_evidence_is_refused_and_the_agent_is_told_why(
    step: str, shown: str, why: str
) -> None:
    event, told = settle_plan(
        PlanProposed(completed={"43 passed": "o1", step: shown}), KNOWN.get
    )
    assert (event.completed, event.refused) == ({"43 passed": "o1"}, (step,))
    assert f"- completed step 2 is not accepted: {why}" in told
    assert "43 passed" not in told, (
        "the agent's own words would stand in an observation that a judge may quote"
    )


def test_the_runners_own_steps_are_not_the_agents_to_name() -> None:
    event, told = settle_plan(
        PlanProposed(current="prove-1", pending=("audit-1", "mine")), KNOWN.get
    )
    assert (event.current, event.pending) == ("", ("mine",))
    assert "left out" in told
