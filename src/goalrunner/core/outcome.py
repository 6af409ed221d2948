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

    `cost_usd` is None if the price of any call is unknown; `known_cost_usd` is then a
    lower bound. The tokens are None if all of them are unknown. If `uncounted_calls` is
    above 0, they are a lower bound.

    >>> from goalrunner import Usage
    >>> (Usage(input_tokens=900, calls=1) + Usage(output_tokens=40)).tokens
    940
    """

    input_tokens: int | None = Field(default=0, ge=0)
    """Prompt tokens, cached ones too; None: unknown."""
    output_tokens: int | None = Field(default=0, ge=0)
    """Completion tokens, reasoning too; None: unknown."""
    cost_usd: float | None = Field(default=0.0, ge=0)
    """US dollars; None: unknown for some calls."""
    known_cost_usd: float = Field(default=0.0, ge=0)
    """The known part of the dollars."""
    calls: int = Field(default=0, ge=0)
    """Answered model calls; for an external agent, its own count."""
    retries: int = Field(default=0, ge=0)
    """Calls repeated after 429, 5xx, a timeout or a cut stream."""
    estimated_tokens: int = Field(default=0, ge=0)
    """Estimated tokens of interrupted calls, included above."""
    uncounted_calls: int = Field(default=0, ge=0)
    """Calls with unknown tokens; 0: the tokens are complete."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Add derived fields.

        Unknown tokens are None, and known dollars are the known part of the dollars.
        """
        if not isinstance(data, dict):
            return data
        fields = {"known_cost_usd": data.get("cost_usd") or 0.0, **data}
        counts_tokens = data.get("input_tokens") or data.get("output_tokens")
        # Calls without counted tokens have unknown ones, not none.
        if data.get("uncounted_calls") and not counts_tokens:
            fields |= {"input_tokens": None, "output_tokens": None}
        return fields

    @classmethod
    def unknown(cls) -> Usage:
        """Return the usage of a call that was not reported.

        It may be a turn of an external agent.
        """
        return cls(cost_usd=None, calls=1, uncounted_calls=1)

    @property
    def tokens(self) -> int:
        """The known input and output tokens.

        They are a lower bound if `uncounted_calls` is above 0.
        """
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    @property
    def known_tokens(self) -> int | None:
        """The tokens; None if nothing is known of them."""
        return None if self.input_tokens is None else self.tokens

    def __add__(self, other: Usage) -> Usage:
        return self._combined(other, 1)

    def since(self, before: Usage) -> Usage:
        """Return the usage since `before`.

        Its dollars are unknown if they are in either of the two.
        """
        return self._combined(before, -1)

    def _combined(self, other: Usage, sign: int) -> Usage:
        # One unknown price makes the sum unknown; `known_cost_usd` is its lower bound.
        cost = None
        if self.cost_usd is not None and other.cost_usd is not None:
            cost = max(self.cost_usd + sign * other.cost_usd, 0.0)
        return Usage(
            input_tokens=(self.input_tokens or 0) + sign * (other.input_tokens or 0),
            output_tokens=(self.output_tokens or 0) + sign * (other.output_tokens or 0),
            cost_usd=cost,
            known_cost_usd=max(self.known_cost_usd + sign * other.known_cost_usd, 0.0),
            calls=self.calls + sign * other.calls,
            retries=self.retries + sign * other.retries,
            estimated_tokens=max(
                self.estimated_tokens + sign * other.estimated_tokens, 0
            ),
            uncounted_calls=self.uncounted_calls + sign * other.uncounted_calls,
        )


class AgentSession(Frozen):
    """The session that an external agent keeps of a conversation."""

    agent: str
    """Its name."""
    id: str
    """The agent's id; empty if there is none any more."""
    total: Usage = Field(default_factory=Usage)
    """What it reported in all so far, where it reports totals."""
    model: str = ""
    """Its model; empty: not reported."""
    version: str = ""
    """The version of its program; empty: not reported."""


SCHEMA_VERSION = "1.3"
"""The version of outcome.json. Readers refuse another major number, and ignore unknown
fields."""


