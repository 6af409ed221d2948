"""How what cuts a step in mid-flight ends a run: deadline, budget, signal, a model that cannot answer. Pure."""

from __future__ import annotations

from goalrunner.errors import (
    AgentError,
    AgentNotSignedIn,
    AuthenticationFailed,
    EnvironmentFailed,
    GoalError,
    ModelError,
    ModelNotFound,
    ValidatorMissing,
)
from goalrunner.model.outcome import GoalStatus, StopReason
from goalrunner.policy.budget import lifting, shortfall
from goalrunner.policy.steps import Finish
from goalrunner.state.run_state import Approval, RunState

_SHOWN = 200
"""Characters of an action in a message."""


def timed_out(state: RunState) -> Finish:
    """The deadline cut whatever was under way."""
    seconds = f"{state.plan.timeout:g} s" if state.plan.timeout is not None else "the time limit"
    step = f" during {state.memory.current_step}" if state.memory.current_step else ""
    return Finish(GoalStatus.CAPPED, StopReason.TIMEOUT, f"the time limit of {seconds} was reached{step}")


def out_of_budget(state: RunState) -> Finish:
    """The next model call cannot be paid for."""
    found = shortfall(state)
    said = found.words if found else "the budget is spent"
    hint = f"\n{lifting(state)}" if found and found.unknown else ""
    return Finish(GoalStatus.CAPPED, StopReason.BUDGET_EXHAUSTED, said + hint)


def unreadable(state: RunState) -> Finish:
    """The judge answers, and nobody can read what."""
    judge, detail = state.models.get("judge") or "its model", state.audit_failures.detail.partition("\n")[0]
    last = f"; the last answer: {detail}" if detail else ""
    return Finish(
        GoalStatus.FAILED,
        StopReason.JUDGE_FAILED,
        f"the judge {judge} gave no answer that can be read in {state.unread} audits in a row{last}\n"
        "name a judge that answers in JSON: --judge PROVIDER/MODEL, or [judge] model",
    )


def interrupted(signal: int | None) -> Finish:
    """Ctrl-C, SIGTERM, or the caller's own cancellation."""
    return Finish(GoalStatus.CANCELLED, StopReason.INTERRUPTED, "interrupted; everything so far is saved", signal)


def cancelled(said: str) -> Finish:
    """Somebody ended it with `goal cancel`: final."""
    return Finish(GoalStatus.CANCELLED, StopReason.CANCELLED, said)


def awaiting_approval(state: RunState) -> Finish:
    """Nobody is there to decide; nothing of what waits has been done."""
    waits = "; ".join(f"{item.id} {in_short(named(item.kind, item.action))}" for item in state.waiting)
    run = state.goal.run_id
    which = "" if len(state.waiting) == 1 else " ID"
    return Finish(
        GoalStatus.BLOCKED,
        StopReason.APPROVAL_REQUIRED,
        f"this waits for a person: {waits}\n"
        f"goal approve {run}{which}, or goal deny {run}{which} --reason TEXT; then goal resume {run}",
    )


def named(kind: str, action: str) -> str:
    """An action with its kind before it, once."""
    return action if action.startswith(f"{kind}: ") else f"{kind}: {action}"


def in_short(action: str) -> str:
    """An action on one line that people can read; the whole of it is in the log."""
    line = " ".join(action.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def denied(approval: Approval) -> Finish:
    """A person said no, or nobody decided in time: it is never done."""
    what = "nobody decided in time on" if approval.decision == "expired" else "denied:"
    reason = f" ({approval.reason})" if approval.reason else ""
    return Finish(GoalStatus.BLOCKED, StopReason.DENIED, f"{what} {in_short(approval.action)}{reason}")


def failed(state: RunState, error: GoalError) -> Finish:
    """An expected failure of the agent or the judge, which trying again does not cure."""
    judging = (state.memory.current_step or "").startswith("audit-")
    match error:
        case AuthenticationFailed() | AgentNotSignedIn():
            reason = StopReason.AUTHENTICATION
        case ModelNotFound():
            reason = StopReason.MODEL_NOT_FOUND
        case EnvironmentFailed():
            reason = StopReason.ENVIRONMENT_FAILED
        case ValidatorMissing():
            reason = StopReason.VALIDATOR_MISSING
        case ModelError() if judging:
            reason = StopReason.JUDGE_FAILED
        case ModelError() | AgentError():
            reason = StopReason.AGENT_FAILED
        case _:
            reason = StopReason.INTERNAL_ERROR
    return Finish(GoalStatus.FAILED, reason, str(error))


def crashed(description: str) -> Finish:
    """A defect of the runner or of an adapter."""
    return Finish(GoalStatus.FAILED, StopReason.INTERNAL_ERROR, description)
