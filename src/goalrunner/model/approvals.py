"""What waits for a person. Owns the words for it; decides nothing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen

ApprovalKind = Literal["complete", "shell", "write", "network", "checks"]
"""Calling the goal complete; running a command; writing a file; a command that is known to use the network; counting the
agent's versions of existing tests and test-runner configuration."""

Requirable = Literal["complete", "shell", "write", "network"]
"""The kinds that a goal file may require an approval for."""

DEFAULT_EXPIRY = 24 * 3600.0


class Approvals(Frozen):
    """What waits for a person before it is done."""

    require: tuple[Requirable, ...] = Field(default=(), description="kinds of actions")
    commands: tuple[str, ...] = Field(default=(), description="patterns of command lines, `*` for anything")
    expires: float | None = Field(default=DEFAULT_EXPIRY, gt=0, description="seconds; None: never")
    on_deny: Literal["stop", "continue"] = Field(
        default="stop", description='"continue": the agent is told, and the run goes on'
    )
