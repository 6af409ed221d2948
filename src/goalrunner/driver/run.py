"""One run: decide, perform, append, until it ends. Holds no rule of its own; deadlines and failures become endings."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, assert_never

from goalrunner import events, policy
from goalrunner.driver.journal import Journal
from goalrunner.driver.recorder import RunRecorder
from goalrunner.driver.validation import observe, run_validators
from goalrunner.errors import BudgetExhausted, ConversationBusy, GoalError, RecordError
from goalrunner.model.observation import Observation
from goalrunner.model.outcome import GoalOutcome, GoalStatus
from goalrunner.policy import Brief, Finish
from goalrunner.ports import AuditRequest, Conversation, Parts, RoundReply, ValidationContext
from goalrunner.state import RunState
from goalrunner.state.outcome import outcome_of

T = TypeVar("T")

_driven: set[int] = set()


@contextmanager
def exclusive(conversation: Conversation) -> Iterator[None]:
    """Drive a conversation alone. Raises ConversationBusy where another driver is at work on it."""
    key = id(conversation)
    if key in _driven:
        raise ConversationBusy(
            "this conversation is already being driven",
            "wait for the other run to end, or give this run its own conversation",
        )
    _driven.add(key)
    try:
        yield
    finally:
        _driven.discard(key)


class Run:
    """A run over the parts that it was handed."""

    def __init__(self, parts: Parts, journal: Journal, render: Callable[[Brief], str], *, fresh_rounds: bool) -> None:
        """`render` makes the words of a prompt; `fresh_rounds` restores the conversation before each retry."""
        self._parts = parts
        self._journal = journal
        self._render = render
        self._fresh_rounds = fresh_rounds
        self._checkpoint: object = None
        self._reply = RoundReply(text="")
        self._signal: int | None = None
        self.recorder = RunRecorder(journal, parts.scratch, parts.redact)

    @property
    def state(self) -> RunState:
        """The fold of the log."""
        return self._journal.state

    def start(self, created: events.GoalCreated, started: events.RunStarted) -> None:
        """Write the first two events."""
        self._journal.append(created)
        self._journal.append(started)
        self._journal.save()

    def interrupt(self, signal: int) -> None:
        """Say that the cancellation to come is this signal's."""
        self._signal = signal

    async def drive(self) -> GoalOutcome:
        """Work to the end. Raises CancelledError only when nobody called `interrupt`; the log is complete all the same."""
        with exclusive(self._parts.conversation):
            finish = await self.guarded(self._loop)
        return self.end(finish)

    async def guarded(self, work: Callable[[], Awaitable[T]]) -> T | Finish:
        """Await `work()` under the deadline; whatever stops it becomes an ending."""
        deadline = asyncio.timeout(self._remaining())
        try:
            async with deadline:
                return await work()
        except TimeoutError:
            if deadline.expired():
                return policy.timed_out(self.state)
            return self._crashed()
        except asyncio.CancelledError:
            finish = policy.interrupted(self._signal)
            if self._signal is not None:
                return finish
            self.end(finish)
            raise
        except BudgetExhausted:
            return policy.out_of_budget(self.state)
        except RecordError:
            raise
        except GoalError as error:
            return policy.failed(self.state, error)
        except Exception:
            return self._crashed()

    def end(self, finish: Finish) -> GoalOutcome:
        """Write the ending once; gives the outcome."""
        if self.state.status is GoalStatus.RUNNING:
            self._journal.append(_ending(finish))
            self._journal.save()
        return outcome_of(self.state)

    async def advance(self) -> policy.RunRound | Finish:
        """Perform steps until the agent is to work, or the run is to end."""
        while True:
            step = policy.decide(self.state)
            match step:
                case policy.RunRound() | policy.Finish():
                    return step
                case policy.Validate():
                    await self._validate(step.round)
                case policy.Audit():
                    await self._audit(step.round)
                case _:
                    assert_never(step)
            self._journal.save()

    async def _loop(self) -> Finish:
        while isinstance(step := await self.advance(), policy.RunRound):
            await self._round(step.prompt)
        return step

    async def _round(self, brief: Brief) -> None:
        conversation = self._parts.conversation
        if self._fresh_rounds and brief.round == 1:
            self._checkpoint = conversation.checkpoint()
        elif self._fresh_rounds:
            conversation.restore(self._checkpoint)
        prompt = self.begin_round(brief)
        self.finish_round(brief.round, await conversation.send(prompt, self.recorder))

    def begin_round(self, brief: Brief) -> str:
        """Intent of a round; gives the user message for it."""
        self._journal.append(events.RoundStarted(round=brief.round, prompt=brief.kind))
        return self._render(brief)

    def finish_round(self, number: int, reply: RoundReply) -> None:
        """The agent's turn is over."""
        self._reply = reply
        response = self._response(number, reply.text) if self.state.plan.deliverable == "response" else None
        finished = events.RoundFinished(round=number, reason=reply.reason, steps=reply.steps, response=response)
        self._journal.append(finished)

    def _response(self, number: int, text: str) -> Observation:
        ref = self._journal.artifacts.put(text.encode("utf-8", errors="replace"))
        identifier = self._journal.next_observation()
        return Observation(id=identifier, source="response", facts=(f"round {number}",), round=number, output=ref)

    async def _validate(self, number: int) -> None:
        parts = self._parts
        plural = "validator" if len(parts.validators) == 1 else "validators"
        step = events.StepStarted(step_id=f"validate-{number}", description=f"run {len(parts.validators)} {plural}")
        self._journal.append(step)
        context = ValidationContext(
            run_id=self.state.goal.run_id,
            iteration=self.state.iterations + 1,
            objective=self.state.goal.description,
            workspace=parts.workspace,
            response=self._reply.text,
            conversation=parts.conversation,
            scratch=parts.scratch,
        )
        answers = await run_validators(parts.validators, context)
        results, observations = observe(answers, self._journal, parts.redact)
        self._journal.append(
            events.ValidatorsFinished(round=number, results=tuple(results), observations=tuple(observations))
        )

    async def _audit(self, number: int) -> None:
        if self._parts.judge is None:
            raise RuntimeError("an audit was decided for a run without a judge")
        self._journal.append(events.AuditStarted(round=number))
        state = self.state
        request = AuditRequest(
            objective=state.goal.description,
            success_criteria=state.criteria,
            constraints=state.goal.constraints,
            deliverable=state.plan.deliverable,
            round=number,
            trail=self._journal.trail(),
            minimum_score=state.plan.minimum_score,
        )
        audit = await self._parts.judge.audit(request, self.recorder)
        self._journal.append(
            events.VerdictRecorded(
                round=number,
                verdict=audit.verdict,
                citations_checked=audit.citations_checked,
                refusals=audit.refusals,
            )
        )

    def _remaining(self) -> float | None:
        timeout = self.state.plan.timeout
        return None if timeout is None else max(0.0, timeout - self.state.elapsed)

    def _crashed(self) -> Finish:
        """Keep the traceback in the run's folder; people get one line and the path."""
        path: Path = self._parts.scratch(".traceback.txt")
        text = self._parts.redact(traceback.format_exc())
        path.write_text(text, encoding="utf-8", errors="replace")
        return policy.crashed(f"{text.strip().splitlines()[-1]}\nthe traceback is in {path}")


def _ending(finish: Finish) -> events.Event:
    match finish.status:
        case GoalStatus.COMPLETE:
            return events.Completed(result_ref=finish.message)
        case GoalStatus.CAPPED:
            return events.Capped(stop_reason=finish.reason, reason=finish.message)
        case GoalStatus.BLOCKED:
            return events.Blocked(stop_reason=finish.reason, reason=finish.message)
        case GoalStatus.CANCELLED:
            return events.Cancelled(reason=finish.message, stop_reason=finish.reason, signal=finish.signal)
        case GoalStatus.FAILED | GoalStatus.RUNNING:
            return events.Failed(stop_reason=finish.reason, reason=finish.message)
        case _:
            assert_never(finish.status)
