"""A run as lines of text, event by event, with the share of its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

from goalrunner.core import events
from goalrunner.core.events import Plan, Record
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import Usage
from goalrunner.core.progress import total_of
from goalrunner.core.run_state import RunState
from goalrunner.core.verdict import ValidatorResult
from goalrunner.reports import figures, steps
from goalrunner.reports.header import goal_lines, start_lines
from goalrunner.reports.line import Fact, Line, Step
from goalrunner.reports.steps import people_lines, proof_lines, protection_lines

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


Turn = events.RoundStarted | events.MessageRecorded | events.RoundFinished
"""The agent's turn, but for its tools."""

_LONGEST_NAME = 16
_AGENT = Step("agent", subject="working")
_JUDGE = Step("judge", subject="reviewing evidence")


class Narrative:
    """Makes lines of the records of one run, in their order. `running` is the current step, for a live terminal.

    `label` is the label of the next line; `red` are the validators that failed in the last check; `told` is what was
    missing in the last verdict; `goal_file` is the path of the goal file.
    """

    def __init__(
        self, place: Callable[[str], str] | None = None, words: Callable[[TranscriptRef], str] | None = None
    ) -> None:
        """`place` returns more about a workspace, given its path: "git, clean".

        `words` reads a message; with it, the last message of each round is shown. A live terminal streams it instead.
        """
        self.running: Step | None = None
        self.red: tuple[ValidatorResult, ...] = ()
        self.told = ""
        self.goal_file = ""
        self.name_columns = 7
        self._place = place
        self._words = words
        self._said: TranscriptRef | None = None
        self._run_id = ""
        self._plan: events.Plan | None = None
        self._risk: events.RiskClass = "low"
        self.label = ""
        self._spending = Spending()

    def tell(self, record: events.Record) -> list[Line]:
        """Return the lines of a record; most have none."""
        return [*self._tell(record.event), *self._spending.add(record)]

    def take_up(self, state: RunState) -> list[Line]:
        """Return the first lines of a resumed run: goal, workspace, agent, and what is used of the limits."""
        created = events.GoalCreated(goal=state.goal, plan=state.plan)
        self._meet(created)
        self._spending = Spending.of(state)
        self.red = tuple(result for result in state.validators if not result.passed)
        started = events.RunStarted(
            workspace=state.workspace, models=state.models, agent_command=state.agent_command, version=""
        )
        said = [*goal_lines(created), *start_lines(started, self._run_id, None, self._place_of(state.workspace))]
        return [*said, Fact("so far", self._spending.words())]

    def _tell(self, event: events.Event) -> Iterator[Line]:  # noqa: C901  one arm per kind of event
        match event:
            case events.GoalCreated():
                self._meet(event)
                yield from goal_lines(event)
            case events.RunStarted():
                place = self._place_of(event.workspace)
                self.goal_file = event.goal_file
                yield from start_lines(event, self._run_id, self._plan, place, self._risk)
            case events.RoundStarted() | events.MessageRecorded() | events.RoundFinished():
                yield from self._tell_turn(event)
            case events.ToolCalled() | events.ToolResultRecorded():
                yield from self._tell_tool(event)
            case events.StepStarted() | events.ValidatorsFinished():
                yield from self._tell_validators(event)
            case events.AuditStarted() | events.AuditFailed() | events.VerdictRecorded():
                yield from self._tell_audit(event)
            case events.BaselineTaken() | events.ConfirmationRecorded():
                self.running = None
                label, lines = proof_lines(event)
                self.label = label or self.label
                yield from map(self._step, lines)
            case events.WorkspaceChanged():
                shown = f"the workspace changed after the check ({', '.join(event.paths[:5])}); validators run again"
                yield self._step(Step("checks", "!", remark=shown, tone="warn"))
            case events.BlockReported():
                yield self._step(Step("agent", "!", remark=f"reports that it is blocked: {event.reason}", tone="warn"))
            case events.UsageRecorded() | events.AgentRan():
                yield from map(self._step, steps.notices(event))
            case events.Blocked() | events.Completed() | events.Capped() | events.Cancelled() | events.Failed():
                self.running = None
            case (
                events.RunResumed()
                | events.ApprovalRequested()
                | events.ApprovalRecorded()
                | events.QuestionOpened()
                | events.QuestionAnswered()
                | events.MemoryPromoted()
            ):
                for line in people_lines(event):
                    yield self._step(line) if isinstance(line, Step) else line
            case (
                events.SnapshotTaken()
                | events.StartKept()
                | events.PlanProposed()
                | events.SecretsReplaced()
                | events.SessionOpened()
                | events.Unrecognised()
            ):
                pass
            case _:
                assert_never(event)

    def _tell_tool(self, event: events.ToolCalled | events.ToolResultRecorded) -> Iterator[Line]:
        if isinstance(event, events.ToolCalled):
            self.running = Step(steps.short(event.tool), subject=event.summary)
            return
        self.running = _AGENT
        yield self._step(steps.tool(event))

    def _tell_turn(self, event: Turn) -> Iterator[Line]:
        match event:
            case events.RoundStarted():
                self.label = f"round {event.round}"
                self._said = None
                self.running = _AGENT
            case events.MessageRecorded():
                if event.role == "assistant" and event.has_text:
                    self._said = event.text
            case events.RoundFinished():
                self.running = None
                yield from map(self._step, steps.words(self._last_words()))
                yield from map(self._step, steps.notices(event))
            case _:
                assert_never(event)

    def _last_words(self) -> str:
        return self._words(self._said) if self._words and self._said else ""

    def _tell_validators(self, event: events.StepStarted | events.ValidatorsFinished) -> Iterator[Line]:
        if isinstance(event, events.StepStarted):
            self.running = Step("checks", subject=event.description)
            return
        self.running = None
        self.red = tuple(result for result in event.results if not result.passed)
        for result in event.results:
            yield self._step(steps.validator(result))
        yield from map(self._step, protection_lines(event))

    def _tell_audit(self, event: events.AuditStarted | events.AuditFailed | events.VerdictRecorded) -> Iterator[Line]:
        match event:
            case events.AuditStarted():
                self.running = _JUDGE
            case events.AuditFailed():
                yield self._step(steps.audit_failure(event))
            case events.VerdictRecorded():
                self.running = None
                self.told = event.verdict.missing
                if event.verdict.source != "validators":
                    yield self._step(steps.verdict(event))
            case _:
                assert_never(event)

    def _meet(self, created: events.GoalCreated) -> None:
        self._run_id = created.goal.run_id
        self._plan = created.plan
        self._risk = created.goal.risk_class
        longest = max((len(name) for name in created.plan.validators), default=0)
        self.name_columns = min(max(self.name_columns, longest), _LONGEST_NAME)

    def _place_of(self, workspace: str) -> str:
        return self._place(workspace) if self._place is not None else ""

    def _step(self, step: Step) -> Step:
        """Return the step with the label of its round, if it is the first line of the round."""
        label, self.label = self.label, ""
        return Step(step.name, step.mark, step.subject, step.time, step.remark, step.tone, label)
