"""The last event of a run, from how policy ended it. Owns that translation alone."""

from __future__ import annotations

from typing import assert_never

from goalrunner import events
from goalrunner.model.outcome import GoalStatus
from goalrunner.policy import Finish


def ending(finish: Finish) -> events.Ending:
    """The event that says so."""
    match finish.status:
        case GoalStatus.COMPLETE:
            return events.Completed(result_ref=finish.message)
        case GoalStatus.CAPPED:
            return events.Capped(stop_reason=finish.reason, reason=finish.message)
        case GoalStatus.BLOCKED:
            return events.Blocked(stop_reason=finish.reason, reason=finish.message)
        case GoalStatus.CANCELLED:
            return events.Cancelled(reason=finish.message, stop_reason=finish.reason, signal=finish.signal)
        case GoalStatus.FAILED | GoalStatus.RUNNING:
            return events.Failed(stop_reason=finish.reason, reason=finish.message)
        case _:
            assert_never(finish.status)
