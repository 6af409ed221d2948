"""Budgets, and how a run ends when a step is stopped."""

from __future__ import annotations

from dataclasses import dataclass

from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.errors import (
    AgentError,
    AgentNotSignedIn,
    ApprovalDenied,
    ApprovalPending,
    AuthenticationFailed,
    BudgetExhausted,
    EnvironmentFailed,
    GoalError,
    ModelError,
    ModelNotFound,
    ValidatorMissing,
    WorkspaceError,
)
from goalrunner.core.events import RunEnded
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import Approval, RunState

_OPTIONS: dict[BudgetName, str] = {"tokens": "--tokens", "cost_usd": "--cost"}


@dataclass(frozen=True)
class Shortfall:
    """A budget that is spent, or whose use is unknown."""

    budget: BudgetName
    words: str
    unknown: bool = False
    """Whether the budget cannot be checked, because the usage of a call is unknown."""


def shortfall(state: RunState) -> Shortfall | None:
    """Return the budget that stops the run, or None. Unknown usage stops it too, except for `unenforced` budgets."""
    return _spent(state) or next(iter(_unknown(state)), None)


def budget_spent(state: RunState) -> str:
    """Return which budget is spent or can no longer be checked, in words; empty if none is."""
    found = shortfall(state)
    return found.words if found else ""


def lifting(state: RunState) -> str:
    """Return what to type if budgets can no longer be checked."""
    names = [found.budget for found in _unknown(state)]
    allow = " ".join(f"--allow-unenforced {name}" for name in names)
    lift = " ".join(f"{_OPTIONS[name]} inf" for name in names)
    return (
        f"goal resume {state.goal.run_id} {allow} continues and counts only what is known; {lift} lifts the limit"
        " (in a goal file: [budget] allow_unenforced)"
    )


def _spent(state: RunState) -> Shortfall | None:
    total, plan = state.total, state.plan
    if plan.tokens is not None and total.tokens >= plan.tokens:
        return Shortfall("tokens", f"{total.tokens:,} of {plan.tokens:,} tokens are spent")
    if plan.cost_usd is not None and total.known_cost_usd >= plan.cost_usd:
        return Shortfall("cost_usd", f"${total.known_cost_usd:.4f} of ${plan.cost_usd:.4f} are spent")
    return None


def _unknown(state: RunState) -> list[Shortfall]:
    total, plan = state.total, state.plan
    found = []
    if plan.tokens is not None and total.uncounted_calls and "tokens" not in plan.unenforced:
        known = f"{total.tokens:,} of {plan.tokens:,} tokens"
        found.append(Shortfall("tokens", _untold(state, "used", known), unknown=True))
    if plan.cost_usd is not None and total.cost_usd is None and "cost_usd" not in plan.unenforced:
        known = f"${total.known_cost_usd:.4f} of ${plan.cost_usd:.4f}"
        usage = state.usage.get("agent")
        untold = state.external and usage is not None and usage.cost_usd is None
        words = "a model call without a known price was made, so the dollar budget can no longer be enforced"
        found.append(Shortfall("cost_usd", _untold(state, "cost", known) if untold else words, unknown=True))
    return found


def _untold(state: RunState, did: str, known: str) -> str:
    agent = state.models.get("agent") or "the agent"
    return f"what a turn of {agent} {did} is not known (it was cut, or {agent} did not say), beside {known} that are"


_SHOWN = 200
"""Characters of an action in a message."""


def timed_out(state: RunState) -> RunEnded:
    """Return how a run ends at its time limit."""
    seconds = f"{state.plan.timeout:g} s" if state.plan.timeout is not None else "the time limit"
    step = f" during {state.memory.current_step}" if state.memory.current_step else ""
    return RunEnded(stop_reason=StopReason.TIMEOUT, message=f"the time limit of {seconds} was reached{step}")


