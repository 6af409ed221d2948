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
    found = _spent(state)
    if found is not None:
        return found
    unknown = _unknown(state)
    return unknown[0] if unknown else None


def budget_spent(state: RunState) -> str:
    """Which budget is spent, or can no longer be kept, in words; empty when none is."""
    found = shortfall(state)
    return found.words if found else ""


def lifting(state: RunState) -> str:
    """What to type where budgets can no longer be kept, because something is not known."""
    names = [found.budget for found in _unknown(state)]
    allow = " ".join(f"--allow-unenforced {name}" for name in names)
    lift = " ".join(f"{_OPTIONS[name]} inf" for name in names)
    return (
        f"goal resume {state.goal.run_id} {allow} goes on and counts what is known alone; {lift} lifts the limit"
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
        words = "a model call without a known price was made, so the dollar budget can no longer be kept"
        found.append(Shortfall("cost_usd", _untold(state, "cost", known) if untold else words, unknown=True))
    return found


def _untold(state: RunState, did: str, known: str) -> str:
    agent = state.models.get("agent") or "the agent"
    return f"what a turn of {agent} {did} is not known (it was cut, or {agent} did not say), beside {known} that are"
