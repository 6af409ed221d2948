"""Events of the beginning of a run, and of people: goal, start, resume, questions and approvals."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.base import Frozen, Snapshot
from goalrunner.core.goal import ApprovalKind, Approvals
from goalrunner.core.observation import ArtifactRef, Observation
from goalrunner.core.outcome import Usage

RiskClass = Literal["low", "medium", "high", "critical"]


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
    """What the decisions need to know of the goal: limits, validators, judge."""

    max_iterations: int | None = Field(default=None, description="None: no limit")
    timeout: float | None = Field(default=None, description="seconds of active time; None: no limit")
    tokens: int | None = None
    cost_usd: float | None = None
    unenforced: tuple[BudgetName, ...] = Field(
        default=(), description="budgets that count what is known alone, where the agent does not report what it used"
    )
    validators: tuple[str, ...] = Field(default=(), description="names of those that are not hidden")
    hidden: tuple[str, ...] = Field(default=(), description="names of the hidden ones")
    has_judge: bool = False
    minimum_score: float = 0.0
    require: Literal["any", "runner"] = Field(
        default="any", description="whether reported observations count as evidence"
    )
    takes_baseline: bool = Field(default=False, description="whether the validators run once before round 1")
    wants_red: bool = Field(default=False, description="whether a green baseline is refused")
    needs_round: bool = Field(default=False, description="whether the agent works even after a green baseline")
    protects: tuple[str, ...] = Field(default=(), description="the goal's patterns of protected paths")
    editable: tuple[str, ...] = Field(default=(), description="the goal's patterns of paths that may change")
    stall_rounds: int | None = Field(default=None, description="equal rounds in a row that count as a stall")
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
    models: dict[str, str] = Field(
        default_factory=dict, description='by account; the judge "agent" is already resolved'
    )
    agent_command: str = Field(default="", description="an external agent and its command, for people")
    version: str = Field(description="of goalrunner")
    labels: tuple[str, ...] = Field(default=(), description='what weakens the proof: "self-judged", ...')
    check_environment: str = Field(default="", description="the kind of check environment; empty: none is needed")
    checks: str = Field(default="", description="for people: kind of check environment, and what is protected")
    notes: tuple[str, ...] = Field(default=(), description="warnings before the first round")
    deadline_at: str | None = Field(
        default=None, description="ISO 8601, UTC; when the time limit ends, without waiting for a person"
    )
    handed: tuple[str, ...] = Field(
        default=(), description="parts that the calling program handed in: only it can resume the run"
    )
    goal_file: str = Field(default="", description="where the goal was read from; always protected")
    goal_sha256: str = Field(default="", description="of the frozen goal.toml: a resumed run takes no other")
    continues: str = Field(default="", description="id of the run whose conversation goes on in this one")
    sandbox: str = Field(default="none", description="the sandbox of the agent's commands and the validators")


class StartKept(Frozen):
    """Files about the start were written into the run's folder; a resumed run uses exactly these."""

    type: Literal["start_kept"] = "start_kept"
    files: dict[str, str] = Field(description="path below the folder's `start` -> SHA-256 of its content")


class RunResumed(Frozen):
    """Another process resumed the run."""

    type: Literal["run_resumed"] = "run_resumed"
    plan: Plan = Field(description="the limits as they are from now on")
    version: str = Field(description="of goalrunner")
    note: str = Field(default="", description="a message of the user to the agent")
    snapshot: Snapshot | None = Field(default=None, description="the workspace now")
    changed: tuple[str, ...] = Field(default=(), description="paths that changed while the run was interrupted")
    cut: tuple[str, ...] = Field(default=(), description="tool calls that had begun and have no result")
    in_flight: dict[str, Usage] = Field(
        default_factory=dict, description="by account: what a model call that was cut may have cost, estimated"
    )
    deadline_at: str | None = Field(default=None, description="ISO 8601, UTC")
    notes: tuple[str, ...] = Field(default=(), description="warnings about how the run goes on")
    sandbox: str = Field(default="none", description="the sandbox from now on")


Decision = Literal["approved", "denied", "expired"]


class QuestionOpened(Frozen):
    """A question that only a person can answer."""

    type: Literal["question_opened"] = "question_opened"
    question: str
    by: Literal["agent", "judge"] = "agent"


class QuestionAnswered(Frozen):
    """A person's answer. It is an observation for agent and judge."""

    type: Literal["question_answered"] = "question_answered"
    question: str
    answer: str = ""
    evidence_ref: str = Field(description="the observation's id")
    observation: Observation | None = Field(default=None, description="None where a tool result holds the answer")
    by: str = Field(default="", description="who answered: user@host")


class ApprovalRequested(Frozen):
    """An action waits for the approval of a person."""

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
    expires_at: str | None = Field(default=None, description="ISO 8601, UTC; after it the approval expires")


class ApprovalRecorded(Frozen):
    """An approval was decided by a person, or expired."""

    type: Literal["approval_recorded"] = "approval_recorded"
    approval_id: str
    decision: Decision
    by: str = Field(default="", description="who decided: user@host; empty for an expired one")
    reason: str = ""
    guarded: bool = Field(default=True, description="False: given by a command that the agent could have run as well")
    evidence_refs: tuple[str, ...] = Field(default=(), description="observations that were shown to the person")
    changed: tuple[str, ...] = Field(default=(), description="paths that changed while a completion waited")
    snapshot: Snapshot | None = Field(default=None, description="the workspace then, where anything changed")
