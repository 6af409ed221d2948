"""What may be done next: a closed union of steps. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from goalrunner.events import PromptKind
from goalrunner.model.outcome import GoalStatus, StopReason
from goalrunner.state.run_state import Interruption


@dataclass(frozen=True)
class TakeBaseline:
    """Run the validators once before the agent works."""


@dataclass(frozen=True)
class Brief:
    """What a prompt has to say; its words are made elsewhere."""

    kind: PromptKind
    round: int
    feedback: str | None = None
    """Red output or the judge's `missing`, verbatim; None when there is nothing to say."""
    interruption: Interruption | None = None
    """What happened while nobody worked on the run; None where there is nothing to tell."""


@dataclass(frozen=True)
class RunRound:
    """Let the agent work."""

    prompt: Brief


@dataclass(frozen=True)
class Validate:
    """Run every validator once."""

    round: int


@dataclass(frozen=True)
class Audit:
    """Ask the judge."""

    round: int


@dataclass(frozen=True)
class Finish:
    """End the run."""

    status: GoalStatus
    reason: StopReason
    message: str = ""
    signal: int | None = None


@dataclass(frozen=True)
class Confirm:
    """Ask for a second, independent opinion on a claim that the goal is blocked."""

    claim: str


@dataclass(frozen=True)
class AskApproval:
    """Let a person decide whether the run may end complete, or which versions of the checks count."""

    action: str
    rule: str
    kind: Literal["complete", "checks"] = "complete"


Step = TakeBaseline | RunRound | Validate | Audit | Confirm | AskApproval | Finish
"""What is to be done next; closed."""