def out_of_budget(state: RunState) -> RunEnded:
    """Return how a run ends without budget for the next model call."""
    found = shortfall(state)
    said = found.words if found else "the budget is spent"
    hint = f"\n{lifting(state)}" if found and found.unknown else ""
    return RunEnded(stop_reason=StopReason.BUDGET_EXHAUSTED, message=said + hint)


def unreadable(state: RunState) -> RunEnded:
    """Return how a run ends if the judge's answers cannot be parsed."""
    judge, detail = state.models.get("judge") or "its model", state.audit_failures.detail.partition("\n")[0]
    last = f"; the last answer: {detail}" if detail else ""
    return RunEnded(
        stop_reason=StopReason.JUDGE_FAILED,
        message=f"the judge {judge} gave no valid answer in {state.unread} audits in a row{last}\n"
        "name a judge that answers in JSON: --judge PROVIDER/MODEL, or [judge] model",
    )


def interrupted(signal: int | None) -> RunEnded:
    """Return how a run ends by Ctrl-C, SIGTERM, or the caller's cancellation."""
    return RunEnded(
        stop_reason=StopReason.INTERRUPTED, message="interrupted; everything so far is saved", signal=signal
    )


def awaiting_approval(state: RunState) -> RunEnded:
    """Return how a run ends while an approval waits for a person."""
    waits = "; ".join(f"{item.id} {in_short(_with_kind(item))}" for item in state.waiting)
    run = state.goal.run_id
    which = "" if len(state.waiting) == 1 else " ID"
    return RunEnded(
        stop_reason=StopReason.APPROVAL_REQUIRED,
        message=f"this waits for a person: {waits}\n"
        f"goal approve {run}{which}, or goal deny {run}{which} --reason TEXT; then goal resume {run}",
    )


def _with_kind(item: Approval) -> str:
    return item.action if item.action.startswith(f"{item.kind}: ") else f"{item.kind}: {item.action}"


def in_short(action: str) -> str:
    """Return an action on one short line; the log has all of it."""
    line = " ".join(action.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def denied(approval: Approval) -> RunEnded:
    """Return how a run ends after a denied or expired approval."""
    what = "no decision in time on" if approval.decision == "expired" else "denied:"
    reason = f" ({approval.reason})" if approval.reason else ""
    return RunEnded(stop_reason=StopReason.DENIED, message=f"{what} {in_short(approval.action)}{reason}")


_REASONS: tuple[tuple[tuple[type[GoalError], ...], StopReason], ...] = (
    ((AuthenticationFailed, AgentNotSignedIn), StopReason.AUTHENTICATION),
    ((ModelNotFound,), StopReason.MODEL_NOT_FOUND),
    ((EnvironmentFailed,), StopReason.ENVIRONMENT_FAILED),
    ((WorkspaceError,), StopReason.WORKSPACE_FAILED),
    ((ValidatorMissing,), StopReason.VALIDATOR_MISSING),
    ((ModelError, AgentError), StopReason.AGENT_FAILED),
)
"""Errors, and the stop reasons that they stand for; the first match counts."""


def failed(state: RunState, error: GoalError) -> RunEnded:
    """Return how a run ends after an expected error."""
    match error:
        case BudgetExhausted():
            return out_of_budget(state)
        case ApprovalPending():
            return awaiting_approval(state)
        case ApprovalDenied():
            return denied(next(item for item in state.approvals if item.id == error.approval_id))
    reason = next((reason for kinds, reason in _REASONS if isinstance(error, kinds)), StopReason.INTERNAL_ERROR)
    if reason is StopReason.AGENT_FAILED and (state.memory.current_step or "").startswith("audit-"):
        reason = StopReason.JUDGE_FAILED if isinstance(error, ModelError) else reason
    return RunEnded(stop_reason=reason, message=str(error))


def crashed(description: str) -> RunEnded:
    """Return how a run ends after a defect of the runner or an adapter."""
    return RunEnded(stop_reason=StopReason.INTERNAL_ERROR, message=description)
