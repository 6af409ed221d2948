"""What the runner and the judge found when they checked."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen
from goalrunner.model.observation import Observation
from goalrunner.model.snapshot import Snapshot
from goalrunner.model.validation import ValidatorResult
from goalrunner.model.verdict import GoalVerdict

Standing = Literal["green", "red", "cannot_run", "differs"]


class Colour(Frozen):
    """What one check said, before anything else is made of it."""

    name: str
    passed: bool
    place: str = Field(description='"workspace", or "checkout": a clean one')


class Content(Frozen):
    """On what the checks ran, and what they said of it: a resumed run still notices one that contradicts itself."""

    era: int = Field(ge=0, description="how often somebody had changed something between two runs of the checks")
    key: str = Field(description="names the content: a snapshot, and what no snapshot shows")
    found: str = Field(default="", description="id of the snapshot that they found")
    left: str = Field(default="", description="id of the snapshot that they left")
    around: str = Field(default="", description="hash of what no snapshot shows, as they left it")
    when: str = Field(description="for people: in which round")
    said: tuple[Colour, ...] = ()


class BaselineTaken(Frozen):
    """The validators ran once before round 1, in the workspace and in a clean checkout."""

    type: Literal["baseline_taken"] = "baseline_taken"
    standing: Standing
    results: tuple[ValidatorResult, ...]
    observations: tuple[Observation, ...] = ()
    reason: str = Field(default="", description="why it cannot run, or what differs and the line that helps")
    snapshot: Snapshot | None = Field(
        default=None, description="what it ran on, where that is not the start: a resumed run may find other files"
    )
    content: Content | None = Field(default=None, description="None where no workspace is watched")


class ValidatorsFinished(Frozen):
    """Every validator has run once on what the round left."""

    type: Literal["validators_finished"] = "validators_finished"
    round: int = Field(ge=0)
    results: tuple[ValidatorResult, ...]
    observations: tuple[Observation, ...] = ()
    drift: tuple[str, ...] = Field(default=(), description="paths that changed while they ran")
    touched: tuple[str, ...] = Field(
        default=(), description="protected paths that differ from the start, one line each"
    )
    content: Content | None = Field(default=None, description="None where no workspace is watched")


class ProofFinished(Frozen):
    """The validators ran in a clean checkout of what the round left, with the protected paths as at the start."""

    type: Literal["proof_finished"] = "proof_finished"
    round: int = Field(ge=0)
    passed: bool
    results: tuple[ValidatorResult, ...] = ()
    observations: tuple[Observation, ...] = ()
    restored: int = Field(default=0, ge=0, description="protected files, as they were at the start")
    feedback: str = Field(default="", description="what the agent is told; never of a hidden validator")
    reason: str = Field(default="", description="for people: why it is refused, by path, rule and key")
    content: Content | None = Field(default=None, description="None where no workspace is watched")


class ConfirmationRecorded(Frozen):
    """A second, independent opinion on whether the goal is blocked."""

    type: Literal["confirmation_recorded"] = "confirmation_recorded"
    claim: str
    confirmed: bool
    reason: str = ""


class AuditStarted(Frozen):
    """The judge is about to be asked."""

    type: Literal["audit_started"] = "audit_started"
    round: int = Field(ge=0)


class AuditFailed(Frozen):
    """The judge gave no usable answer. Never told to the agent as outstanding work."""

    type: Literal["audit_failed"] = "audit_failed"
    round: int = Field(ge=0)
    kind: Literal["parse", "transport", "authentication"]
    detail: str


class VerdictRecorded(Frozen):
    """The judge's verdict, after the runner checked its citations."""

    type: Literal["verdict_recorded"] = "verdict_recorded"
    round: int = Field(ge=0)
    verdict: GoalVerdict
    citations_checked: int = Field(default=0, ge=0)
    stale_only: bool = Field(default=False, description="complete but for evidence that is out of date")
    refusals: tuple[str, ...] = Field(default=(), description="why a citation did not count, one sentence each")
    stale: dict[str, str] = Field(
        default_factory=dict, description="of the observations that it cites: why one no longer counted, by its id"
    )
