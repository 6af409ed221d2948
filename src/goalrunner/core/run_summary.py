"""The figures of a run: what `summary.json` holds, and what every report shows.

Imports no pydantic: `goal list` is quick.
"""

# Without `from __future__ import annotations`: `read` compares values with the declared
# types.
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from goalrunner.core.errors import titled

if TYPE_CHECKING:
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.run_state import RunState
    from goalrunner.core.verdict import GoalVerdict

RUNNING = "running"
LOST = "lost"
"""The status of a run that has not ended and whose process is gone."""
UNREADABLE = "unreadable"

NOT_ENDED = 4
"""The exit code of a run that has not ended, is lost or cannot be read."""

_LARGEST = 1e300


@dataclass(slots=True)
class RunSummary:
    """The figures of one run, with the names and types of `summary.json`.

    They are made of the state, or read from the file. The file may be of another
    version, or damaged: a field that is missing there, or has another type, has its
    default.
    """

    run_id: str = ""
    parent: str = ""
    objective: str = ""
    goal_file: str = ""
    workspace: str = ""
    path: str = ""
    """The run's folder."""
    isolated: bool = False
    """Whether it works in a copy of the workspace."""
    pid: int = 0
    """The process that writes the log."""

    status: str = UNREADABLE
    stop_reason: str | None = None
    message: str = ""
    exit_code: int | None = None
    """None while the run goes on."""

    current_step: str | None = None
    completed_steps: list[str] = field(default_factory=list)
    pending_steps: list[str] = field(default_factory=list)
    open_questions: list[str] = field(default_factory=list)
    asks: bool = False
    """Whether a running run waits for the answer to one of them."""
    approvals: list[dict[str, Any]] = field(default_factory=list)
    """Those that wait for a person, with the fields of `ApprovalRow`."""
    handed: list[str] = field(default_factory=list)
    """Parts that only the calling program can provide."""

    round: int | None = None
    """Rounds that have begun; None: not known."""
    round_ended: bool = False
    iterations: int = 0
    max_iterations: int | None = None
    limits: dict[str, float | None] = field(default_factory=dict)
    """By name; None: no limit."""
    unenforced: list[str] = field(default_factory=list)
    """Budgets that count only usage that is known."""

    score: float | None = None
    complete: bool = False
    missing: str = ""
    criteria_satisfied: int = 0
    criteria_total: int = 0
    derived_criteria: list[str] = field(default_factory=list)
    validators: list[dict[str, Any]] = field(default_factory=list)
    """Name, `passed` and `summary` of each result of the last check."""
    labels: list[str] = field(default_factory=list)
    protected_changes: list[str] = field(default_factory=list)
    left_changed: list[str] = field(default_factory=list)
    gone_or_reverted: list[str] = field(default_factory=list)
    check_environment: str = ""

    agent_model: str = ""
    judge_model: str = ""
    waits_for: str = ""
    """The limit that it waits for; empty if it does not wait."""
    resume_at: str = ""
    """ISO 8601: when the limit resets that it waits for, or that ended it; empty: not
    known, or none."""
    duration: float = 0.0
    waited: float = 0.0
    """Seconds in which it waited for limits to reset; no active time."""
    tokens: int | None = None
    """Those that are known; None if none is."""
    estimated_tokens: int = 0
    uncounted_calls: int = 0
    cost_usd: float | None = None
    known_cost_usd: float = 0.0
    judge_tokens: int | None = None
    judge_cost_usd: float | None = None
    redacted: dict[str, int] = field(default_factory=dict)

    started_at: str = ""
    updated_at: str = ""
    finished_at: str = ""

    @classmethod
    def of(cls, state: "RunState", *, lost: bool = False) -> "RunSummary":
        """Return the figures of a state.

        `lost`: the run has not ended, and its process is gone.
        """
        from goalrunner.core.state_outcome import outcome_of

        memory = state.memory
        outcome = outcome_of(state, lost=lost)
        # The outcome makes up a verdict where there was none.
        summary = cls.of_outcome(outcome.model_copy(update={"verdict": state.verdict}))
        summary.status = LOST if lost else state.status.value
        summary.goal_file = state.goal_file
        summary.isolated = state.isolated
        summary.current_step = memory.current_step
        summary.completed_steps = list(memory.completed_steps)
        summary.pending_steps = list(memory.pending_steps)
        summary.handed = list(state.handed)
        summary.round = state.round
        summary.round_ended = state.round_ended
        summary.max_iterations = state.plan.max_iterations
        summary.unenforced = list(state.plan.unenforced)
        summary.validators = [
            {"name": item.name, "passed": item.passed, "summary": item.remark}
            for item in state.validators
        ]
        if summary.status == RUNNING:
            summary.asks = state.asks_person
            if state.wait is not None and state.wait.kind == "limit":
                summary.waits_for = state.wait.reason
        summary.updated_at = state.goal.updated_at
        return summary

    @classmethod
    def of_outcome(cls, outcome: "GoalOutcome") -> "RunSummary":
        """Return the figures of an outcome. The others have their defaults."""
        total = outcome.total
        summary = cls(
            run_id=outcome.run_id,
            parent=outcome.parent,
            objective=outcome.objective,
            workspace=outcome.workspace,
            status=outcome.status.value,
            stop_reason=outcome.stop_reason.value if outcome.stop_reason else None,
            message=outcome.message,
            open_questions=list(outcome.questions),
            iterations=outcome.iterations,
            limits=dict(outcome.limits),
            derived_criteria=list(outcome.derived_criteria),
            labels=list(outcome.labels),
            protected_changes=list(outcome.protected_changes),
            left_changed=list(outcome.left_changed),
            gone_or_reverted=list(outcome.gone_or_reverted),
            check_environment=outcome.check_environment,
            agent_model=outcome.models.get("agent", ""),
            judge_model=outcome.models.get("judge", ""),
            duration=outcome.duration,
            waited=outcome.waited,
            resume_at=outcome.resume_at,
            tokens=total.known_tokens,
            estimated_tokens=total.estimated_tokens,
            uncounted_calls=total.uncounted_calls,
            cost_usd=total.cost_usd,
            known_cost_usd=total.known_cost_usd,
            redacted=dict(outcome.redacted),
            started_at=outcome.started_at,
            finished_at=outcome.finished_at,
        )
        summary.approvals = [
            item.model_dump(mode="json")
            for item in outcome.approvals
            if item.decision == "waiting"
        ]
        if outcome.status != RUNNING:
            summary.exit_code = outcome.exit_code
        judge = outcome.usage.get("judge")
        # None would say that the use is not known.
        summary.judge_tokens = judge.known_tokens if judge else 0
        summary.judge_cost_usd = judge.cost_usd if judge else 0.0
        if outcome.verdict is not None:
            summary._add_verdict(outcome.verdict)
        return summary

    def _add_verdict(self, verdict: "GoalVerdict") -> None:
        criteria = verdict.criteria
        self.score = verdict.score
        self.complete = verdict.complete
        self.missing = verdict.missing
        self.criteria_satisfied = sum(criterion.satisfied for criterion in criteria)
        self.criteria_total = len(criteria)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "RunSummary":
        """Return the figures in the content of a `summary.json`."""
        fitting = {}
        for item in fields(cls):
            if item.name in values and _has_type(values[item.name], item.type):
                fitting[item.name] = values[item.name]
        # Every status has a name: one without letters is damage as well.
        if not any(map(str.isalpha, str(fitting.get("status", "")))):
            fitting.pop("status", None)
        return cls(**fitting)

    def values(self) -> dict[str, Any]:
        """Return the content of `summary.json`."""
        return asdict(self)

    @property
    def checked_rounds(self) -> int:
        """The rounds that were checked.

        A baseline that ends the run is its first iteration, but no round.
        """
        decided_by_baseline = self.round == 0 and self.iterations == 1
        return 0 if decided_by_baseline else self.iterations

    @property
    def process_exit_code(self) -> int:
        """The exit code of a command about the run; 4 if the run has none."""
        has_ended = self.status not in (RUNNING, LOST, UNREADABLE)
        return self.exit_code if has_ended and self.exit_code is not None else NOT_ENDED

    @property
    def known_tokens(self) -> int | None:
        """The tokens; None if nothing is known of them."""
        return self.tokens

    @property
    def has_spent(self) -> bool:
        """Whether anything was used, or may have been."""
        return bool(
            self.tokens or self.uncounted_calls or self.known_cost_usd or self.cost_usd
        )

    @property
    def waiting(self) -> dict[str, str]:
        """The approvals that wait: kind and action by id."""
        actions = {}
        for approval in self.approvals:
            # The file may be damaged: any of these may be missing there.
            kind, action = approval.get("kind", "?"), approval.get("action", "")
            actions[str(approval.get("id", "?"))] = titled(str(kind), str(action))
        return actions


def _has_type(value: object, declared: Any) -> bool:
    """Return whether a JSON value has the declared type of a field.

    An integer is a float, and True is not a number.
    """
    # True is an int for Python, and 1e999 is read as infinity.
    if isinstance(value, int | float) and declared in (int, float):
        return type(value) in (int, declared) and abs(value) < _LARGEST
    if type(value) is declared or declared is Any:
        return True
    parts = get_args(declared)
    if isinstance(declared, UnionType):
        return any(
            value is None if one is NoneType else _has_type(value, one) for one in parts
        )
    if isinstance(value, list) and get_origin(declared) is list:
        return all(_has_type(item, parts[0]) for item in value)
    if isinstance(value, dict) and get_origin(declared) is dict:
        return all(_has_type(item, parts[1]) for item in value.values())
    return False
