"""People, as the loop needs them: somebody who decides and answers, or nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from goalrunner.model.evidence import EvidenceRow
from goalrunner.state.run_state import Approval


@dataclass(frozen=True)
class ApprovalAnswer:
    """What a person said of something that waits."""

    decision: Literal["approved", "denied"]
    by: str = ""
    """user@host"""
    reason: str = ""
    typed: bool = False
    """Whether it was typed at a terminal, which a command of the agent may reach unless it is in a sandbox."""


@dataclass(frozen=True)
class ApprovalRequest:
    """What a person is shown."""

    approval: Approval
    preview: str = ""
    """A unified diff: of the file that would be written, for a completion of all since the start; empty for a command."""
    changed: tuple[str, ...] = ()
    """Paths that differ from the start of the run, for a completion."""
    evidence: tuple[EvidenceRow, ...] = ()
    """What a completion rests on: a row for each citation, and for each validator."""


@dataclass(frozen=True)
class QuestionReply:
    """What a person said to a question."""

    text: str
    by: str = ""
    """user@host"""


class Approver(Protocol):
    """Asks a person. None as an answer means that nobody is there, and the run waits."""

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Whether it may be done. May take as long as a person takes; cancellation ends the question."""
        ...

    async def answer(self, question: str) -> QuestionReply | None:
        """What a person says to a question."""
        ...
