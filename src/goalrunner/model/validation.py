"""What a validator says. Owns the result of a check; runs none."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen
from goalrunner.model.observation import ArtifactRef

FEEDBACK_TAIL = 4_000
"""Characters of a validator's output that go back to the agent; the last ones, where test runners put their summary."""


class ValidationOutcome(Frozen):
    """What a Python validator may return: passed or not, and what to tell the agent. (Source: Strands' GoalLoop.)"""

    passed: bool = Field(strict=True)
    feedback: str | None = Field(default=None, description="what is wrong, in words the agent can act on")


class ValidatorResult(Frozen):
    """One run of one validator, as the runner saw it."""

    name: str = Field(min_length=1)
    passed: bool = Field(strict=True)
    feedback: str = Field(
        default="", description=f"output tail of {FEEDBACK_TAIL} characters, or the callable's feedback"
    )
    reason: Literal["passed", "red", "timeout", "crashed", "not_found", "invalid_result"] = "red"
    command: str = Field(default="", description="the command line, or module:function")
    exit_code: int | None = Field(default=None, description="None for callables, and for a command that a signal ended")
    duration: float = Field(default=0.0, ge=0, description="seconds")
    summary: str = Field(default="", description='one line for people: "43 passed", "exit 1", "timed out after 5 s"')
    output: ArtifactRef | None = None
    observation: str = Field(default="", description='the id under which the judge sees it, "o12"')
