"""What follows when the agent or a model cannot go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from goalrunner.core import events
from goalrunner.core.decision import RunRound, ScoreRound, decide
from goalrunner.core.events import Event, RunRules
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import Failure, RunState
from goalrunner.core.waiting import SwitchAgent, Wait, after_failure, resume_at
from tests.support.folding import state_after

NOW = datetime(2026, 1, 1, tzinfo=UTC)  # the time of every event here
HOUR = 3600.0


def later(**after: float) -> str:
    return (NOW + timedelta(**after)).isoformat()


def failed(**changes: Any) -> events.WorkFailed:
    """A usage limit of the agent whose end is not known."""
    fields = {
        "account": "agent",
        "kind": "limit",
        "reason": "usage limit",
        "message": "the agent failed",
    }
    return events.WorkFailed(
        **{**fields, "stop_reason": StopReason.AGENT_FAILED, **changes}
    )


def failure(number: int = 1, **changes: Any) -> Failure:
    return Failure(
        **failed(**changes).model_dump(exclude={"type"}),
        at=NOW.isoformat(),
        number=number,
    )


def plan(**rules: Any) -> RunRules:
    return RunRules(**{"wait": 6 * HOUR, "validators": ("tests",), **rules})


def working(rules: RunRules, *happened: Event) -> RunState:
    """A run whose agent has its first prompt, and then that happened."""
    return state_after(rules, events.RoundStarted(round=1, prompt="first"), *happened)


def seconds_waited(number: int, **changes: Any) -> tuple[str, float] | None:
    """The kind and the seconds of the wait after that many failures in a row; None for the end of the run."""
    step = after_failure(working(plan()), failure(number, **changes))
    return (
        (step.kind, (step.until - NOW).total_seconds())
        if isinstance(step, Wait)
        else None
    )


@pytest.mark.parametrize(
    ("changes", "number", "wait"),
    [
        ({"resets_at": later(hours=2)}, 1, ("limit", 2 * HOUR)),
        ({"resets_at": later(hours=6)}, 1, ("limit", 6 * HOUR)),
        ({"resets_at": later(hours=7)}, 1, None),
        # A time that is over or too far away is not believed.
        ({"resets_at": later(seconds=-1)}, 1, ("limit", 60.0)),
        ({"resets_at": later(days=9)}, 3, ("limit", 240.0)),
        # A limit that goes on after its reset is not asked about every second.
        ({"resets_at": later(seconds=1)}, 1, ("limit", 1.0)),
        ({"resets_at": later(seconds=1)}, 2, ("limit", 60.0)),
        ({"resets_at": later(seconds=1)}, 4, ("limit", 240.0)),
        ({"resets_at": later(hours=2)}, 4, ("limit", 2 * HOUR)),
        # Without a known end, each wait is twice as long as the last.
        ({}, 1, ("limit", 60.0)),
        ({}, 2, ("limit", 120.0)),
        ({}, 5, ("limit", 960.0)),
        ({}, 6, ("limit", 1800.0)),
        ({}, 5_000, ("limit", 1800.0)),
        # An overload is tried again soon; then it is treated as a limit.
        ({"kind": "overload"}, 1, ("retry", 2.0)),
        ({"kind": "overload"}, 5, ("retry", 30.0)),
        ({"kind": "overload"}, 6, ("limit", 60.0)),
        ({"kind": "overload"}, 7, ("limit", 120.0)),
        ({"kind": "overload", "was_retried": True}, 1, ("limit", 60.0)),
        ({"kind": "overload", "resets_at": later(hours=1)}, 6, ("limit", HOUR)),
        ({"kind": "permanent"}, 1, None),
        ({"kind": "permanent", "resets_at": later(hours=1)}, 1, None),
    ],
)
def test_how_long_a_failure_is_waited_for(
    changes: dict[str, Any], number: int, wait: tuple[str, float] | None
) -> None:
    assert seconds_waited(number, **changes) == wait


@pytest.mark.parametrize(
    ("wait", "waited", "waits"),
    [
        (6 * HOUR, 0.0, True),
        (6 * HOUR, 5 * HOUR, True),
        (6 * HOUR, 5.5 * HOUR, False),
        (0.0, 0.0, False),
    ],
)
def test_the_goal_bounds_the_sum_of_all_waits(
    wait: float, waited: float, *, waits: bool
) -> None:
    state = working(plan(wait=wait)).replace(waited=waited)
    assert (
        isinstance(after_failure(state, failure(resets_at=later(hours=1))), Wait)
        == waits
    )


def test_without_a_bound_a_run_waits_for_any_limit() -> None:
    state = working(plan(wait=None)).replace(waited=1e6)
    assert isinstance(after_failure(state, failure(resets_at=later(days=7))), Wait)


def test_an_overload_is_tried_again_even_if_the_run_does_not_wait() -> None:
    state = working(plan(wait=0.0))
    assert isinstance(after_failure(state, failure(kind="overload")), Wait)
    assert isinstance(
        after_failure(state, failure(6, kind="overload")), events.RunEnded
    )


def test_the_end_of_a_run_that_does_not_wait_names_the_time() -> None:
    ended = after_failure(working(plan(wait=0.0)), failure(resets_at=later(hours=2)))
    assert ended == events.RunEnded(
        stop_reason=StopReason.AGENT_FAILED,
        message="the agent failed\nthe limit resets at 2026-01-01 02:00:00 UTC",
    )
    unknown = after_failure(working(plan(wait=0.0)), failure())
    assert unknown == events.RunEnded(
        stop_reason=StopReason.AGENT_FAILED, message="the agent failed"
    )


def test_another_agent_takes_over_once_in_a_round() -> None:
    state = working(plan(agents=("claude", "codex", "qwen")))
    assert after_failure(state, failure(kind="permanent")) == SwitchAgent(
        1, "codex", "claude", "usage limit"
    )
    assert isinstance(after_failure(state, failure(resets_at=later(hours=1))), Wait)
    assert isinstance(
        after_failure(state.replace(switched=True), failure(kind="permanent")),
        events.RunEnded,
    )
    assert isinstance(
        after_failure(state.replace(agent=2), failure(kind="permanent")),
        events.RunEnded,
    )
    assert isinstance(
        after_failure(state, failure(kind="permanent", account="judge")),
        events.RunEnded,
    )


def test_a_round_whose_critic_cannot_be_asked_is_checked_as_it_is() -> None:
    rules = plan(critic=events.CriticRule(name="critic"), wait=0.0)
    failing = failed(account="critic", message="no answer\ntry again")
    state = working(
        rules, events.RoundFinished(round=1), events.CritiqueStarted(round=1), failing
    )
    assert decide(state) == ScoreRound(1, problem="no answer")


WAITS = events.WaitStarted(
    account="agent", kind="limit", reason="usage limit", until=later(hours=2)
)


def test_a_wait_goes_on_until_its_end_and_the_work_is_tried_again() -> None:
    prompted = events.MessageRecorded(
        role="user", text=TranscriptRef(offset=0, length=1, sha256="0" * 64)
    )
    waiting = working(plan(), prompted, failed(), WAITS)
    assert decide(waiting) == Wait(
        "agent", "limit", "usage limit", NOW + timedelta(hours=2), 1, begun=True
    )
    assert (resume_at(waiting), waiting.awaiting) == (WAITS.until, None)
    again = working(plan(), prompted, failed(), WAITS, events.WaitEnded())
    assert decide(again) == RunRound("resumed", 1)
    assert (resume_at(again), again.awaiting) == ("", "agent")


def resumed(rules: RunRules, *before: Event) -> RunState:
    """A run that waits, in which that happened before it was resumed with these rules."""
    return working(
        plan(), failed(), WAITS, *before, events.RunResumed(plan=rules, version="0")
    )


INTERRUPTED = events.RunEnded(stop_reason=StopReason.INTERRUPTED, message="interrupted")


@pytest.mark.parametrize("before", [(), (INTERRUPTED,)])
def test_a_run_that_is_resumed_during_its_wait_waits_on(
    before: tuple[Event, ...],
) -> None:
    state = resumed(plan(), *before)
    assert decide(state) == Wait(
        "agent", "limit", "usage limit", NOW + timedelta(hours=2), 1, begun=True
    )


@pytest.mark.parametrize("before", [(), (INTERRUPTED,)])
def test_a_run_that_is_resumed_without_a_wait_tries_at_once(
    before: tuple[Event, ...],
) -> None:
    state = resumed(plan(wait=0.0), *before)
    assert isinstance(decide(state), RunRound)
    assert (state.failure, state.failures, state.wait) == (None, {}, None)


def test_the_sum_of_the_waits_begins_again_when_a_person_resumes_an_ended_run() -> None:
    before = (failed(), WAITS, events.WaitEnded(), failed())
    killed = working(plan(), *before).replace(waited=4 * HOUR)
    assert killed.waited == 4 * HOUR
    ended = working(
        plan(), *before, INTERRUPTED, events.RunResumed(plan=plan(), version="0")
    )
    assert (ended.waited, ended.failure) == (0.0, None)


def test_a_limit_that_ended_the_run_is_named() -> None:
    known = failed(resets_at=later(hours=9))
    ended = events.RunEnded(
        stop_reason=StopReason.AGENT_FAILED, message="the agent failed"
    )
    assert resume_at(working(plan(), known, ended)) == later(hours=9)
    assert resume_at(working(plan(), failed(), ended)) == ""


def test_a_limit_after_overloads_is_the_first_limit() -> None:
    overloads = (failed(kind="overload"), events.WaitEnded()) * 3
    state = working(plan(), *overloads, failed(resets_at=later(hours=1)))
    step = decide(state)
    assert isinstance(step, Wait)
    assert (step.kind, step.number, step.until) == (
        "limit",
        1,
        NOW + timedelta(hours=1),
    )
