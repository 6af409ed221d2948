"""May a run go on, and with which limits? Owns the refusals and their words; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from goalrunner import policy
from goalrunner.errors import UsageError
from goalrunner.events import Plan
from goalrunner.model.outcome import GoalStatus, StopReason
from goalrunner.state import RunState
from goalrunner.state.resumption import FINAL

_OPTIONS = {
    "max_iterations": "--max-iterations",
    "timeout": "--timeout",
    "tokens": "--tokens",
    "cost_usd": "--cost",
}


def raised(plan: Plan, limits: Mapping[str, float | None]) -> Plan:
    """The plan with other limits; None lifts one."""
    return plan.model_copy(update=dict(limits))


def refuse_final(state: RunState) -> None:
    """Raises UsageError for a run that is over for good."""
    run = state.goal.run_id
    if state.status is GoalStatus.COMPLETE:
        raise UsageError(f"run {run} is complete; there is nothing to go on with", "goal show " + run)
    if state.stop_reason in FINAL:
        raise UsageError(f"run {run} was cancelled, which is final", "start a new run: goal run GOAL_FILE")


def refuse_low_limits(state: RunState, plan: Plan) -> None:
    """Raises UsageError where a limit would stop the run at once, naming the option that raises it."""
    rounds = plan.max_iterations
    if state.stop_reason is StopReason.MAX_ITERATIONS and rounds is not None and rounds <= state.iterations:
        raise _spent(state, "max_iterations", f"{state.iterations} of {rounds} rounds are used", state.iterations + 10)
    if plan.timeout is not None and plan.timeout <= state.elapsed:
        raise _spent(state, "timeout", f"{state.elapsed:.0f} s of {plan.timeout:g} s are used", 2 * plan.timeout)
    spent = policy.budget_spent(state.model_copy(update={"plan": plan}))
    if spent:
        name = "tokens" if plan.tokens is not None and state.total.tokens >= plan.tokens else "cost_usd"
        used, limit = (state.total.tokens, plan.tokens) if name == "tokens" else (state.total.cost_usd, plan.cost_usd)
        # Dollars that are unknown are within no limit.
        enough = math.inf if used is None else 2 * max(used, limit or 0)
        raise _spent(state, name, spent, enough)


def _spent(state: RunState, name: str, why: str, enough: float) -> UsageError:
    hint = f"raise it: goal resume {state.goal.run_id} {_OPTIONS[name]} {_typed(enough)}"
    return UsageError(f"run {state.goal.run_id} is capped: {why}", hint)


def _typed(number: float) -> str:
    """As a person types it: 2000000, 0.25, inf."""
    return str(int(number)) if number == number // 1 and number < math.inf else f"{number:.4g}"
