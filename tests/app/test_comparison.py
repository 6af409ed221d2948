"""What earlier versions wrote of usage still holds: 0 stood there for what nobody knew."""

from __future__ import annotations

from typing import Any

import pytest

from goalrunner.app.verification import outcome_differs, summary_differs
from goalrunner.core import events
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import outcome_of, summary_of
from tests.support.folding import state_after
from tests.support.told_run import message

NEW = ("known_cost_usd", "uncounted_calls")


@pytest.fixture
def state() -> RunState:
    """A run whose agent told nothing of its first turn, and was cut in its second one."""
    return state_after(
        events.Plan(validators=("tests",)),
        events.RunStarted(workspace="/w", version="1", agent_command="x"),
        events.RoundStarted(round=1, prompt="first"),
        events.UsageRecorded(account="agent", usage=Usage.unknown()),
        events.RoundFinished(round=1),
        events.RoundStarted(round=2, prompt="retry"),
        message("user"),
        events.RunEnded(stop_reason=StopReason.TIMEOUT, message="late"),
    )


def test_an_outcome_of_schema_1_0_holds(state: RunState) -> None:
    now: dict[str, Any] = outcome_of(state).model_dump(mode="json")
    assert (now["schema_version"], now["usage"]["agent"]["uncounted_calls"]) == ("1.2", 2)
    assert outcome_differs(state, (), now) == ""
    old = {"input_tokens": 0, "output_tokens": 0, "cost_usd": None, "calls": 1, "retries": 0, "estimated_tokens": 0}
    before = {**now, "schema_version": "1.0", "usage": {"agent": old}}
    assert outcome_differs(state, (), before) == ""
    forged = {**before, "usage": {"agent": {**old, "input_tokens": 5}}}
    assert outcome_differs(state, (), forged) == "usage.agent.input_tokens is 5, and 0 by the log"
    assert "usage.agent.input_tokens is 0" in outcome_differs(state, (), {**now, "usage": {"agent": old}})


def test_a_summary_of_before_holds(state: RunState) -> None:
    now = summary_of(state)
    assert (now["tokens"], now["uncounted_calls"]) == (None, 2)
    assert summary_differs(state, now) == ""
    old = {key: value for key, value in now.items() if key not in NEW} | {"tokens": 0}
    assert summary_differs(state, old) == ""
    assert summary_differs(state, {**old, "tokens": 7}) == "tokens is 7, and 0 by the log"
