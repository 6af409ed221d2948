"""The lines of each event of a run. The last lines are in `closing`: they need the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from goalrunner import events
from goalrunner.model.observation import TranscriptRef
from goalrunner.model.validation import ValidatorResult
from goalrunner.reports import steps
from goalrunner.reports.header import goal_lines, start_lines
from goalrunner.reports.line import Fact, Line, Step
from goalrunner.reports.people import people_lines
from goalrunner.reports.proof import proof_lines, protection_lines
from goalrunner.reports.spending import Spending
from goalrunner.state import RunState

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
