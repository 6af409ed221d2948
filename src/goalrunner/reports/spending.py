"""How much of each limit is used, counted from events, and the warning at 80 %."""

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
"""Part of a limit at which one warning is printed."""


@dataclass
class Spending:
    """What a run has used so far. `told` are the limits whose warning was printed."""

    plan: Plan | None = None
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    elapsed: float = 0.0
    rounds: int = 0
    told: frozenset[str] = frozenset()
    left: Usage | None = None
    """What an earlier process used, before its last call is estimated."""
    external: bool = False
    """Whether the agent is a program of its own: it may have used what it did not report."""

    @classmethod
    def of(cls, state: RunState) -> Spending:
        """Return what an earlier process has used; warnings are repeated."""
        left = total_of(state, over=True)
        return cls(state.plan, state.total, state.elapsed, state.iterations, left=left, external=state.external)

    def add(self, record: Record) -> Iterator[Fact]:
        """Count a record; yield a warning for each limit that it brings near."""
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
        """Return what is used of each limit: "3 of 10 rounds · 2 min 5 s of 30 min · 8,120 tokens · $0.12"."""
        plan = self.plan or Plan()
        rounds = figures.count(self.rounds, "round")
        parts = [f"{self.rounds} of {figures.count(plan.max_iterations, 'round')}" if plan.max_iterations else rounds]
        time = figures.elapsed(self.elapsed)
        parts.append(f"{time} of {figures.span(plan.timeout)}" if plan.timeout else time)
        used = self.left or self.usage
        nothing_reported = self.external and self.rounds > 0 and not (used.calls or used.tokens or used.known_cost_usd)
        tokens, cost = figures.spent(Usage.unknown() if nothing_reported else used)
        parts.append(_of(tokens, f"{plan.tokens:,}") if plan.tokens else tokens)
        parts.append(_of(cost, figures.dollars(plan.cost_usd)) if plan.cost_usd else cost)
        return " · ".join(parts)

    def _uses(self) -> Iterator[tuple[str, float, float, str]]:
        """Yield name, use, limit and words of each limit but that of rounds: each round shows its number."""
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
    """Return use and limit; where the use is unknown, it is no part of the limit."""
    return f"{used} (limit {limit})" if used in (figures.UNKNOWN_TOKENS, figures.UNKNOWN_COST) else f"{used} of {limit}"
