"""May a run go on, and with which limits? Owns the refusals and their words; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from goalrunner import policy
from goalrunner.errors import UsageError
from goalrunner.events import Account, Plan
from goalrunner.model.outcome import GoalStatus, StopReason
from goalrunner.model.usage import Usage
from goalrunner.state import RunState
from goalrunner.state.resumption import FINAL
from goalrunner.state.spending import with_cut

Limit = float | tuple[str, ...] | None
"""The value of a limit; None: no limit."""

_OPTIONS = {
    "max_iterations": "--max-iterations",
    "timeout": "--timeout",
    "tokens": "--tokens",
    "cost_usd": "--cost",
}


def raised(plan: Plan, limits: Mapping[str, Limit]) -> Plan:
    """The plan with other limits; None lifts one. `allow_unenforced` names budgets that count what is known alone."""
    values = dict(limits)
    allowed = values.pop("allow_unenforced", None)
    if isinstance(allowed, tuple):
        values["unenforced"] = tuple(dict.fromkeys((*plan.unenforced, *allowed)))
    return plan.model_copy(update=values)


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
    state = state.model_copy(update={"plan": plan})
    found = policy.shortfall(state)
    if found is None:
        return
    if found.unknown and state.external:
        raise _unknown(state, found)
    total = state.total
    used, limit = (total.tokens, plan.tokens) if found.budget == "tokens" else (total.cost_usd, plan.cost_usd)
    # Dollars that are unknown are within no limit.
    enough = math.inf if found.unknown or used is None else 2 * max(used, limit or 0)
    raise _spent(state, found.budget, found.words, enough)


def refuse_unknown_spend(state: RunState, plan: Plan, in_flight: Mapping[Account, Usage]) -> None:
    """Raises UsageError where the agent's turn that was cut leaves a budget that can no longer be kept."""
    state = with_cut(state.model_copy(update={"plan": plan}), in_flight)
    found = policy.shortfall(state)
    if found is not None and found.unknown and state.external:
        raise _unknown(state, found)


def _unknown(state: RunState, found: policy.Shortfall) -> UsageError:
    return UsageError(f"run {state.goal.run_id} is capped: {found.words}", policy.lifting(state))


def _spent(state: RunState, name: str, why: str, enough: float) -> UsageError:
    hint = f"raise it: goal resume {state.goal.run_id} {_OPTIONS[name]} {_typed(enough)}"
    return UsageError(f"run {state.goal.run_id} is capped: {why}", hint)


def _typed(number: float) -> str:
    """As a person types it: 2000000, 0.25, inf."""
    return str(int(number)) if number == number // 1 and number < math.inf else f"{number:.4g}"
