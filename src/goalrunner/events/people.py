"""What waits for a person, and what the person said."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.approvals import ApprovalKind
from goalrunner.model.base import Frozen
from goalrunner.model.observation import ArtifactRef, Observation
from goalrunner.model.snapshot import Snapshot

Decision = Literal["approved", "denied", "expired"]


class QuestionOpened(Frozen):
    """A fact is missing that only a person can give."""

    type: Literal["question_opened"] = "question_opened"
    question: str
    by: Literal["agent", "judge"] = "agent"


class QuestionAnswered(Frozen):
    """A person gave it. The answer is an observation, so that agent and judge can be shown it."""

    type: Literal["question_answered"] = "question_answered"
    question: str
    answer: str = ""
    evidence_ref: str = Field(description="the observation's id")
    observation: Observation | None = Field(default=None, description="None where a tool result holds the answer")
    by: str = Field(default="", description="who answered: user@host")


class ApprovalRequested(Frozen):
    """Something waits for a person: nothing of it has been done."""

    type: Literal["approval_requested"] = "approval_requested"
    approval_id: str = Field(description='"a1"')
    kind: ApprovalKind
    action: str = Field(description="the command, the path, or what is to be called complete; for people")
    rule: str = Field(description="what of the goal asks for it")
    tool_call_id: str = Field(default="", description="of a tool call that waits")
    snapshot: str = Field(
        default="", description="what a completion rests on: a snapshot's id, or the hash of the response"
    )
    preview: ArtifactRef | None = Field(default=None, description="the unified diff of what would be written")
    evidence_refs: tuple[str, ...] = Field(default=(), description="observations that it rests on")
    expires_at: str | None = Field(default=None, description="ISO 8601, UTC; after it nobody can approve it")


class ApprovalRecorded(Frozen):
    """A person decided on something that waited, or nobody did in time."""

    type: Literal["approval_recorded"] = "approval_recorded"
    approval_id: str
    decision: Decision
    by: str = Field(default="", description="who decided: user@host; empty for an expired one")
    reason: str = ""
    guarded: bool = Field(default=True, description="False: given by a command that the agent could have run as well")
    evidence_refs: tuple[str, ...] = Field(default=(), description="observations that were shown to the person")
    changed: tuple[str, ...] = Field(default=(), description="paths that changed while a completion waited")
    snapshot: Snapshot | None = Field(default=None, description="the workspace then, where anything changed")
