"""Whose call a crash would cut: what it may have cost is estimated, and marked."""

from __future__ import annotations

import pytest

from goalrunner.core import events
from goalrunner.core.observation import Observation, TranscriptRef
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.run_state import RunState
from goalrunner.engine.resumption import usage_of_cut_call
from tests.support.folding import state_after

PLAN = events.RunRules(validators=("tests",))
TEXT = TranscriptRef(offset=0, length=1, sha256="0" * 64)
PROMPT = events.MessageRecorded(role="user", text=TEXT)
CALLED = events.ToolCalled(tool_call_id="c1", tool="shell", summary="pytest")
REPORTED = events.ToolResultRecorded(
    tool_call_id="c1",
    evidence_ref="o1",
    observation=Observation(id="o1", source="shell", round=1, reported_by="claude"),
)
USED = events.UsageRecorded(
    account="agent",
    usage=Usage(input_tokens=30, output_tokens=6, cost_usd=0.5, calls=1),
)
TIMEOUT = events.RunEnded(stop_reason=StopReason.TIMEOUT, message="late")
ASKED = events.ApprovalRequested(
    approval_id="a1", kind="shell", action="rm -r x", rule='require = ["shell"]'
)


def fold(command: str, *happened: events.Event) -> RunState:
    started = events.RunStarted(workspace="/w", version="1", agent_command=command)
    return state_after(
        PLAN, started, events.RoundStarted(round=1, prompt="first"), *happened
    )


@pytest.mark.parametrize(
    "cut_after",
    [(PROMPT,), (PROMPT, CALLED), (PROMPT, CALLED, REPORTED), (PROMPT, ASKED)],
)
def test_a_turn_of_an_external_agent_that_was_cut_is_never_taken_for_free(
    cut_after: tuple[events.Event, ...],
) -> None:
    state = fold("claude · claude -p", *cut_after)
    unknown = Usage(cost_usd=None, uncounted_calls=1)
    assert usage_of_cut_call(state, [{"role": "user", "content": "x" * 40}]) == {
        "agent": unknown
    }
    assert state.accounts() == {}
    over = fold("claude · claude -p", *cut_after, TIMEOUT)
    assert over.accounts() == {"agent": Usage.unknown()}
    assert usage_of_cut_call(over, []) == {"agent": unknown}


def test_once_it_has_said_what_it_used_nothing_is_estimated() -> None:
    state = fold("claude · claude -p", PROMPT, CALLED, REPORTED, USED)
    assert usage_of_cut_call(state, []) == {}


def test_what_it_does_after_such_a_report_is_estimated_by_it() -> None:
    state = fold(
        "opencode · opencode run", PROMPT, CALLED, REPORTED, USED, CALLED, REPORTED
    )
    assert usage_of_cut_call(state, []) == {
        "agent": Usage(
            input_tokens=30, output_tokens=6, cost_usd=0.5, estimated_tokens=36
        )
    }


def test_a_round_that_is_over_has_no_call_in_flight() -> None:
    state = fold(
        "claude · claude -p", PROMPT, CALLED, REPORTED, events.RoundFinished(round=1)
    )
    assert usage_of_cut_call(state, []) == {}


@pytest.mark.parametrize("last", [CALLED, ASKED])
def test_while_a_tool_of_the_built_in_agent_runs_no_model_is_asked(
    last: events.Event,
) -> None:
    assert usage_of_cut_call(fold("", PROMPT, last), []) == {}


def test_of_a_first_call_of_the_built_in_agent_what_was_sent_is_estimated() -> None:
    state = fold("", PROMPT)
    assert usage_of_cut_call(state, [{"role": "user", "content": "x" * 40}]) == {
        "agent": Usage(input_tokens=10, cost_usd=None, estimated_tokens=10)
    }


TOKENS = events.UsageRecorded(
    account="agent", usage=Usage(input_tokens=30, output_tokens=6, calls=1)
)
DOLLARS = events.UsageRecorded(account="agent", usage=Usage(cost_usd=0.5))
AGAIN = (
    events.RoundFinished(round=1),
    events.RoundStarted(round=2, prompt="retry"),
    PROMPT,
)


def test_tokens_and_dollars_that_were_told_apart_are_estimated_together() -> None:
    state = fold("claude · claude -p", PROMPT, TOKENS, DOLLARS, *AGAIN)
    told = Usage(input_tokens=30, output_tokens=6, cost_usd=0.5, estimated_tokens=36)
    assert usage_of_cut_call(state, []) == {"agent": told}
    assert usage_of_cut_call(state, [], frozenset({"cost_usd"})) == {
        "agent": told
    }  # a total that is lost with its process


def test_tokens_that_the_next_total_holds_are_not_counted_twice() -> None:
    state = fold("codex · codex exec", PROMPT, TOKENS, *AGAIN)
    assert usage_of_cut_call(state, [], frozenset({"tokens"})) == {"agent": Usage()}
    first = fold("codex · codex exec", PROMPT)
    assert usage_of_cut_call(first, [], frozenset({"tokens"})) == {
        "agent": Usage(cost_usd=None)
    }


def test_a_turn_after_one_of_which_nothing_was_told_is_as_unknown() -> None:
    nothing = events.UsageRecorded(account="agent", usage=Usage.unknown())
    state = fold("command · ./x", PROMPT, nothing, *AGAIN)
    assert usage_of_cut_call(state, []) == {
        "agent": Usage(cost_usd=None, uncounted_calls=1)
    }
    resumed = fold(
        "command · ./x",
        PROMPT,
        nothing,
        *AGAIN,
        events.RunResumed(
            plan=PLAN, version="1", in_flight=usage_of_cut_call(state, [])
        ),
    )
    assert resumed.total.uncounted_calls == 2
    assert (
        resumed.memory.budget_state.token_estimate,
        resumed.memory.budget_state.cost_cents,
    ) == (None, None)