class GoalStatus(StrEnum):
    """How a run ended, or that it is still running.

    >>> from goalrunner import GoalStatus
    >>> GoalStatus("capped") is GoalStatus.CAPPED
    True
    """

    RUNNING = "running"
    COMPLETE = "complete"
    CAPPED = "capped"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    FAILED = "failed"


class StopReason(StrEnum):
    """Which rule ended the run.

    >>> from goalrunner.core.outcome import StopReason
    >>> StopReason.TIMEOUT.status.value
    'capped'
    """

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


_STATUSES = {
    **dict.fromkeys(
        ("max_iterations", "timeout", "budget_exhausted"), GoalStatus.CAPPED
    ),
    **dict.fromkeys(
        ("approval_required", "denied", "question_open"), GoalStatus.BLOCKED
    ),
    **dict.fromkeys(("impossible", "stalled", "evidence_unstable"), GoalStatus.BLOCKED),
    **dict.fromkeys(("cancelled", "interrupted"), GoalStatus.CANCELLED),
    "satisfied": GoalStatus.COMPLETE,
}
"""The status of each stop reason; those that are not listed are failures."""

EXIT_CODES = {
    GoalStatus.COMPLETE: ExitCode.COMPLETE,
    GoalStatus.CAPPED: ExitCode.CAPPED,
    GoalStatus.BLOCKED: ExitCode.BLOCKED,
    # For a cancellation by the calling program, which sends no signal.
    GoalStatus.CANCELLED: ExitCode.INTERRUPTED,
}
"""The exit code of each status; others have 4. A run that a signal cancelled has 128 +
its number."""

FINAL = frozenset({StopReason.SATISFIED, StopReason.CANCELLED})
"""Stop reasons after which a run cannot be resumed."""

RecordStatus = Literal[
    "active", "blocked", "waiting_for_approval", "completed", "cancelled", "failed"
]
MemoryStop = Literal[
    "success", "blocked", "approval_required", "budget_exhausted", "cancelled", "failed"
]
"""Stop reasons of the working memory. (Source: Goals and State, as the status of a goal
record.)"""

_RECORDS: dict[GoalStatus, tuple[RecordStatus, MemoryStop]] = {
    GoalStatus.COMPLETE: ("completed", "success"),
    # A person lifts a limit: the goal is blocked until then, not failed.
    GoalStatus.CAPPED: ("blocked", "budget_exhausted"),
    GoalStatus.BLOCKED: ("blocked", "blocked"),
    GoalStatus.CANCELLED: ("cancelled", "cancelled"),
    GoalStatus.FAILED: ("failed", "failed"),
}


def record_status(reason: StopReason) -> tuple[RecordStatus, MemoryStop]:
    """Return how the end of a run is recorded.

    That is the status of the goal record, and the stop reason of the working memory.
    """
    if reason is StopReason.APPROVAL_REQUIRED:
        return "waiting_for_approval", "approval_required"
    return _RECORDS[reason.status]


class GoalAttempt(Frozen):
    """One decided round, with the feedback that went back.

    Its number is from 1. (Source: GoalLoop.)

    >>> from goalrunner import run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> run = run_goal(ScriptedConversation("4"), "Add.", validators=lambda: True)
    >>> run.attempts[0].attempt, run.attempts[0].passed
    (1, True)
    """

    attempt: int = Field(ge=1)
    passed: bool
    feedback: str | None = None
    score: float = Field(default=0.0, ge=0, le=1)


class ApprovalFacts(Frozen):
    """The facts about an approval that state and outcome have in common."""

    id: str
    kind: ApprovalKind
    action: str
    """The command, the path, or the result to accept."""
    rule: str = ""
    """The rule of the goal that requires it."""
    requested_at: str
    """ISO 8601, UTC."""
    expires_at: str | None = None
    """ISO 8601, UTC; None: never."""
    decided_at: str = ""
    by: str = ""
    """User@host."""
    reason: str = ""
    guarded: bool = True
    """False: given by a command that the agent could have run as well."""
    evidence_refs: tuple[str, ...] = ()
    """Observations that it rests on."""


