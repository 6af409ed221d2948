"""When another agent of the goal takes over, and what the state then says."""

from __future__ import annotations

from typing import Any

import pytest

from goalrunner.core import events
from goalrunner.core.decision import RunRound, decide
from goalrunner.core.events import Event, RunRules
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.run_state import RunState
from goalrunner.core.state_outcome import outcome_of
from goalrunner.core.waiting import SwitchAgent, Wait
from goalrunner.engine.resumption import usage_of_cut_call
from tests.support.folding import state_after

DAY = 24 * 3600.0  # every event here happens at the beginning of 2026


def failed(**changes: Any) -> events.WorkFailed:
    """The agent is signed out."""
    fields = {
        "account": "agent",
        "kind": "permanent",
        "reason": "the agent a is signed out",
        "message": "sign in",
    }
    return events.WorkFailed(
        **{**fields, "stop_reason": StopReason.AUTHENTICATION, **changes}
    )


def heard() -> events.MessageRecorded:
    """The agent at work has its prompt."""
    return events.MessageRecorded(
        role="user", text=TranscriptRef(offset=0, length=1, sha256="0" * 64)
    )


def used(tokens: int) -> events.UsageRecorded:
    return events.UsageRecorded(
        account="agent", usage=Usage(input_tokens=tokens, calls=1)
    )


def switched(index: int, number: int = 1) -> events.AgentSwitched:
    before, agent = "abc"[index - 1], "abc"[index]
    return events.AgentSwitched(
        round=number, index=index, agent=agent, before=before, reason="signed out"
    )


def run_of(
    *happened: Event, agents: tuple[str, ...] = ("a", "b"), **rules: Any
) -> RunState:
    """A run whose first agent has its prompt, and then that happened."""
    plan = RunRules(**{"validators": ("tests",), "agents": agents, **rules})
    return state_after(
        plan, events.RoundStarted(round=1, prompt="first"), heard(), *happened
    )


LATER = {"kind": "limit", "resets_at": "2026-01-02T00:00:00+00:00"}
"""A limit that resets in a day."""


@pytest.mark.parametrize(
    ("failure", "rules", "step"),
    [
        (failed(), {}, SwitchAgent),
        (failed(), {"wait": DAY}, SwitchAgent),
        (failed(**LATER), {"wait": DAY}, Wait),
        (failed(**LATER), {"wait": None}, Wait),
        (failed(**LATER), {"wait": DAY - 1}, SwitchAgent),
        (failed(**LATER), {}, SwitchAgent),
        (failed(kind="overload"), {}, Wait),
        (failed(kind="overload", was_retried=True), {}, SwitchAgent),
        (failed(), {"agents": ()}, events.RunEnded),
        (failed(account="judge"), {}, events.RunEnded),
    ],
)
def test_what_cannot_be_waited_for_is_left_to_the_next_agent(
    failure: Event, rules: dict[str, Any], step: type
) -> None:
    assert type(decide(run_of(failure, **rules))) is step


def test_the_reason_does_not_repeat_the_name_of_the_agent() -> None:
    assert decide(run_of(failed())) == SwitchAgent(1, "b", "a", "is signed out")


def test_the_next_agent_gets_the_prompt_of_the_round() -> None:
    state = run_of(failed(), switched(1))
    assert (state.agent, state.prompted, state.failure) == (1, False, None)
    assert decide(state) == RunRound("first", 1)


def test_at_most_one_agent_takes_over_in_a_round() -> None:
    taken = (failed(), switched(1), heard())
    three = ("a", "b", "c")
    assert isinstance(decide(run_of(*taken, failed(), agents=three)), events.RunEnded)
    next_round = (
        events.RoundFinished(round=1),
        events.RoundStarted(round=2, prompt="retry"),
        heard(),
    )
    assert isinstance(
        decide(run_of(*taken, *next_round, failed(), agents=three)), SwitchAgent
    )


def test_a_run_that_is_resumed_after_its_end_may_go_on_with_the_third() -> None:
    rules = RunRules(validators=("tests",), agents=("a", "b", "c"))
    ended = (
        failed(),
        switched(1),
        heard(),
        failed(),
        events.RunEnded(stop_reason=StopReason.AUTHENTICATION),
    )
    resumed = events.RunResumed(plan=rules, version="0")
    assert isinstance(
        decide(run_of(*ended, resumed, heard(), failed(), agents=rules.agents)),
        SwitchAgent,
    )
    killed = (failed(), switched(1), heard(), resumed, failed())
    assert isinstance(decide(run_of(*killed, agents=rules.agents)), events.RunEnded)


def test_the_end_names_all_agents_that_could_not_go_on_and_why() -> None:
    end = decide(
        run_of(
            failed(),
            switched(1),
            heard(),
            failed(message="the agent b is used up\nwait for it"),
        )
    )
    assert isinstance(end, events.RunEnded)
    assert end.message.splitlines() == [
        "the agent b is used up",
        "wait for it",
        "a could not go on either: signed out",
    ]


def test_usage_is_counted_for_the_agent_at_work() -> None:
    state = run_of(used(5), failed(), switched(1), heard(), used(7))
    outcome = outcome_of(state)
    assert {name: usage.tokens for name, usage in outcome.agent_usage.items()} == {
        "a": 5,
        "b": 7,
    }
    assert outcome.usage["agent"].tokens == 12
    assert outcome_of(run_of(used(5))).agent_usage == {}


def test_the_usage_of_an_interrupted_turn_is_unknown_for_the_agent_at_work_alone() -> (
    None
):
    state = run_of(used(5), failed(), switched(1), heard()).replace(external=True)
    usage = outcome_of(state, lost=True).agent_usage
    assert (usage["a"].uncounted_calls, usage["b"].uncounted_calls) == (0, 1)


def test_an_interrupted_first_turn_of_the_next_agent_is_not_estimated_from_turns_of_the_one_before() -> (
    None
):
    before = run_of(used(5)).replace(external=True)
    assert usage_of_cut_call(before.replace(awaiting="agent"), ())["agent"].tokens == 5
    after = run_of(used(5), failed(), switched(1), heard()).replace(external=True)
    assert usage_of_cut_call(after, ())["agent"].uncounted_calls == 1


def test_the_label_names_the_agents_in_the_order_of_their_work() -> None:
    assert run_of().labels == ()
    once = run_of(failed(), switched(1))
    assert once.labels == ("agents: a, b",)
    again = (
        failed(),
        switched(1),
        events.RoundStarted(round=2, prompt="retry"),
        switched(2, 2),
    )
    assert run_of(*again, agents=("a", "b", "c")).labels == ("agents: a, b, c",)


@pytest.mark.parametrize(
    ("judge", "labels"),
    [("a", ["agents: a, b"]), ("b", ["agents: a, b", "self-judged"])],
)
def test_an_agent_that_is_the_judge_as_well_is_labelled_once_it_works(
    judge: str, labels: list[str]
) -> None:
    assert list(run_of(failed(), switched(1), self_judging=(judge,)).labels) == labels
