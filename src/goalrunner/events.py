"""The typed facts of a run's log. Owns their shape and schema version; folding them is the state's work.

Each event has its own tag (`type`). What is large lives in transcript and artifacts; events hold references. The tags
goal_created, step_started, tool_result_recorded, approval_recorded, question_opened, question_answered, blocked,
completed and cancelled are those of the Goals and State pattern.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from goalrunner.model.base import Frozen
from goalrunner.model.observation import Observation, TranscriptRef
from goalrunner.model.outcome import StopReason
from goalrunner.model.usage import Usage
from goalrunner.model.validation import ValidatorResult
from goalrunner.model.verdict import GoalVerdict

SCHEMA_VERSION = "1.0"
"""Of the log: a reader refuses another major number; a newer minor number may bring kinds that it does not know."""

Account = Literal["agent", "judge"]
RiskClass = Literal["low", "medium", "high", "critical"]
PromptKind = Literal["first", "retry", "neutral"]


class GoalRecord(Frozen):
    """The goal as the state keeps it. (Source: AgentGoal of Goals and State.)"""

    goal_id: str
    run_id: str
    owner: str = ""
    description: str
    success_criteria: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    risk_class: RiskClass = "low"
    status: Literal["active", "blocked", "waiting_for_approval", "completed", "cancelled", "failed"] = "active"
    created_at: str
    updated_at: str


class Plan(Frozen):
    """What policy needs to know of the goal: the limits, and who checks."""

    max_iterations: int | None = Field(default=None, description="None: no limit")
    timeout: float | None = Field(default=None, description="seconds of active time; None: no limit")
    tokens: int | None = None
    cost_usd: float | None = None
    validators: tuple[str, ...] = Field(default=(), description="their names")
    has_judge: bool = False
    minimum_score: float = 0.0
    deliverable: Literal["workspace", "response"] = "workspace"


class GoalCreated(Frozen):
    """The first event of every log."""

    type: Literal["goal_created"] = "goal_created"
    goal: GoalRecord
    plan: Plan


class RunStarted(Frozen):
    """A process took the run up."""

    type: Literal["run_started"] = "run_started"
    workspace: str
    models: dict[str, str] = Field(
        default_factory=dict, description='by account; the judge "agent" is already resolved'
    )
    version: str = Field(description="of goalrunner")


class StepStarted(Frozen):
    """The runner is about to do one bounded thing: intent before effect."""

    type: Literal["step_started"] = "step_started"
    step_id: str = Field(description='"validate-2"')
    description: str


class RoundStarted(Frozen):
    """A prompt is about to go to the agent."""

    type: Literal["round_started"] = "round_started"
    round: int = Field(ge=1)
    prompt: PromptKind


class MessageRecorded(Frozen):
    """A chat message was written to the transcript."""

    type: Literal["message"] = "message"
    role: Literal["system", "user", "assistant", "tool"]
    text: TranscriptRef
    has_text: bool = Field(default=True, description="False for an assistant message that holds tool calls alone")


class ToolCalled(Frozen):
    """The agent's tool call is about to run."""

    type: Literal["tool_called"] = "tool_called"
    tool_call_id: str
    tool: str
    summary: str = Field(description="one line for people: the command, or the path")


class ToolResultRecorded(Frozen):
    """A tool call ended, well or badly."""

    type: Literal["tool_result_recorded"] = "tool_result_recorded"
    tool_call_id: str
    evidence_ref: str = Field(description="the observation's id")
    observation: Observation
    duration: float = Field(default=0.0, ge=0, description="seconds")
    summary: str = Field(default="", description='one short line for people: "exit 1", "+4 −1"')


class UsageRecorded(Frozen):
    """One model call was answered, or given up after so many retries."""

    type: Literal["usage_recorded"] = "usage_recorded"
    account: Account
    usage: Usage


class RoundFinished(Frozen):
    """The agent's turn is over. Says nothing about success."""

    type: Literal["round_finished"] = "round_finished"
    round: int = Field(ge=1)
    reason: Literal["answered", "max_steps"] = "answered"
    steps: int = Field(default=0, ge=0, description="model calls")
    response: Observation | None = Field(
        default=None, description="the response as an observation, where it is the deliverable"
    )


class ValidatorsFinished(Frozen):
    """Every validator has run once on what the round left."""

    type: Literal["validators_finished"] = "validators_finished"
    round: int = Field(ge=0)
    results: tuple[ValidatorResult, ...]
    observations: tuple[Observation, ...] = ()


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
    refusals: tuple[str, ...] = Field(default=(), description="why a citation did not count, one sentence each")


class QuestionOpened(Frozen):
    """A fact is missing that only a person can give."""

    type: Literal["question_opened"] = "question_opened"
    question: str


class QuestionAnswered(Frozen):
    """A person gave it."""

    type: Literal["question_answered"] = "question_answered"
    question: str
    evidence_ref: str


class ApprovalRecorded(Frozen):
    """A person decided on something that waited."""

    type: Literal["approval_recorded"] = "approval_recorded"
    approval_id: str
    decision: Literal["approved", "denied", "expired"]


class Blocked(Frozen):
    """The run ends: a person is needed, or the goal cannot be reached."""

    type: Literal["blocked"] = "blocked"
    reason: str
    stop_reason: StopReason


class Completed(Frozen):
    """The run ends: proven."""

    type: Literal["completed"] = "completed"
    result_ref: str = Field(description='what proves it: "validators of round 2", "verdict of round 3"')


class Capped(Frozen):
    """The run ends: a limit."""

    type: Literal["capped"] = "capped"
    stop_reason: StopReason
    reason: str


class Cancelled(Frozen):
    """The run ends: somebody stopped it."""

    type: Literal["cancelled"] = "cancelled"
    reason: str
    stop_reason: StopReason = StopReason.INTERRUPTED
    signal: int | None = None


class Failed(Frozen):
    """The run ends: something it needs does not work."""

    type: Literal["failed"] = "failed"
    stop_reason: StopReason
    reason: str


Event = Annotated[
    GoalCreated
    | RunStarted
    | StepStarted
    | RoundStarted
    | MessageRecorded
    | ToolCalled
    | ToolResultRecorded
    | UsageRecorded
    | RoundFinished
    | ValidatorsFinished
    | AuditStarted
    | AuditFailed
    | VerdictRecorded
    | QuestionOpened
    | QuestionAnswered
    | ApprovalRecorded
    | Blocked
    | Completed
    | Capped
    | Cancelled
    | Failed,
    Field(discriminator="type"),
]
"""Everything that can happen in a run; closed, so that a fold that forgets one does not type-check."""


class Record(Frozen):
    """One line of events.jsonl: an event, its place in the log and its time."""

    v: str = Field(default=SCHEMA_VERSION, description="schema version, major.minor")
    seq: int = Field(ge=1, description="place in the log, from 1, without gaps")
    at: str = Field(description="ISO 8601, UTC")
    elapsed: float = Field(default=0.0, ge=0, description="seconds of active time since the run began")
    event: Event


RECORD = TypeAdapter(Record)
"""Reads one line: `RECORD.validate_json(line)`."""
