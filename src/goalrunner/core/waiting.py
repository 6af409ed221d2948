"""What follows when the agent or a model cannot go on: a short pause, a wait until a limit resets, another agent, or the end.

Pure: times come from the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from goalrunner.core.events import Account, RunEnded
from goalrunner.core.run_state import Failure, RunState, Waiting

LONGEST_LIMIT = timedelta(days=8)
"""A limit that is said to reset later than this is not believed; the longest limits of providers last a week."""

RETRY_PAUSES = (2.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds before each repetition of work that an overload stopped; they count as active time."""

LONGEST_PAUSE = timedelta(minutes=30)
"""The longest wait for a limit whose end is not known; the first lasts a minute, and each is twice as long as the last."""


@dataclass(frozen=True)
class Wait:
    """Wait, without a process of the agent, before the work of `account` is tried again."""

    account: Account
    kind: Literal["limit", "retry"]
    """"retry": the time counts as active time."""
    reason: str
    until: datetime
    number: int
    begun: bool = False
    """Whether the wait is recorded already."""


@dataclass(frozen=True)
class SwitchAgent:
    """Let another agent of the goal take the round over."""

    index: int
    agent: str
    before: str
    """The name of the agent that cannot go on."""
    reason: str
    """Why it cannot."""


def seconds_between(start: str, end: str) -> float:
    """Return the seconds from one time to another (ISO 8601), at least 0."""
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def wait_at_hand(waiting: Waiting) -> Wait:
    """Return the step that goes on with a wait that an earlier process may have begun."""
    until = datetime.fromisoformat(waiting.until)
    return Wait(waiting.account, waiting.kind, waiting.reason, until, waiting.number, begun=True)


def after_failure(state: RunState, failure: Failure) -> Wait | SwitchAgent | RunEnded:
    """Return what follows a failure: a wait if it passes within the goal's `wait`, else the next agent, else the end."""
    pauses = () if failure.was_retried else RETRY_PAUSES
    if failure.kind == "overload" and failure.number <= len(pauses):
        until = datetime.fromisoformat(failure.at) + timedelta(seconds=pauses[failure.number - 1])
        return Wait(failure.account, "retry", failure.reason, until, failure.number)
    if failure.kind != "permanent":
        until = passes_at(failure)
        length = (until - datetime.fromisoformat(failure.at)).total_seconds()
        if state.plan.wait is None or state.waited + length <= state.plan.wait:
            return Wait(failure.account, "limit", failure.reason, until, failure.number)
    following = state.agent + 1
    if failure.account == "agent" and not state.switched and following < len(state.plan.agents):
        before = state.plan.agents[state.agent]
        reason = failure.reason.removeprefix(f"the agent {before} ")
        return SwitchAgent(following, state.plan.agents[following], before, reason)
    return RunEnded(stop_reason=failure.stop_reason, message=failure.message + _earlier(state, failure))


def _earlier(state: RunState, failure: Failure) -> str:
    """Return the agents that gave up before the one that failed, and why, as more lines of a message."""
    if failure.account != "agent":
        return ""
    return "".join(f"\n{name} could not go on either: {reason}" for name, reason in state.given_up.items())


def passes_at(failure: Failure) -> datetime:
    """Return when the work may be tried again: when the limit resets, or after a pause if that is not known."""
    at = datetime.fromisoformat(failure.at)
    if failure.resets_at:
        resets_at = datetime.fromisoformat(failure.resets_at)
        if at < resets_at <= at + LONGEST_LIMIT:
            return resets_at
    doublings = min(failure.number - 1, 10)
    return at + min(timedelta(minutes=2**doublings), LONGEST_PAUSE)
