"""The typed events of a run's log, with their schema version.

Each event has its own tag (`type`). Large content lies in transcript and artifacts; events hold references. The tags
goal_created, step_started, tool_result_recorded, approval_recorded, question_opened, question_answered and
run_ended (blocked, completed, cancelled) are those of the Goals and State pattern."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter

from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal_tables import DEFAULT_THRESHOLD, ApprovalKind, Approvals
from goalrunner.core.observation import ArtifactRef, Snapshot
from goalrunner.core.outcome import GoalStatus, RecordStatus, StopReason, Usage
from goalrunner.core.verdict import Critique
from goalrunner.core.work_events import *  # noqa: F403  the other half of the events
from goalrunner.core.work_events import WorkEvent

RiskClass = Literal["low", "medium", "high", "critical"]


class CriticRule(Frozen):
    """What the decisions need to know of a critic."""

    name: str = Field(description="the model, the command or the callable, for people")
    threshold: float = Field(DEFAULT_THRESHOLD, ge=0, le=1)
    max_refinements: int = Field(1, ge=0)


class GoalRecord(Frozen):
    """The goal as the state keeps it. (Source: AgentGoal of Goals and State.)"""

    goal_id: str
    run_id: str
    parent: str = Field("", description="id of the run that it is a part of")
    owner: str = ""
    description: str
    success_criteria: tuple[str, ...] = ()
    derived_criteria: tuple[str, ...] = Field((), description="by audits, if it has no criteria of its own")
    constraints: tuple[str, ...] = ()
    risk_class: RiskClass = "low"
    status: RecordStatus = "active"
    created_at: str
    updated_at: str


class Plan(Frozen):
    """What the decisions need to know of the goal: limits, validators, judge."""

    max_iterations: int | None = Field(None, description="None: no limit")
    timeout: float | None = Field(None, description="seconds of active time; None: no limit")
    tokens: int | None = None
    cost_usd: float | None = None
    unenforced: tuple[BudgetName, ...] = Field((), description="budgets that count only what is known")
    validators: tuple[str, ...] = Field((), description="names of those that are not hidden")
    hidden: tuple[str, ...] = Field((), description="names of the hidden ones")
    has_judge: bool = False
    critic: CriticRule | None = None
    minimum_score: float = 0.0
    require: Literal["any", "runner"] = Field("any", description="whether reported observations count as evidence")
    takes_baseline: bool = Field(False, description="whether the validators run once before round 1")
    wants_red: bool = Field(False, description="whether a green baseline is refused")
    needs_round: bool = Field(False, description="whether the agent works even after a green baseline")
    checks_response: bool = Field(False, description="whether a callable checks the response")
    protects: tuple[str, ...] = Field((), description="the goal's patterns of protected paths")
    editable: tuple[str, ...] = Field((), description="the goal's patterns of paths that may change")
    stall_rounds: int | None = Field(None, description="equal rounds in a row that count as a stall")
    deliverable: Literal["workspace", "response"] = "workspace"
    approvals: Approvals = Field(default_factory=Approvals, description="what waits for a person")


class GoalCreated(Frozen):
    """The first event of every log."""

    type: Literal["goal_created"] = "goal_created"
    goal: GoalRecord
    plan: Plan


class NoteAdded(Frozen):
    """A warning about the run that was found after it began."""

    type: Literal["note_added"] = "note_added"
    note: str


class RunStarted(Frozen):
    """The run started in a process."""

    type: Literal["run_started"] = "run_started"
    workspace: str
    models: dict[str, str] = Field({}, description='by account; the judge "agent" is already resolved')
    agent_command: str = Field("", description="an external agent and its command, for people")
    version: str = Field(description="of goalrunner")
    labels: tuple[str, ...] = Field((), description='what weakens the proof: "self-judged", ...')
    check_environment: str = Field("", description="the kind of check environment; empty: none is needed")
    checks: str = Field("", description="for people: kind of check environment, and what is protected")
    notes: tuple[str, ...] = Field((), description="warnings before the first round")
    deadline_at: str | None = Field(None, description="ISO 8601, UTC; without waiting for a person")
    handed: tuple[str, ...] = Field((), description="parts that only the calling program can provide")
    goal_file: str = Field("", description="where the goal was read from; always protected")
    goal_sha256: str = Field("", description="of the frozen goal.toml: a resumed run takes no other")
    continues: str = Field("", description="id of the run whose conversation goes on in this one")
    sandbox: str = Field("none", description="the sandbox of the agent's commands and the validators")


class CritiqueStarted(Frozen):
    """The critic is about to score the round."""

    type: Literal["critique_started"] = "critique_started"
    round: int = Field(ge=1)


class CritiqueFinished(Critique):
    """The critic's score of the round, or why there is none. It is not evidence, and does not end a run."""

    type: Literal["critique_finished"] = "critique_finished"
    round: int = Field(ge=1)
    duration: float = Field(0.0, ge=0, description="seconds")
    usage: Usage | None = Field(None, description="already counted by usage_recorded; None: no model was asked")


