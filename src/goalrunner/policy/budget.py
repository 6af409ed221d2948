"""Whether a budget can pay for more: what is spent, and what nobody knows. Owns the words and what to type. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from goalrunner.model.preset import BudgetName
from goalrunner.state.run_state import RunState

_OPTIONS: dict[BudgetName, str] = {"tokens": "--tokens", "cost_usd": "--cost"}


@dataclass(frozen=True)
class Shortfall:
    """A budget that pays for nothing more."""

    budget: BudgetName
    words: str
    unknown: bool = False
    """Whether it is not spent as far as is known: something was used, and nobody knows how much."""


def shortfall(state: RunState) -> Shortfall | None:
    """The budget that is in the way; None where none is. What is unknown never counts as free.

    Budgets that are `unenforced` count what is known.
    """
    total, plan = state.total, state.plan
    if plan.tokens is not None:
        if total.tokens >= plan.tokens:
            return Shortfall("tokens", f"{total.tokens:,} of {plan.tokens:,} tokens are spent")
        if total.uncounted_calls and "tokens" not in plan.unenforced:
            known = f"{total.tokens:,} of {plan.tokens:,} tokens"
            return Shortfall("tokens", f"{_unknown(state, 'used')}, beside {known} that are known", unknown=True)
    if plan.cost_usd is not None:
        known = f"${total.known_cost_usd:.4f} of ${plan.cost_usd:.4f}"
        if total.known_cost_usd >= plan.cost_usd:
            return Shortfall("cost_usd", f"{known} are spent")
        if total.cost_usd is None and "cost_usd" not in plan.unenforced:
            return Shortfall("cost_usd", _unknown_dollars(state, known), unknown=True)
    return None


def budget_spent(state: RunState) -> str:
    """Which budget is spent, or can no longer be kept, in words; empty when none is."""
    found = shortfall(state)
    return found.words if found else ""


def lifting(state: RunState, found: Shortfall) -> str:
    """What to type for a budget that is not known to be spent."""
    option, resume = _OPTIONS[found.budget], f"goal resume {state.goal.run_id}"
    return f"{resume} --allow-unenforced {found.budget} counts what is known alone, {option} inf lifts the budget"


def _unknown_dollars(state: RunState, known: str) -> str:
    usage = state.usage.get("agent")
    if state.external and usage is not None and usage.cost_usd is None:
        return f"{_unknown(state, 'cost')}, beside {known} that are known"
    return "a model call without a known price was made, so the dollar budget can no longer be kept"


def _unknown(state: RunState, did: str) -> str:
    agent = state.models.get("agent") or "the agent"
    return f"what a turn of {agent} {did} is not known, because it was cut or {agent} did not say"
