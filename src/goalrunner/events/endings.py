"""How a run ends."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen
from goalrunner.model.outcome import StopReason


class Blocked(Frozen):
    """The run ends: a person is needed, or the goal cannot be reached."""

    type: Literal["blocked"] = "blocked"
    reason: str
    stop_reason: StopReason


class Completed(Frozen):
    """The run ends: proven."""

    type: Literal["completed"] = "completed"
    result_ref: str = Field(description='what proves it: "validators of round 2", "verdict of round 3"')


class Capped(Frozen):
    """The run ends: a limit."""

    type: Literal["capped"] = "capped"
    stop_reason: StopReason
    reason: str


class Cancelled(Frozen):
    """The run ends: somebody stopped it."""

    type: Literal["cancelled"] = "cancelled"
    reason: str
    stop_reason: StopReason = StopReason.INTERRUPTED
    signal: int | None = None


class Failed(Frozen):
    """The run ends: something it needs does not work."""

    type: Literal["failed"] = "failed"
    stop_reason: StopReason
    reason: str


Ending = Completed | Blocked | Capped | Cancelled | Failed
"""How a run can end."""
