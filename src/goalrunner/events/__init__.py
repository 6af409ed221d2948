"""The typed facts of a run's log. Owns their shape and schema version; folding them is the state's work.

Each event has its own tag (`type`). What is large lives in transcript and artifacts; events hold references. The tags
goal_created, step_started, tool_result_recorded, approval_recorded, question_opened, question_answered, blocked,
completed and cancelled are those of the Goals and State pattern.
"""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field, TypeAdapter

from goalrunner.events.checks import (
    AuditFailed,
    AuditStarted,
    BaselineTaken,
    ChangedChecks,
    Colour,
    ConfirmationRecorded,
    Content,
    Standing,
    ValidatorsFinished,
    VerdictRecorded,
    WorkspaceChanged,
)
from goalrunner.events.endings import Blocked, Cancelled, Capped, Completed, Ending, Failed
from goalrunner.events.goal import GoalCreated, GoalRecord, Plan, RiskClass, RunResumed, RunStarted, StartKept
from goalrunner.events.memory import MemoryPromoted
from goalrunner.events.people import ApprovalRecorded, ApprovalRequested, QuestionAnswered, QuestionOpened
from goalrunner.events.unrecognised import Unrecognised
from goalrunner.events.work import (
    Account,
    AgentRan,
    BlockReported,
    MessageRecorded,
    PlanProposed,
    PromptKind,
    RoundFinished,
    RoundStarted,
    SecretsReplaced,
    SessionOpened,
    SnapshotTaken,
    StepStarted,
    ToolCalled,
    ToolResultRecorded,
    UsageRecorded,
)
from goalrunner.model.base import Frozen

SCHEMA_VERSION = "1.4"
"""Of the log: a reader refuses another major number; a newer minor number may bring kinds that it does not know."""

Event = Annotated[
    GoalCreated
    | RunStarted
    | RunResumed
    | StartKept
    | SnapshotTaken
    | BaselineTaken
    | BlockReported
    | StepStarted
    | RoundStarted
    | PlanProposed
    | SecretsReplaced
    | MessageRecorded
    | ToolCalled
    | ToolResultRecorded
    | UsageRecorded
    | RoundFinished
    | SessionOpened
    | AgentRan
    | ValidatorsFinished
    | WorkspaceChanged
    | ConfirmationRecorded
    | AuditStarted
    | AuditFailed
    | VerdictRecorded
    | QuestionOpened
    | QuestionAnswered
    | ApprovalRequested
    | ApprovalRecorded
    | MemoryPromoted
    | Blocked
    | Completed
    | Capped
    | Cancelled
    | Failed
    | Unrecognised,
    Field(discriminator="type"),
]
"""Everything that can happen in a run; closed, so that a fold that forgets one does not type-check."""


KINDS = frozenset(
    kind.model_fields["type"].default for kind in get_args(get_args(Event)[0]) if kind is not Unrecognised
)
"""The tags that this version knows."""


class Record(Frozen):
    """One line of events.jsonl: an event, its place in the log and its time."""

    v: str = Field(default=SCHEMA_VERSION, description="schema version, major.minor")
    seq: int = Field(ge=1, description="place in the log, from 1, without gaps")
    at: str = Field(description="ISO 8601, UTC")
    elapsed: float = Field(default=0.0, ge=0, description="seconds of active time since the run began")
    p: str = Field(
        default="",
        pattern=r"^([0-9a-f]{16})?$",
        description="the line before it, by the beginning of its SHA-256; of the first line: of nothing; empty: no chain",
    )
    event: Event


RECORD = TypeAdapter(Record)
"""Reads one line: `RECORD.validate_json(line)`."""

__all__ = [
    "KINDS",
    "RECORD",
    "SCHEMA_VERSION",
    "Account",
    "AgentRan",
    "ApprovalRecorded",
    "ApprovalRequested",
    "AuditFailed",
    "AuditStarted",
    "BaselineTaken",
    "BlockReported",
    "Blocked",
    "Cancelled",
    "Capped",
    "ChangedChecks",
    "Colour",
    "Completed",
    "ConfirmationRecorded",
    "Content",
    "Ending",
    "Event",
    "Failed",
    "GoalCreated",
    "GoalRecord",
    "MemoryPromoted",
    "MessageRecorded",
    "Plan",
    "PlanProposed",
    "PromptKind",
    "QuestionAnswered",
    "QuestionOpened",
    "Record",
    "RiskClass",
    "RoundFinished",
    "RoundStarted",
    "RunResumed",
    "RunStarted",
    "SecretsReplaced",
    "SessionOpened",
    "SnapshotTaken",
    "Standing",
    "StartKept",
    "StepStarted",
    "ToolCalled",
    "ToolResultRecorded",
    "Unrecognised",
    "UsageRecorded",
    "ValidatorsFinished",
    "VerdictRecorded",
    "WorkspaceChanged",
]
