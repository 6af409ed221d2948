"""How a run begins: the goal as the state keeps it, and what policy needs of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen

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
    """What policy needs to know of the goal: the limits, and who checks."""

    max_iterations: int | None = Field(default=None, description="None: no limit")
    timeout: float | None = Field(default=None, description="seconds of active time; None: no limit")
    tokens: int | None = None
    cost_usd: float | None = None
    validators: tuple[str, ...] = Field(default=(), description="their names")
    has_judge: bool = False
    minimum_score: float = 0.0
    takes_baseline: bool = Field(default=False, description="whether the validators run once before round 1")
    wants_red: bool = Field(default=False, description="whether a green baseline is refused")
    clean_proof: bool = Field(
        default=False, description="whether the validators run in a clean checkout before complete"
    )
    protects: tuple[str, ...] = Field(default=(), description="the goal's patterns of protected paths")
    stall_rounds: int | None = Field(default=None, description="equal rounds in a row that count as a stall")
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
    labels: tuple[str, ...] = Field(default=(), description='what weakens the proof: "unprotected", "self-judged", ...')
    notes: tuple[str, ...] = Field(default=(), description="what must be said aloud before the first round")
    deadline_at: str | None = Field(default=None, description="ISO 8601, UTC; when the time limit ends if nobody waits")
