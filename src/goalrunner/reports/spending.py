"""What a run has used of its limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from goalrunner.core import events
from goalrunner.core.events import Plan, Record
from goalrunner.core.outcome import Usage
from goalrunner.core.progress import total_of
from goalrunner.core.run_state import RunState
from goalrunner.reports import figures
from goalrunner.reports.line import Fact

NEARLY = 0.8
"""Part of a limit at which one warning is printed."""


@dataclass
class Spending:
    """What a run has used so far."""

    plan: Plan = field(default_factory=Plan)
    usage: Usage = field(default_factory=Usage)
    elapsed: float = 0.0
    _warned: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, state: RunState) -> Spending:
        """Return what an earlier process has used; warnings are repeated."""
        return cls(state.plan, state.total, state.elapsed)

    def add(self, record: Record) -> Iterator[Fact]:
        """Count a record; yield a warning for each limit that it brings near, except rounds, which are numbered."""
        event, plan = record.event, self.plan
        self.elapsed = record.elapsed
        match event:
            case events.GoalCreated():
                self.plan = plan = event.plan
            case events.RunResumed():
                self.plan = plan = event.plan
                self.usage = sum(event.in_flight.values(), self.usage)
            case events.UsageRecorded():
                self.usage += event.usage
            case events.RunEnded():
                return
            case _:
                pass
        tokens, cost = self.usage.tokens, self.usage.known_cost_usd
        for used, limit, words in (
            (tokens, plan.tokens, f"{tokens:,} of {plan.tokens or 0:,} tokens are spent"),
            (cost, plan.cost_usd, f"{figures.dollars(cost)} of {figures.dollars(plan.cost_usd)} are spent"),
            (
                self.elapsed,
                plan.timeout,
                f"{figures.elapsed(self.elapsed)} of {figures.span(plan.timeout or 0)} are used",
            ),
        ):
            name = words.rpartition(" of ")[2]
            if limit and used >= NEARLY * limit and name not in self._warned:
                self._warned.add(name)
                yield Fact("warning", f"{words} ({figures.share(used, limit)} of the limit)", tone="warn")


def spending_text(state: RunState) -> str:
    """Return what is used of each limit: "3 of 10 rounds · 2 min 5 s of 30 min · 8,120 tokens · $0.12"."""
    plan, used = state.plan, total_of(state, over=True)
    rounds = figures.count(state.iterations, "round")
    if plan.max_iterations:
        rounds = f"{state.iterations} of {figures.count(plan.max_iterations, 'round')}"
    time = figures.elapsed(state.elapsed)
    # An external agent may have used what it did not report.
    silent = state.external and state.iterations > 0 and not (used.calls or used.tokens or used.known_cost_usd)
    tokens, cost = figures.spent(Usage.unknown() if silent else used)
    return " · ".join(
        (
            rounds,
            f"{time} of {figures.span(plan.timeout)}" if plan.timeout else time,
            _of(tokens, f"{plan.tokens:,}") if plan.tokens else tokens,
            _of(cost, figures.dollars(plan.cost_usd)) if plan.cost_usd else cost,
        )
    )


def _of(used: str, limit: str) -> str:
    return f"{used} (limit {limit})" if used in (figures.UNKNOWN_TOKENS, figures.UNKNOWN_COST) else f"{used} of {limit}"