class ApprovalRow(ApprovalFacts):
    """An approval that waited, or waits, for a person, and the decision."""

    decision: Literal["waiting", "approved", "denied", "expired", "withdrawn"] = (
        "waiting"
    )
    diff: str = ""
    """Name of the artifact that holds what would be written."""


class GoalOutcome(Frozen):
    """The result of a run, as `outcome.json` holds it.

    >>> from goalrunner import run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> run = run_goal(ScriptedConversation("4"), "Add.", validators=lambda: True)
    >>> run.passed, run.stop_reason.value, run.total.tokens
    (True, 'satisfied', 15)
    """

    schema_version: str = SCHEMA_VERSION
    run_id: str
    """Empty if nothing of the run is kept."""
    parent: str = ""
    """Id of the run that it is a part of."""
    objective: str
    derived_criteria: tuple[str, ...] = ()
    """By the judge; empty if the goal has its own criteria."""
    status: GoalStatus
    stop_reason: StopReason | None = None
    """None only while running."""
    message: str = ""
    """One or two lines for people: why it failed and what to do."""
    iterations: int = Field(ge=0)
    """Rounds that were checked; 1 if the baseline completes the run."""
    verdict: GoalVerdict | None = None
    """The last one; None when no round was decided."""
    evidence: tuple[EvidenceRow, ...] = ()
    """A row for each citation and each validator."""
    attempts: tuple[GoalAttempt, ...] = ()
    """The last 100 decided rounds."""
    usage: dict[str, Usage] = Field(default={})
    '''By account, such as "agent" and "judge"'''
    agent_usage: dict[str, Usage] = Field(default={})
    """By name of the agent, if another one took over."""
    limits: dict[str, float | None] = Field(default={})
    """By name; timeout in seconds; None: no limit."""
    models: dict[str, str] = Field(default={})
    """By account."""
    workspace: str = ""
    changes: DiffStat | None = None
    """What the agent changed in the workspace; None: not known."""
    gone_or_reverted: tuple[str, ...] = ()
    """Paths with content at the start that was not committed, and that are gone or have
    the committed content at the end."""
    labels: tuple[str, ...] = ()
    '''What weakens the proof, such as "self-judged" or "flaky: NAMES"'''
    protected_changes: tuple[str, ...] = ()
    """Protected paths that differ, a line each."""
    differing: tuple[str, ...] = ()
    """The paths of `protected_changes`"""
    left_changed: tuple[str, ...] = ()
    """Protected paths that differ in the workspace, whatever the validators saw."""
    check_environment: str = ""
    """"overlay" or "in-place" (older runs: "checkout"); empty: none is needed."""
    approvals: tuple[ApprovalRow, ...] = ()
    """What waited for a person, the last 100."""
    questions: tuple[str, ...] = ()
    """Open questions that only a person can answer."""
    redacted: dict[str, int] = Field(default={})
    """Secrets replaced in what was kept, by kind."""
    started_at: str = ""
    """ISO 8601, UTC."""
    finished_at: str = ""
    """ISO 8601, UTC; empty while running."""
    duration: float = Field(default=0.0, ge=0)
    """Seconds of active time."""
    waited: float = Field(default=0.0, ge=0)
    """Seconds in which it waited for limits to reset; no active time."""
    resume_at: str = ""
    """ISO 8601, UTC: when the limit resets that it waits for, or that ended it; empty:
    not known, or none."""
    run_path: str = ""
    """The run's folder; empty if nothing of the run is kept."""
    signal: int | None = None
    """Number of the signal that interrupted it."""

    @property
    def passed(self) -> bool:
        """True only for `complete`."""
        return self.status is GoalStatus.COMPLETE

    @property
    def total(self) -> Usage:
        """The usage of all accounts together."""
        return sum(self.usage.values(), Usage())

    @property
    def exit_code(self) -> int:
        """The exit code of the process: 0, 1, 3, 4, or 128 + signal."""
        if self.status is GoalStatus.CANCELLED and self.signal is not None:
            return 128 + self.signal
        return int(EXIT_CODES.get(self.status, ExitCode.FAILED))
