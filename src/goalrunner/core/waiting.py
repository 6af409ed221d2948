"""What follows when the agent or a model cannot go on: a short pause, a wait until a limit resets, another agent, or the end.

Pure: times come from the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from goalrunner.core.errors import RESETS
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
    return max(
        0.0,
        (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds(),
    )


def wait_at_hand(waiting: Waiting) -> Wait:
    """Return the step that goes on with a wait that an earlier process may have begun."""
    until = datetime.fromisoformat(waiting.until)
    return Wait(
        waiting.account, waiting.kind, waiting.reason, until, waiting.number, begun=True
    )


def after_failure(state: RunState, failure: Failure) -> Wait | SwitchAgent | RunEnded:
    """Return what follows a failure: a wait if it passes within the goal's `wait`, else the next agent, else the end."""
    wait = _wait_after(failure)
    if wait is not None and (
        wait.kind == "retry" or fits(state, failure.at, wait.until)
    ):
        return wait
    following = state.agent + 1
    if (
        failure.account == "agent"
        and not state.switched
        and following < len(state.plan.agents)
    ):
        before = state.plan.agents[state.agent]
        reason = failure.reason.removeprefix(f"the agent {before} ")
        return SwitchAgent(following, state.plan.agents[following], before, reason)
    message = failure.message + _earlier(state, failure)
    if resets_at := _reset_of(failure):
        message += f"\n{RESETS} {resets_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return RunEnded(stop_reason=failure.stop_reason, message=message)


def _earlier(state: RunState, failure: Failure) -> str:
    """Return the agents that gave up before the one that failed, and why, as more lines of a message."""
    if failure.account != "agent":
        return ""
    return "".join(
        f"\n{name} could not go on either: {reason}"
        for name, reason in state.given_up.items()
    )


def fits(state: RunState, begin: str, until: datetime) -> bool:
    """Return whether a wait from a time (ISO 8601) on is within the goal's `wait`, which bounds the sum of all waits."""
    length = seconds_between(begin, until.isoformat())
    return state.plan.wait is None or state.waited + length <= state.plan.wait


def _wait_after(failure: Failure) -> Wait | None:
    """Return the wait for a failure to pass; None if it does not pass by itself."""
    pauses = () if failure.was_retried or failure.kind != "overload" else RETRY_PAUSES
    at, number = datetime.fromisoformat(failure.at), failure.number
    if failure.kind == "permanent":
        return None
    if number <= len(pauses):
        until = at + timedelta(seconds=pauses[number - 1])
        return Wait(failure.account, "retry", failure.reason, until, number)
    earlier = number - len(pauses) - 1  # waits in a row
    resets_at = _reset_of(failure)
    if resets_at is None:
        until = at + _pause(earlier)
    elif (
        earlier > 0
    ):  # the time that an earlier failure named was not the end of the limit
        until = max(resets_at, at + _pause(earlier - 1))
    else:
        until = resets_at
    return Wait(failure.account, "limit", failure.reason, until, number)


def _pause(earlier: int) -> timedelta:
    """Return the wait for a limit whose end is not known, after so many waits in a row."""
    return min(timedelta(minutes=2 ** min(earlier, 10)), LONGEST_PAUSE)


def _reset_of(failure: Failure) -> datetime | None:
    """Return when the limit resets; None if that is not known, or not believed."""
    if not failure.resets_at:
        return None
    at, resets_at = (
        datetime.fromisoformat(failure.at),
        datetime.fromisoformat(failure.resets_at),
    )
    return resets_at if at < resets_at <= at + LONGEST_LIMIT else None


def resume_at(state: RunState) -> str:
    """Return when the work goes on, or could go on if the run had not ended (ISO 8601); empty if that is not known."""
    if state.wait is not None:
        return state.wait.until if state.wait.kind == "limit" else ""
    if state.failure is None:
        return state.resets_at
    resets_at = _reset_of(state.failure)
    return resets_at.astimezone(UTC).isoformat() if resets_at is not None else ""
