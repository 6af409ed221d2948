"""How a run ended, and what its model calls used."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, model_validator

from goalrunner.core.errors import ExitCode
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal_tables import ApprovalKind
from goalrunner.core.observation import DiffStat, EvidenceRow
from goalrunner.core.verdict import GoalVerdict


class Usage(Frozen):
    """Tokens, dollars and calls of one account. Unknown values are None, never 0.

    `cost_usd` is None when any call had no known price. The tokens are None when nothing is known of them; beside
    `uncounted_calls` they are a lower bound, as `known_cost_usd` is one where `cost_usd` is None.
    """

    input_tokens: int | None = Field(
        default=0, ge=0, description="prompt tokens, cached ones included; None: nothing is known"
    )
    output_tokens: int | None = Field(
        default=0, ge=0, description="completion tokens, reasoning included; None: nothing is known"
    )
    cost_usd: float | None = Field(default=0.0, ge=0, description="US dollars; None: unknown for some calls")
    known_cost_usd: float = Field(default=0.0, ge=0, description="the known part of the dollars")
    calls: int = Field(default=0, ge=0, description="answered model calls; of an external agent what it counts as one")
    retries: int = Field(default=0, ge=0, description="calls repeated after 429, 5xx, a timeout or a cut stream")
    estimated_tokens: int = Field(
        default=0, ge=0, description="of the tokens, those of calls that were cut: estimated, not counted"
    )
    uncounted_calls: int = Field(default=0, ge=0, description="calls with unknown tokens; 0: the tokens are complete")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Add derived fields, and fields that logs of schema 1.2 and earlier do not have.

        They had 0 tokens for a call of which neither tokens nor dollars were known.
        """
        if not isinstance(data, dict):
            return data
        values = dict(data)
        counted = (values.get("input_tokens") or 0) or (values.get("output_tokens") or 0)
        if "uncounted_calls" not in values and not counted:
            unpriced = "cost_usd" in values and values["cost_usd"] is None
            values["uncounted_calls"] = values.get("calls") or 0 if unpriced else 0
        if values.get("uncounted_calls") and not counted:
            values["input_tokens"] = values["output_tokens"] = None
        values.setdefault("known_cost_usd", values.get("cost_usd") or 0.0)
        return values

    @classmethod
    def unknown(cls) -> Usage:
        """Return the usage of a call, or of a turn of an external agent, that was not reported."""
        return cls(cost_usd=None, calls=1, uncounted_calls=1)

    @property
    def tokens(self) -> int:
        """Input and output tokens together, as far as they are known: beside `uncounted_calls` a lower bound."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    @property
    def known_tokens(self) -> int | None:
        """The tokens; None if nothing is known of them."""
        return None if self.input_tokens is None else self.tokens

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        cost = self.known_cost_usd + other.known_cost_usd
        return Usage(
            input_tokens=(self.input_tokens or 0) + (other.input_tokens or 0),
            output_tokens=(self.output_tokens or 0) + (other.output_tokens or 0),
            cost_usd=cost if known else None,
            known_cost_usd=cost,
            calls=self.calls + other.calls,
            retries=self.retries + other.retries,
            estimated_tokens=self.estimated_tokens + other.estimated_tokens,
            uncounted_calls=self.uncounted_calls + other.uncounted_calls,
        )

    def since(self, before: Usage) -> Usage:
        """Return the usage since `before`. Its dollars are unknown if they are in either of the two."""
        known = self.cost_usd is not None and before.cost_usd is not None
        return Usage(
            input_tokens=(self.input_tokens or 0) - (before.input_tokens or 0),
            output_tokens=(self.output_tokens or 0) - (before.output_tokens or 0),
            cost_usd=max((self.cost_usd or 0.0) - (before.cost_usd or 0.0), 0.0) if known else None,
            known_cost_usd=max(self.known_cost_usd - before.known_cost_usd, 0.0),
            calls=self.calls - before.calls,
            retries=self.retries - before.retries,
            estimated_tokens=max(self.estimated_tokens - before.estimated_tokens, 0),
            uncounted_calls=self.uncounted_calls - before.uncounted_calls,
        )


class AgentSession(Frozen):
    """The session that an external agent keeps of a conversation."""

    agent: str = Field(description="its name")
    id: str = Field(description="the agent's id; empty if there is none any more")
    total: Usage = Field(default_factory=Usage, description="what it reported in all so far, where it reports totals")


SCHEMA_VERSION = "1.2"
"""Of outcome.json: a reader refuses another major number, and ignores fields it does not know.

