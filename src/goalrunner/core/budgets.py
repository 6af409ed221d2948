"""The budgets of a run: which are spent, and which can no longer be checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.errors import LIMIT_OPTIONS, ways_on
from goalrunner.core.run_state import RunState


@dataclass(frozen=True)
class Shortfall:
    """A budget that is spent, or whose use is unknown."""

    budget: BudgetName
    words: str
    unknown: bool = False
    """Whether the budget cannot be checked: the usage of a call is unknown."""


@dataclass(frozen=True)
class _Budget:
    """One budget of a run and its use."""

    name: BudgetName
    limit: float | None
    used: float
    """The part of the use that is known."""
    is_unknown: bool
    words: str
    """The known use and the limit, for people."""


def shortfall(state: RunState) -> Shortfall | None:
    """Return the budget that stops the run, or None.

    Unknown usage stops it too, except for `unenforced` budgets.
    """
    # A spent budget says more than one whose use is unknown.
    return min(shortfalls(state), key=lambda item: item.unknown, default=None)


def shortfalls(state: RunState) -> Iterator[Shortfall]:
    """Yield the budgets that are spent, and those whose use is unknown."""
    agent = state.models.get("agent") or "the agent"
    for budget in _budgets(state):
        if budget.limit is None:
            continue
        if budget.used >= budget.limit:
            yield Shortfall(budget.name, f"{budget.words} are spent")
        # Fails closed: what cannot be counted may have spent the budget.
        if budget.is_unknown and budget.name not in state.plan.unenforced:
            words = (
                f"the usage of a call of {agent} or the judge is unknown (a turn was "
                f"cut, {agent} did not report it, or a model has no known price); "
                f"known usage: {budget.words}"
            )
            yield Shortfall(budget.name, words, unknown=True)


def _budgets(state: RunState) -> tuple[_Budget, _Budget]:
    total, plan = state.total, state.plan
    tokens = _Budget(
        "tokens",
        plan.tokens,
        total.tokens,
        total.uncounted_calls > 0,
        f"{total.tokens:,} of {plan.tokens or 0:,} tokens",
    )
    dollars = _Budget(
        "cost_usd",
        plan.cost_usd,
        total.known_cost_usd,
        total.cost_usd is None,
        f"${total.known_cost_usd:.4f} of ${plan.cost_usd or 0:.4f}",
    )
    return tokens, dollars


def options_to_lift(state: RunState) -> str:
    """Return the options of `goal resume` for budgets that cannot be checked.

    For a run that nothing is kept of, return the arguments of its next call.
    """
    unknown = [item.budget for item in shortfalls(state) if item.unknown]
    if not state.is_kept:
        return (
            f"Goal(budget=Budget(allow_unenforced={unknown!r})) counts only what is "
            f"known; {unknown[0]}=inf lifts the limit"
        )
    # Only the budgets that cannot be checked are in the way here.
    nothing_used = dict.fromkeys(LIMIT_OPTIONS, 0)
    allow, lift = ways_on(state.plan.limits, nothing_used, "", unknown)
    return (
        f"goal resume {state.goal.run_id} {allow} continues and counts only what is "
        f"known; {lift} lifts the limit (in a goal file: [budget] allow_unenforced)"
    )
