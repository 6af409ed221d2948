"""How much of each limit is used, and the warning when it is nearly all. Owns the counting from events; stops nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from goalrunner import events
from goalrunner.events import Plan, Record
from goalrunner.model.usage import Usage
from goalrunner.reports import figures
from goalrunner.reports.line import Fact
from goalrunner.state import RunState
from goalrunner.state.spending import total_of

NEARLY = 0.8
"""Part of a limit from which it is warned of, once."""


@dataclass
class Spending:
    """What a run has used, one record after another. `told` are the limits that were warned of already."""

    plan: Plan | None = None
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    elapsed: float = 0.0
    rounds: int = 0
    told: frozenset[str] = frozenset()
    left: Usage | None = None
    """What an earlier process used, as it looked before anybody estimated what it was doing in the end."""

    @classmethod
    def of(cls, state: RunState) -> Spending:
        """What an earlier process has used. What is nearly used up is told anew."""
        left = total_of(state, over=True)
        return cls(state.plan, state.total, state.elapsed, state.iterations, left=left)

    def add(self, record: Record) -> Iterator[Fact]:
        """Take in a record; a line for each limit that comes near with it."""
        event = record.event
        self.elapsed = record.elapsed
        match event:
            case events.GoalCreated():
                self.plan = event.plan
            case events.RunResumed():
                self.plan = event.plan
                self.usage, self.left = sum(event.in_flight.values(), self.usage), None
            case events.UsageRecorded():
                self.usage += event.usage
            case events.Completed() | events.Blocked() | events.Capped() | events.Cancelled() | events.Failed():
                return
            case _:
                pass
        for name, used, limit, words in self._uses():
            if used >= NEARLY * limit and name not in self.told:
                self.told |= {name}
                yield Fact("warning", f"{words} ({figures.share(used, limit)} of the limit)", tone="warn")

    def words(self) -> str:
        """What is used of what there is: "3 of 10 rounds · 2 min 5 s of 30 min · 8,120 tokens · $0.12"."""
        plan = self.plan or Plan()
        rounds = figures.count(self.rounds, "round")
        parts = [f"{self.rounds} of {figures.count(plan.max_iterations, 'round')}" if plan.max_iterations else rounds]
        time = figures.elapsed(self.elapsed)
        parts.append(f"{time} of {figures.span(plan.timeout)}" if plan.timeout else time)
        tokens, cost = figures.spent(self.left or self.usage)
        parts.append(_of(tokens, f"{plan.tokens:,}") if plan.tokens else tokens)
        parts.append(_of(cost, figures.dollars(plan.cost_usd)) if plan.cost_usd else cost)
        return " · ".join(parts)

    def _uses(self) -> Iterator[tuple[str, float, float, str]]:
        """Rounds are no surprise to anybody: each says its number."""
        plan = self.plan
        if plan is None:
            return
        if plan.tokens:
            used = self.usage.tokens
            yield "tokens", used, plan.tokens, f"{used:,} of {plan.tokens:,} tokens are spent"
        if plan.cost_usd:
            cost = self.usage.known_cost_usd
            words = f"{figures.dollars(cost)} of {figures.dollars(plan.cost_usd)} are spent"
            yield "cost_usd", cost, plan.cost_usd, words
        if plan.timeout:
            words = f"{figures.elapsed(self.elapsed)} of {figures.span(plan.timeout)} are used"
            yield "timeout", self.elapsed, plan.timeout, words


def _of(used: str, limit: str) -> str:
    """Of what nobody knows nothing is a part of the limit."""
    return f"{used} (limit {limit})" if used in (figures.UNKNOWN_TOKENS, figures.UNKNOWN_COST) else f"{used} of {limit}"