1.1: unknown usage is null; in 1.0 it was 0 tokens beside `cost_usd` null.
1.2: `protected_changes` and `check_environment` replace `touched` and `proof`.
"""


class GoalStatus(StrEnum):
    """How a run ended, or that it has not."""

    RUNNING = "running"
    COMPLETE = "complete"
    CAPPED = "capped"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    FAILED = "failed"


class StopReason(StrEnum):
    """Which rule ended the run."""

    SATISFIED = "satisfied"
    MAX_ITERATIONS = "max_iterations"
    TIMEOUT = "timeout"
    BUDGET_EXHAUSTED = "budget_exhausted"
    APPROVAL_REQUIRED = "approval_required"
    DENIED = "denied"
    QUESTION_OPEN = "question_open"
    IMPOSSIBLE = "impossible"
    STALLED = "stalled"
    EVIDENCE_UNSTABLE = "evidence_unstable"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    AUTHENTICATION = "authentication"
    MODEL_NOT_FOUND = "model_not_found"
    AGENT_FAILED = "agent_failed"
    JUDGE_FAILED = "judge_failed"
    VALIDATOR_MISSING = "validator_missing"
    ENVIRONMENT_FAILED = "environment_failed"
    WORKSPACE_FAILED = "workspace_failed"
    BASELINE_GREEN = "baseline_green"
    INTERNAL_ERROR = "internal_error"

    @property
    def status(self) -> GoalStatus:
        """The status of a run that ends for this reason."""
        return _STATUSES.get(self, GoalStatus.FAILED)


_STATUSES: dict[StopReason, GoalStatus] = {
    StopReason.SATISFIED: GoalStatus.COMPLETE,
    **dict.fromkeys(
        (StopReason.MAX_ITERATIONS, StopReason.TIMEOUT, StopReason.BUDGET_EXHAUSTED),
        GoalStatus.CAPPED,
    ),
    **dict.fromkeys(
        (
            StopReason.APPROVAL_REQUIRED,
            StopReason.DENIED,
            StopReason.QUESTION_OPEN,
            StopReason.IMPOSSIBLE,
            StopReason.STALLED,
            StopReason.EVIDENCE_UNSTABLE,
        ),
        GoalStatus.BLOCKED,
    ),
    **dict.fromkeys((StopReason.CANCELLED, StopReason.INTERRUPTED), GoalStatus.CANCELLED),
}
"""The status of each stop reason; those that are not listed are failures."""


EXIT_CODES: dict[GoalStatus, ExitCode] = {
    GoalStatus.RUNNING: ExitCode.FAILED,
    GoalStatus.COMPLETE: ExitCode.COMPLETE,
    GoalStatus.CAPPED: ExitCode.CAPPED,
    GoalStatus.BLOCKED: ExitCode.BLOCKED,
    GoalStatus.CANCELLED: ExitCode.INTERRUPTED,
    GoalStatus.FAILED: ExitCode.FAILED,
}
"""The exit code of each status. A run cancelled by SIGTERM exits 143 instead; one still running has none to give: 4."""


class GoalAttempt(Frozen):
    """One decided round: its number from 1, whether it passed, and the feedback that went back. (Source: GoalLoop.)"""

    attempt: int = Field(ge=1)
    passed: bool
    feedback: str | None = None
    score: float = Field(default=0.0, ge=0, le=1)


class ApprovalRow(Frozen):
    """An approval that waited, or waits, for a person, and the decision."""

    id: str
    kind: ApprovalKind
    action: str = Field(description="the command, the path, or the result to accept")
    rule: str = Field(default="", description="the rule of the goal that requires it")
    requested_at: str = Field(description="ISO 8601, UTC")
    expires_at: str | None = Field(default=None, description="ISO 8601, UTC; None: never")
    decision: Literal["waiting", "approved", "denied", "expired", "withdrawn"] = "waiting"
    decided_at: str = ""
    by: str = Field(default="", description="user@host")
    reason: str = ""
    guarded: bool = Field(default=True, description="False: given by a command that the agent could have run as well")
    evidence_refs: tuple[str, ...] = Field(default=(), description="observations that it rests on")
    diff: str = Field(default="", description="name of the artifact that holds what would be written")


class GoalOutcome(Frozen):
    """The result of a run, as `outcome.json` holds it."""

    schema_version: str = SCHEMA_VERSION
    run_id: str
    parent: str = Field(default="", description="id of the run that it is a part of")
    objective: str
    derived_criteria: tuple[str, ...] = Field(
        default=(),
        description="criteria that the judge derived, which bind later audits; empty if the goal lists its own",
    )
    status: GoalStatus
    stop_reason: StopReason | None = Field(default=None, description="None only while running")
    message: str = Field(default="", description="one or two lines for people: why it failed and what to do")
    iterations: int = Field(ge=0, description="rounds that were checked, judge reached or not")
    verdict: GoalVerdict | None = Field(default=None, description="the last one; None when no round was decided")
    evidence: tuple[EvidenceRow, ...] = Field(
        default=(), description="what the last verdict rests on: a row for each citation, and for each validator"
    )
    attempts: tuple[GoalAttempt, ...] = Field(default=(), description="the last 100 decided rounds")
    usage: dict[str, Usage] = Field(default_factory=dict, description='by account: "agent", "judge", "critic"')
    limits: dict[str, float | None] = Field(
        default_factory=dict, description="max_iterations, timeout (seconds), tokens, cost_usd; None: no limit"
    )
    models: dict[str, str] = Field(default_factory=dict, description='by role: "agent", "judge", "critic"')
    workspace: str = ""
    changes: DiffStat | None = Field(
        default=None, description="what the agent changed in the workspace; None: not known"
    )
    labels: tuple[str, ...] = Field(
        default=(),
        description='what weakens the proof: "self-judged", "rests on reports", "unguarded approval", "unasked actions",'
        ' "checks changed: PATHS", "not verified: PATHS", "needs ignored files: PATHS", "dependencies changed: ...",'
        ' "not isolated", "flaky: NAMES"',
    )
    protected_changes: tuple[str, ...] = Field(
        default=(), description="protected paths that differ from the start, one line each"
    )
    differing: tuple[str, ...] = Field(default=(), description="these paths alone")
    check_environment: str = Field(default="", description='"overlay", "in-place" or "checkout"; empty: none is needed')
    approvals: tuple[ApprovalRow, ...] = Field(default=(), description="what waited for a person, the last 100")
    questions: tuple[str, ...] = Field(default=(), description="open questions that only a person can answer")
    redacted: dict[str, int] = Field(default_factory=dict, description="secrets replaced in what was kept, by kind")
    started_at: str = Field(default="", description="ISO 8601, UTC")
    finished_at: str = Field(default="", description="ISO 8601, UTC; empty while running")
    duration: float = Field(default=0.0, ge=0, description="seconds of active time")
    run_path: str = Field(default="", description="the run's folder")
    signal: int | None = Field(default=None, description="number of the signal that interrupted it")

    @property
    def passed(self) -> bool:
        """True only for `complete`."""
        return self.status is GoalStatus.COMPLETE

    @property
    def exit_code(self) -> int:
        """What the process exits with: 0, 1, 3, 4, or 128 + signal."""
        if self.status is GoalStatus.CANCELLED and self.signal is not None:
            return 128 + self.signal
        return int(EXIT_CODES[self.status])
