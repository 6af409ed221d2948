"""People, as the loop needs them: somebody who decides and answers, or nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from goalrunner.state.run_state import Approval


@dataclass(frozen=True)
class ApprovalAnswer:
    """What a person said of something that waits."""

    decision: Literal["approved", "denied"]
    by: str
    """user@host"""
    reason: str = ""


@dataclass(frozen=True)
class ApprovalRequest:
    """What a person is shown."""

    approval: Approval
    preview: str = ""
    """A unified diff of the file that would be written; empty for a command and for a completion."""
    changed: tuple[str, ...] = ()
    """Paths that differ from the start of the run."""


class Approver(Protocol):
    """Asks a person. None as an answer means that nobody is there, and the run waits."""

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Whether it may be done. May take as long as a person takes; cancellation ends the question."""
        ...

    async def answer(self, question: str) -> str | None:
        """What a person says to a question."""
        ...
