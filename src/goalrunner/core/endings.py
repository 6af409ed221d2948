"""How a run ends: the stop reason, the message, and what to do next."""

from __future__ import annotations

from goalrunner.core.budgets import options_to_lift, shortfall
from goalrunner.core.errors import (
    ApprovalDenied,
    ApprovalPending,
    BudgetExhausted,
    GoalError,
    ModelError,
    one_line,
)
from goalrunner.core.events import CritiqueStarted, RunEnded
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.verdict import UnreadAnswer


def end(reason: StopReason, message: str, hint: str = "") -> RunEnded:
    """Return the end of a run, with what to do next."""
    text = f"{message}\n{hint}" if hint else message
    return RunEnded(stop_reason=reason, message=text)


def timed_out(state: RunState) -> RunEnded:
    """Return how a run ends at its time limit."""
    timeout = state.plan.timeout
    limit = "the time limit" if timeout is None else f"{timeout:g} s"
    meanwhile = f" while {at_work(state)} ran" if state.memory.current_step else ""
    message = f"the time limit of {limit} was reached{meanwhile}"
    return end(StopReason.TIMEOUT, message)


_AT_WORK = {
    "baseline": "validators",
    "validate": "validators",
    "critique": CritiqueStarted.account,
    "review_checks": "judge",
    "audit": "judge",
    "confirm": "judge",
}
"""Who works in a step of the runner. In other steps it is the agent."""


def worker_of(step: str | None) -> str:
    """Return who works in a step of that name: "validators" for "validate-2"."""
    return _AT_WORK.get((step or "").partition("-")[0], "agent")


def at_work(state: RunState) -> str:
    """Return who works in the current step: "the validators of round 2"."""
    worker = worker_of(state.memory.current_step)
    if state.round:
        return f"the {worker} of round {state.round}"
    return f"the {worker} before round 1"


def out_of_budget(state: RunState) -> RunEnded:
    """Return how a run ends without budget for the next model call."""
    lack = shortfall(state)
    if lack is None:
        return end(StopReason.BUDGET_EXHAUSTED, "the budget is spent")
    # A budget that is spent has one remedy, which reports name from the figures.
    hint = options_to_lift(state) if lack.unknown else ""
    return end(StopReason.BUDGET_EXHAUSTED, lack.words, hint)


def unreadable(state: RunState) -> RunEnded:
    """Return how a run ends if the judge's answers cannot be parsed."""
    judge = state.models.get("judge") or "its model"
    # The answer itself, so that a person sees what the judge does wrong.
    last = UnreadAnswer(
        reason=state.audit_problem.partition("\n")[0], text=state.audit_answer
    )
    audited = f"round {state.round}" if state.round else "the baseline"
    message = (
        f"{state.unread} audits of {audited} by {judge} ended without a readable "
        f"answer\n{last}"
    )
    hint = "name a judge that answers in JSON: --judge PROVIDER/MODEL, or [judge] model"
    return end(StopReason.JUDGE_FAILED, message, hint)


def interrupted(signal: int | None, *, is_kept: bool = True) -> RunEnded:
    """Return how a run ends by Ctrl-C, SIGTERM, or the caller's cancellation."""
    message = "interrupted; everything so far is saved"
    if not is_kept:
        message = "interrupted"
    return RunEnded(stop_reason=StopReason.INTERRUPTED, message=message, signal=signal)


def awaiting_approval(state: RunState) -> RunEnded:
    """Return how a run ends while an approval waits for a person."""
    waiting = state.waiting
    actions = "; ".join(f"{item.id} {one_line(item.titled)}" for item in waiting)
    run_id = state.goal.run_id
    # A single approval need not be named.
    which = "" if len(waiting) == 1 else " ID"
    hint = (
        f"goal approve {run_id}{which}, or goal deny {run_id}{which} --reason TEXT; "
        f"then {state.way_on}"
    )
    if state.settling and any(item.kind == "checks" for item in waiting):
        hint += f"\n{state.settling}"
    message = f"this waits for a person: {actions}"
    return end(StopReason.APPROVAL_REQUIRED, message, hint)


def end_by_denial(approval: Approval) -> RunEnded:
    """Return how a run ends after a denied or expired approval."""
    is_expired = approval.decision == "expired"
    what = "no decision in time on" if is_expired else "denied:"
    reason = f" ({approval.reason})" if approval.reason else ""
    return end(StopReason.DENIED, f"{what} {one_line(approval.action)}{reason}")


def end_by_error(state: RunState, error: GoalError) -> RunEnded:
    """Return how a run ends after an expected error."""
    match error:
        case BudgetExhausted():
            return out_of_budget(state)
        case ApprovalPending():
            return awaiting_approval(state)
        case ApprovalDenied():
            return end_by_denial(
                next(item for item in state.approvals if item.id == error.approval_id)
            )
    reason = StopReason(error.stop_reason)
    step = state.memory.current_step or ""
    is_judges = step.startswith(("audit-", "review_checks-"))
    is_models = isinstance(error, ModelError) and reason is StopReason.AGENT_FAILED
    if is_judges and is_models:
        # The error of a model does not say whose model it is.
        reason = StopReason.JUDGE_FAILED
    return end(reason, str(error))
