"""What the runner and the judge found when they checked."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen
from goalrunner.model.observation import ArtifactRef, Observation
from goalrunner.model.snapshot import Snapshot
from goalrunner.model.validation import ValidatorResult
from goalrunner.model.verdict import GoalVerdict

Standing = Literal["green", "red", "cannot_run", "differs"]


class Colour(Frozen):
    """Whether one validator passed in one run."""

    name: str
    passed: bool


class Content(Frozen):
    """The content that validators ran on, and their results: a resumed run still detects a flaky validator."""

    key: str = Field(description="identifies the content: a snapshot, and a hash of the ignored files")
    when: str = Field(description="for people: in which round")
    said: tuple[Colour, ...] = ()


class ChangedChecks(Frozen):
    """Validators that are green only with the agent's versions of existing tests or test-runner configuration."""

    key: str = Field(description="hash over the paths and their content: an approval is for exactly this")
    paths: tuple[str, ...] = Field(description="the files that the agent changed")
    diff: ArtifactRef | None = Field(default=None, description="what the agent changed in them")
    results: tuple[ValidatorResult, ...] = Field(description="the results with the agent's versions")


class BaselineTaken(Frozen):
    """The validators ran once before round 1, in the check environment."""

    type: Literal["baseline_taken"] = "baseline_taken"
    standing: Standing
    results: tuple[ValidatorResult, ...]
    observations: tuple[Observation, ...] = ()
    concealed: tuple[Observation, ...] = Field(
        default=(), description="those of hidden validators, which neither agent nor judge sees"
    )
    reason: str = Field(default="", description="why it cannot run, or what differs and the line that helps")
    snapshot: Snapshot | None = Field(
        default=None, description="what it ran on, where that is not the start: a resumed run may find other files"
    )
    content: Content | None = Field(default=None, description="None if no workspace is watched")


class ValidatorsFinished(Frozen):
    """The validators ran in the check environment on what the round left."""

    type: Literal["validators_finished"] = "validators_finished"
    round: int = Field(ge=0)
    results: tuple[ValidatorResult, ...]
    observations: tuple[Observation, ...] = ()
    concealed: tuple[Observation, ...] = Field(
        default=(), description="those of hidden validators, which neither agent nor judge sees"
    )
    refusal: str = Field(default="", description="why nothing counts, in words for the agent; else empty")
    hint: str = Field(default="", description="what a person can do about the refusal")
    leaked: tuple[str, ...] = Field(default=(), description="paths that changed in the workspace while they ran")
    snapshot: Snapshot | None = Field(default=None, description="the workspace afterwards, if it changed meanwhile")
    protected_changes: tuple[str, ...] = Field(
        default=(), description="protected paths that differ from the start, one line each"
    )
    differing: tuple[str, ...] = Field(default=(), description="these paths alone")
    labels: tuple[str, ...] = Field(default=(), description="what weakens a completion that rests on these results")
    changed_checks: ChangedChecks | None = Field(
        default=None, description="set if the results are red and the agent's versions of the checks are green"
    )
    content: Content | None = Field(default=None, description="None if no workspace is watched")


class WorkspaceChanged(Frozen):
    """The workspace is no longer what was checked; the checks run again."""

    type: Literal["workspace_changed"] = "workspace_changed"
    paths: tuple[str, ...]
    snapshot: Snapshot


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
