"""The typed events of a run's log, with their schema version.

Each event has its own tag (`type`). Large content lies in transcript and artifacts; events hold references. The tags
goal_created, step_started, tool_result_recorded, approval_recorded, question_opened, question_answered, blocked,
completed and cancelled are those of the Goals and State pattern."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter

from goalrunner.core.base import Frozen
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.core.run_events import ApprovalRecorded as ApprovalRecorded
from goalrunner.core.run_events import ApprovalRequested as ApprovalRequested
from goalrunner.core.run_events import GoalCreated as GoalCreated
from goalrunner.core.run_events import GoalRecord as GoalRecord
from goalrunner.core.run_events import NoteAdded as NoteAdded
from goalrunner.core.run_events import Plan as Plan
from goalrunner.core.run_events import QuestionAnswered as QuestionAnswered
from goalrunner.core.run_events import QuestionOpened as QuestionOpened
from goalrunner.core.run_events import RiskClass as RiskClass
from goalrunner.core.run_events import RunResumed as RunResumed
from goalrunner.core.run_events import RunStarted as RunStarted
from goalrunner.core.run_events import StartKept as StartKept
from goalrunner.core.work_events import Account as Account
from goalrunner.core.work_events import AgentRan as AgentRan
from goalrunner.core.work_events import AuditFailed as AuditFailed
from goalrunner.core.work_events import AuditStarted as AuditStarted
from goalrunner.core.work_events import BaselineTaken as BaselineTaken
from goalrunner.core.work_events import BlockReported as BlockReported
from goalrunner.core.work_events import ChangedChecks as ChangedChecks
from goalrunner.core.work_events import Colour as Colour
from goalrunner.core.work_events import ConfirmationRecorded as ConfirmationRecorded
from goalrunner.core.work_events import Content as Content
from goalrunner.core.work_events import MessageRecorded as MessageRecorded
from goalrunner.core.work_events import PlanProposed as PlanProposed
from goalrunner.core.work_events import PromptKind as PromptKind
from goalrunner.core.work_events import RoundFinished as RoundFinished
from goalrunner.core.work_events import RoundStarted as RoundStarted
from goalrunner.core.work_events import SecretsReplaced as SecretsReplaced
from goalrunner.core.work_events import SessionOpened as SessionOpened
from goalrunner.core.work_events import SnapshotTaken as SnapshotTaken
from goalrunner.core.work_events import Standing as Standing
from goalrunner.core.work_events import StepStarted as StepStarted
from goalrunner.core.work_events import ToolCalled as ToolCalled
from goalrunner.core.work_events import ToolResultRecorded as ToolResultRecorded
from goalrunner.core.work_events import UsageRecorded as UsageRecorded
from goalrunner.core.work_events import ValidatorsFinished as ValidatorsFinished
from goalrunner.core.work_events import VerdictRecorded as VerdictRecorded
from goalrunner.core.work_events import WorkspaceChanged as WorkspaceChanged


class RunEnded(Frozen):
    """The run ends; `decide` returns it as the last step."""

    type: Literal["run_ended"] = "run_ended"
    stop_reason: StopReason
    message: str = Field(default="", description='why; of a complete run what proves it: "verdict of round 3"')
    signal: int | None = Field(default=None, description="number of the signal that interrupted the run")

    @property
    def status(self) -> GoalStatus:
        """The status that the stop reason stands for."""
        return self.stop_reason.status


MemoryKind = Literal["event", "fact", "preference", "policy_reference"]
"""What may be promoted. (Source: the promotion rules of Goals and State.)"""


class MemoryPromoted(Frozen):
    """A fact of this run was remembered for later runs."""

    type: Literal["memory_promoted"] = "memory_promoted"
    memory_id: str
    kind: MemoryKind
    source_ref: str = Field(description="the observation or event that it rests on")


class Unrecognised(Frozen):
    """An event of a newer minor schema. It stays in the file and does not change the state."""

    type: Literal["unrecognised"] = "unrecognised"
    kind: str


SCHEMA_VERSION = "1.5"
"""The version of the log. Readers refuse another major number; a newer minor number may have unknown events."""

Event = Annotated[
    GoalCreated
    | RunStarted
    | RunResumed
    | NoteAdded
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
    | RunEnded
    | Unrecognised,
    Field(discriminator="type"),
]
"""All events. The type checker reports a fold that forgets one."""


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