class RefinementStarted(Frozen):
    """The critic's feedback is about to go to the agent, in the same round."""

    type: Literal["refinement_started"] = "refinement_started"
    round: int = Field(ge=1)
    number: int = Field(ge=1, description="of the refinements of this round")


class StartKept(Frozen):
    """Files about the start were written into the run's folder. A resumed run uses these files."""

    type: Literal["start_kept"] = "start_kept"
    files: dict[str, str] = Field(description="path below the folder's `start` -> SHA-256 of its content")


class RunResumed(Frozen):
    """Another process resumed the run."""

    type: Literal["run_resumed"] = "run_resumed"
    plan: Plan = Field(description="the limits as they are from now on")
    version: str = Field(description="of goalrunner")
    note: str = Field("", description="a message of the user to the agent")
    snapshot: Snapshot | None = Field(None, description="the workspace now")
    changed: tuple[str, ...] = Field((), description="paths that changed while the run was interrupted")
    cut: tuple[str, ...] = Field((), description="tool calls that had begun and have no result")
    in_flight: dict[str, Usage] = Field({}, description="by account: estimates for interrupted model calls")
    deadline_at: str | None = Field(None, description="ISO 8601, UTC")
    notes: tuple[str, ...] = Field((), description="warnings about how the run goes on")
    sandbox: str = Field("none", description="the sandbox from now on")


Decision = Literal["approved", "denied", "expired"]


class ApprovalRequested(Frozen):
    """An action waits for the approval of a person."""

    type: Literal["approval_requested"] = "approval_requested"
    approval_id: str = Field(description='"a1"')
    kind: ApprovalKind
    action: str = Field(description="the command, the path, or what is to be called complete; for people")
    rule: str = Field(description="the setting of the goal that requires it")
    tool_call_id: str = Field("", description="of a tool call that waits")
    snapshot: str = Field("", description="what a completion rests on: a snapshot's id, or the hash of the response")
    preview: ArtifactRef | None = Field(None, description="the unified diff of what would be written")
    evidence_refs: tuple[str, ...] = Field((), description="observations that it rests on")
    expires_at: str | None = Field(None, description="ISO 8601, UTC; after it the approval expires")


class ApprovalRecorded(Frozen):
    """An approval was decided by a person, or expired."""

    type: Literal["approval_recorded"] = "approval_recorded"
    approval_id: str
    decision: Decision
    by: str = Field("", description="who decided: user@host; empty for an expired one")
    reason: str = ""
    guarded: bool = Field(True, description="False: given by a command that the agent could have run as well")
    evidence_refs: tuple[str, ...] = Field((), description="observations that were shown to the person")
    changed: tuple[str, ...] = Field((), description="paths that changed while a completion waited")
    snapshot: Snapshot | None = Field(None, description="the workspace then, where anything changed")


class RunEnded(Frozen):
    """The run ends; `decide` returns it as the last step."""

    type: Literal["run_ended"] = "run_ended"
    stop_reason: StopReason
    message: str = Field("", description='why it ended; for a complete run, the proof: "verdict of round 3"')
    signal: int | None = Field(None, description="number of the signal that interrupted the run")

    @property
    def status(self) -> GoalStatus:
        return self.stop_reason.status


MemoryKind = Literal["event", "fact", "preference", "policy_reference"]
"""What may be promoted. (Source: the promotion rules of Goals and State.)"""


class MemoryPromoted(Frozen):
    """A fact of this run was kept for later runs."""

    type: Literal["memory_promoted"] = "memory_promoted"
    memory_id: str
    kind: MemoryKind
    source_ref: str = Field(description="the observation or event that it rests on")


SCHEMA_VERSION = "1.6"
"""The version of the log. Readers refuse another major number."""

Event = Annotated[
    GoalCreated
    | RunStarted
    | RunResumed
    | NoteAdded
    | StartKept
    | CritiqueStarted
    | CritiqueFinished
    | RefinementStarted
    | ApprovalRequested
    | ApprovalRecorded
    | MemoryPromoted
    | RunEnded
    | WorkEvent,
    Field(discriminator="type"),
]
"""All events. The type checker reports a fold in which one is missing."""


KINDS = frozenset(kind.model_fields["type"].default for kind in get_args(get_args(Event)[0]))
"""The tags that this version knows."""


class Record(Frozen):
    """One line of events.jsonl: an event, its place in the log and its time."""

    v: str = Field(SCHEMA_VERSION, description="schema version, major.minor")
    seq: int = Field(ge=1, description="place in the log, from 1, without gaps")
    at: str = Field(description="ISO 8601, UTC")
    elapsed: float = Field(0.0, ge=0, description="seconds of active time since the run began")
    p: str = Field(
        "",
        pattern=r"^([0-9a-f]{16})?$",
        description="first 16 digits of the SHA-256 of the previous line; in the first line, of an empty text",
    )
    event: Event


RECORD = TypeAdapter(Record)
"""Reads one line: `RECORD.validate_json(line)`."""
