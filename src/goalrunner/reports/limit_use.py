"""How much of its limits a run has used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from goalrunner.core.run_state import RunState
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact

# Early enough to prepare a resume with a higher limit.
NEARLY = 0.8
"""Part of a limit at which one warning is printed."""


@dataclass(frozen=True)
class NearLimit:
    """A limit that is nearly used up."""

    name: str
    """As in the goal file: "timeout"."""
    value: float
    warning: Fact


def spent_parts(state: RunState, seconds: float) -> list[str]:
    """Return time, tokens and dollars, each with its limit.

    `seconds` are of active time.
    """
    plan = state.plan
    tokens, cost = figures.spent(state.spent(over=True))
    time = figures.elapsed(seconds)
    if plan.timeout:
        time += f" of {figures.span(plan.timeout)}"
    # "tokens unknown of 50,000" would say nothing.
    if plan.tokens and tokens != figures.UNKNOWN_TOKENS:
        tokens += f" of {plan.tokens:,}"
    if plan.cost_usd and cost != figures.UNKNOWN_COST:
        cost += f" of {figures.dollars(plan.cost_usd)}"
    return [time, tokens, cost]


def used_text(state: RunState, seconds: float) -> str:
    """Return what is used of each limit: "round 2 of 10 · 2 min 5 s of 30 min"."""
    rounds = f"round {state.round}" if state.round else "before round 1"
    if state.plan.max_iterations:
        rounds += f" of {state.plan.max_iterations}"
    return " · ".join([rounds, *spent_parts(state, seconds)])


def near_limits(state: RunState) -> Iterator[NearLimit]:
    """Yield the limits that are nearly used up.

    Rounds are left out: the label of each round shows its number.
    """
    plan = state.plan
    time, tokens, cost = spent_parts(state, state.elapsed)
    for name, limit, used, text in (
        ("timeout", plan.timeout, state.elapsed, time),
        ("tokens", plan.tokens, state.total.tokens, tokens),
        ("cost_usd", plan.cost_usd, state.total.known_cost_usd, cost),
    ):
        if limit and used >= NEARLY * limit:
            share = figures.share(used, limit)
            message = f"{text} are spent ({share} of the limit)"
            yield NearLimit(name, limit, Fact("warning", message, tone="warn"))
