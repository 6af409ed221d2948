"""The figures of a run: what `summary.json` holds, and what every report shows. Imports no pydantic: `goal list` is quick."""

# Without `from __future__ import annotations`: `read` compares values with the declared types.
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from goalrunner.core.errors import titled

if TYPE_CHECKING:
    from goalrunner.core.run_state import RunState

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

    They are made of the state, or read from the file. The file may be of another version, or damaged: a field that is
    missing there, or has another type, has its default.
    """

    run_id: str = ""
    parent: str = ""
    objective: str = ""
    goal_file: str = ""
    workspace: str = ""
    path: str = ""
    """The run's folder."""
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
    approvals: list[dict[str, Any]] = field(default_factory=list)
    """Those that wait for a person, with the fields of `ApprovalRow`."""
    handed: list[str] = field(default_factory=list)
    """Parts that only the calling program can provide."""

    round: int = 0
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
    check_environment: str = ""

    agent_model: str = ""
    judge_model: str = ""
    duration: float = 0.0
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
        """Return the figures of a state. `lost`: the run has not ended, and its process is gone."""
        from goalrunner.core.summary import approval_row, outcome_of

        outcome = outcome_of(state, lost=lost)
        goal, memory, verdict, usage = state.goal, state.memory, state.verdict, outcome.usage
        total, judge = outcome.total, usage.get("judge")
        criteria = verdict.criteria if verdict else ()
        return cls(
            run_id=goal.run_id,
            parent=goal.parent,
            objective=goal.description,
            goal_file=state.goal_file,
            workspace=state.workspace,
            status=LOST if lost else state.status.value,
            stop_reason=state.stop_reason.value if state.stop_reason else None,
            message=state.message,
            exit_code=outcome.exit_code if state.status != RUNNING else None,
            current_step=memory.current_step,
            completed_steps=list(memory.completed_steps),
            pending_steps=list(memory.pending_steps),
            open_questions=list(memory.open_questions),
            approvals=[approval_row(item).model_dump(mode="json") for item in state.waiting],
            handed=list(state.handed),
            round=state.round,
            round_ended=state.round_ended,
            iterations=state.iterations,
            max_iterations=state.plan.max_iterations,
            limits=outcome.limits,
            unenforced=list(state.plan.unenforced),
            score=verdict.score if verdict else None,
            complete=verdict.complete if verdict else False,
            missing=verdict.missing if verdict else "",
            criteria_satisfied=sum(criterion.satisfied for criterion in criteria),
            criteria_total=len(criteria),
            derived_criteria=list(goal.derived_criteria),
            validators=[
                {"name": item.name, "passed": item.passed, "summary": item.remark} for item in state.validators
            ],
            labels=list(outcome.labels),
            protected_changes=list(state.protected_changes),
            check_environment=state.check_environment,
            agent_model=state.models.get("agent", ""),
            judge_model=state.models.get("judge", ""),
            duration=state.elapsed,
            tokens=total.known_tokens,
            estimated_tokens=total.estimated_tokens,
            uncounted_calls=total.uncounted_calls,
            cost_usd=total.cost_usd,
            known_cost_usd=total.known_cost_usd,
            judge_tokens=judge.known_tokens if judge else 0,
            judge_cost_usd=judge.cost_usd if judge else 0.0,
            redacted=dict(state.redacted),
            started_at=goal.created_at,
            updated_at=goal.updated_at,
            finished_at=state.ended_at,
        )

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "RunSummary":
        """Return the figures in the content of a `summary.json`."""
        fitting = {
            one.name: values[one.name]
            for one in fields(cls)
            if one.name in values and _has_type(values[one.name], one.type)
        }
        return cls(**fitting)

    def values(self) -> dict[str, Any]:
        """Return the content of `summary.json`."""
        return asdict(self)

    @property
    def checked_rounds(self) -> int:
        """The rounds that were checked. A baseline that completes the run is its first iteration, but no round."""
        return 0 if self.status == "complete" and self.round == 0 else self.iterations

    @property
    def process_exit_code(self) -> int:
        """The exit code of a command about the run; 4 if the run has none."""
        has_ended = self.status not in (RUNNING, LOST, UNREADABLE)
        return self.exit_code if has_ended and self.exit_code is not None else NOT_ENDED

    @property
    def has_spent(self) -> bool:
        """Whether anything was used, or may have been."""
        return bool(self.tokens or self.uncounted_calls or self.known_cost_usd or self.cost_usd)

    @property
    def waiting(self) -> dict[str, str]:
        """The approvals that wait: kind and action by id."""
        return {
            str(one.get("id", "?")): titled(str(one.get("kind", "?")), str(one.get("action", "")))
            for one in self.approvals
        }


def _has_type(value: object, declared: Any) -> bool:
    """Return whether a JSON value has the declared type of a field. An integer is a float, and True is not a number."""
    if isinstance(value, int | float) and declared in (int, float):
        return type(value) in (int, declared) and abs(value) < _LARGEST
    if type(value) is declared or declared is Any:
        return True
    parts = get_args(declared)
    if isinstance(declared, UnionType):
        return any(value is None if one is NoneType else _has_type(value, one) for one in parts)
    if isinstance(value, list) and get_origin(declared) is list:
        return all(_has_type(item, parts[0]) for item in value)
    if isinstance(value, dict) and get_origin(declared) is dict:
        return all(_has_type(item, parts[1]) for item in value.values())
    return False
