"""What follows a failure of the agent or a model.

It is a pause, a wait until a limit resets, another agent, or the end. Pure: times come
from the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from goalrunner.core.errors import RESETS
from goalrunner.core.events import Account, RunEnded
from goalrunner.core.run_state import Failure, RunState, Waiting

LONGEST_LIMIT = timedelta(days=8)
"""A limit that is said to reset later than this is not believed.

The longest limits of providers last a week.
"""

RETRY_PAUSES = (2.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds before each repetition of work that an overload stopped.

They count as active time.
"""

LONGEST_PAUSE = timedelta(minutes=30)
"""The longest wait for a limit whose end is not known.

The first lasts a minute, and each is twice as long as the last.
"""


@dataclass(frozen=True)
class Wait:
    """Wait before the work of `account` is tried again.

    No process of the agent runs meanwhile.
    """

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
    length = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return max(0.0, length.total_seconds())


def wait_at_hand(waiting: Waiting) -> Wait:
    """Return the step that goes on with a wait.

    An earlier process may have begun it.
    """
    until = datetime.fromisoformat(waiting.until)
    return Wait(
        waiting.account, waiting.kind, waiting.reason, until, waiting.number, begun=True
    )


def after_failure(state: RunState, failure: Failure) -> Wait | SwitchAgent | RunEnded:
    """Return what follows a failure.

    That is a wait if it passes within the goal's `wait`, else the next agent, else the
    end.
    """
    wait = _wait_after(failure)
    if wait is not None and _is_allowed(state, failure, wait):
        return wait
    return _switch_after(state, failure) or _end_after(state, failure)


def _is_allowed(state: RunState, failure: Failure, wait: Wait) -> bool:
    # A pause before a repetition is active time, which has its own limit.
    return wait.kind == "retry" or fits(state, failure.at, wait.until)


def fits(state: RunState, begin: str, until: datetime) -> bool:
    """Return whether a wait that begins at a time (ISO 8601) is allowed.

    The goal's `wait` bounds the sum of all waits.
    """
    length = seconds_between(begin, until.isoformat())
    return state.plan.wait is None or state.waited + length <= state.plan.wait


def _switch_after(state: RunState, failure: Failure) -> SwitchAgent | None:
    """Return the agent that takes over; None if there is none in this round."""
    agents, index = state.plan.agents, state.agent + 1
    if failure.account != "agent" or state.switched or index >= len(agents):
        return None
    before = agents[state.agent]
    reason = failure.reason.removeprefix(f"the agent {before} ")
    return SwitchAgent(index, agents[index], before, reason)


def _end_after(state: RunState, failure: Failure) -> RunEnded:
    lines = [failure.message]
    if failure.account == "agent":
        lines += [
            f"{name} could not go on either: {reason}"
            for name, reason in state.given_up.items()
        ]
    resets_at = _reset_of(failure)
    if resets_at is not None:
        lines.append(f"{RESETS} {resets_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
    return RunEnded(stop_reason=failure.stop_reason, message="\n".join(lines))


def _wait_after(failure: Failure) -> Wait | None:
    """Return the wait for a failure to pass; None if it does not pass by itself."""
    # A wrong key or a missing program needs a person, or another agent.
    if failure.kind == "permanent":
        return None
    failed_at, number = datetime.fromisoformat(failure.at), failure.number
    is_retried = failure.kind == "overload" and not failure.was_retried
    pauses = RETRY_PAUSES if is_retried else ()
    if number <= len(pauses):
        until = failed_at + timedelta(seconds=pauses[number - 1])
        return Wait(failure.account, "retry", failure.reason, until, number)
    waits_before = number - len(pauses) - 1
    resets_at = _reset_of(failure)
    if resets_at is None:
        until = failed_at + _pause_after(waits_before)
    elif waits_before > 0:
        # The time that an earlier failure named was not the end of the limit.
        until = max(resets_at, failed_at + _pause_after(waits_before - 1))
    else:
        until = resets_at
    return Wait(failure.account, "limit", failure.reason, until, number)


def _pause_after(waits: int) -> timedelta:
    """Return the wait for a limit whose end is not known, after waits in a row."""
    # The exponent is bounded, because a timedelta cannot hold any number of minutes.
    return min(timedelta(minutes=2 ** min(waits, 10)), LONGEST_PAUSE)


def _reset_of(failure: Failure) -> datetime | None:
    """Return when the limit resets; None if that is not known, or not believed."""
    if not failure.resets_at:
        return None
    failed_at = datetime.fromisoformat(failure.at)
    resets_at = datetime.fromisoformat(failure.resets_at)
    is_plausible = failed_at < resets_at <= failed_at + LONGEST_LIMIT
    return resets_at if is_plausible else None


def resume_at(state: RunState) -> str:
    """Return when the work goes on, or could go on after the end (ISO 8601).

    Empty if that is not known.
    """
    if state.wait is not None:
        return state.wait.until if state.wait.kind == "limit" else ""
    if state.failure is None:
        return state.resets_at
    resets_at = _reset_of(state.failure)
    return resets_at.astimezone(UTC).isoformat() if resets_at is not None else ""
