"""One run: decide, perform, append, until it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar, assert_never

from goalrunner.core import events, limits
from goalrunner.core.agent_ports import Closing, Conversation, Resumable, RoundReply
from goalrunner.core.decision import decide
from goalrunner.core.errors import ApprovalDenied, ApprovalPending, BudgetExhausted, GoalError, RecordError
from goalrunner.core.observation import Observation
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason
from goalrunner.core.run_parts import Parts
from goalrunner.core.run_state import Phase, RunState
from goalrunner.core.steps import AskApproval, Audit, Brief, Confirm, Finish, RunRound, TakeBaseline, Validate
from goalrunner.engine.approvals import People
from goalrunner.engine.checks import Checks
from goalrunner.engine.journal import Deadline, Journal, ending, exclusive
from goalrunner.engine.recorder import RunRecorder
from goalrunner.engine.resumption import Resumption
from goalrunner.engine.snapshot_tracker import Watch
from goalrunner.engine.validation import InterruptedByValidatorError, kept_traceback

T = TypeVar("T")


class Run:
    """A run over the parts that it was handed."""

    def __init__(
        self,
        parts: Parts,
        journal: Journal,
        render: Callable[[Brief], str],
        *,
        fresh_rounds: bool,
        check_models: Callable[[], None] = lambda: None,
        foresee_models: Callable[[], Awaitable[None]] | None = None,
        resumption: Resumption | None = None,
    ) -> None:
        """`render` makes the words of a prompt; `fresh_rounds` restores the conversation before each retry.

        `check_models` is called once, before anything else, and then `foresee_models`, which may wait; a run that is resumed
        after its baseline awaits it before the next round. A GoalError that they raise ends the run. `resumption` is what
        an earlier process left.
        """
        self._parts = parts
        self._journal = journal
        self._render = render
        self._fresh_rounds = fresh_rounds
        self._check_models = check_models
        self._foresee_models = foresee_models
        self._checkpoint: object = None
        if resumption is not None and fresh_rounds:  # its chat is not loaded yet
            self._checkpoint = parts.conversation.checkpoint()
        self._resumption = resumption or Resumption()
        self._reply = RoundReply(text=self._resumption.response)
        self._signal: int | None = None
        self._cancelled: str | None = None
        self.watch = Watch(parts.watch, journal)
        self._deadline = Deadline(journal.paused)
        self._people = People(parts, journal, self.watch, self._deadline)
        self.recorder = RunRecorder(journal, self.watch, self._people, parts.scratch, parts.redact)
        self._checks = Checks(parts, journal, self.watch, self.recorder, self._resumption)

    @property
    def conversation(self) -> Conversation:
        """The agent with its memory."""
        return self._parts.conversation

    @property
    def state(self) -> RunState:
        """The fold of the log."""
        return self._journal.state

    def start(
        self, created: events.GoalCreated, started: events.RunStarted, take_over: Callable[[], None] = lambda: None
    ) -> None:
        """Write the first two events. What `take_over` writes stands between them: a run that is killed meanwhile has not
        begun, and nobody goes on with half of a conversation."""
        self._journal.append(created)
        take_over()
        self._journal.append(started)
        self._journal.save()

    async def resume(self, begun: events.RunResumed) -> None:
        """Take up the run that the journal has replayed: see what changed meanwhile, and write that it goes on.

        `begun` says what the driver cannot know: limits, note, deadline, and what calls that were cut may have cost.
        """
        seen = self.watch.last
        now = await self.watch.take("resumed") if seen is not None else None
        known = {
            "note": self._parts.redact(begun.note),
            "snapshot": now,
            "changed": await self.watch.changed(seen, now),
            "cut": self._resumption.unfinished.cut,
        }
        self._journal.append(begun.model_copy(update=known))
        self._journal.save()

    def interrupt(self, number: int) -> None:
        """Say that the cancellation to come is this signal's."""
        self._signal = number

    def cancel(self, said: str) -> None:
        """Say that the cancellation to come is somebody's who ends the run for good; `said` is who, and why."""
        self._cancelled = said

    async def drive(self) -> GoalOutcome:
        """Work to the end. Raises CancelledError only when nobody called `interrupt`; the log is complete all the same."""
        conversation = self._parts.conversation
        with exclusive(conversation):
            try:
                finish = await self.guarded(self._loop)
            finally:
                if isinstance(conversation, Closing):
                    await conversation.close()
        return self.end(finish)

    async def guarded(self, work: Callable[[], Awaitable[T]]) -> T | Finish:
        """Await `work()` under the deadline; whatever stops it becomes an ending."""
        deadline = self._deadline.begin(self._remaining())
        try:
            async with deadline:
                return await work()
        except TimeoutError:
            if deadline.expired():
                return limits.timed_out(self.state)
            return self._crashed()
        except asyncio.CancelledError:
            finish = self._cut_off()
            if self._signal is not None or self._cancelled is not None:
                return finish
            self.end(finish)
            raise
        except InterruptedByValidatorError:
            return limits.interrupted(signal.SIGINT)
        except BudgetExhausted:
            return limits.out_of_budget(self.state)
        except ApprovalPending:
            return limits.awaiting_approval(self.state)
        except ApprovalDenied as error:
            return limits.denied(next(item for item in self.state.approvals if item.id == error.approval_id))
        except RecordError:
            raise
        except GoalError as error:
            return limits.failed(self.state, error)
        except Exception:
            return self._crashed()

    def end(self, finish: Finish) -> GoalOutcome:
        """Write the ending once; gives the outcome."""
        if self.state.status is GoalStatus.RUNNING:
            last = ending(replace(finish, message=self._parts.redact(finish.message)))
            self._journal.count(self._parts.replaced())
            self._journal.append(last)
            self._journal.save()
        return self.outcome()

    def outcome(self, run_path: str = "") -> GoalOutcome:
        """The outcome as far as the run has come."""
        return self._journal.outcome(run_path)

    def abandon(self, error: BaseException) -> None:
        """End a run that `error` broke off, as well as that can still be written. Never raises for a full disk."""
        if self.state.status is not GoalStatus.RUNNING:
            return
        if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
            finish = self._cut_off()
        elif isinstance(error, GoalError):
            finish = limits.failed(self.state, error)
        else:
            finish = limits.crashed(f"{type(error).__name__}: {error}")
        try:
            self.end(finish)
        except RecordError:
            if self.state.status is GoalStatus.RUNNING:
                self._journal.fold_unwritten(ending(finish))

    def _cut_off(self) -> Finish:
        said = self._cancelled
        return limits.interrupted(self._signal) if said is None else limits.cancelled(said)

    async def advance(self) -> RunRound | Finish:  # noqa: C901  one arm per step
        """Perform steps until the agent is to work, or the run is to end."""
        if self.state.phase is Phase.READY:
            self._check_models()
            await self._foresee()
        if self.watch.last is None:
            await self.watch.take("start")
        await self._checks.keep_start()
        while True:
            step = decide(self.state)
            match step:
                case RunRound():
                    await self._foresee()
                    return step
                case Finish(reason=StopReason.QUESTION_OPEN) if await self._people.answers_all():
                    pass
                case Finish(status=GoalStatus.COMPLETE):
                    if await self._checks.unchanged():
                        return step
                case Finish():
                    return step
                case TakeBaseline():
                    await self._checks.baseline()
                case Validate():
                    await self._checks.validate(step.round, self._reply.text)
                case Audit():
                    await self._checks.audit(step.round)
                case Confirm():
                    await self._checks.confirm(step.claim)
                case AskApproval(kind="checks"):
                    await self._people.checks(step.action, step.rule)
                case AskApproval():
                    await self._people.completion(step.action, step.rule)
                case _:
                    assert_never(step)
            self._journal.count(self._parts.replaced())
            self._journal.save()

    async def _foresee(self) -> None:
        """Once in each process: nothing is spent where agent or judge can never answer."""
        foresee, self._foresee_models = self._foresee_models, None
        if foresee is not None:
            await foresee()

    async def _loop(self) -> Finish:
        while isinstance(step := await self.advance(), RunRound):
            await self._round(step.prompt)
        return step

    async def _round(self, brief: Brief) -> None:
        conversation = self._parts.conversation
        if self._fresh_rounds and self._checkpoint is None:
            self._checkpoint = conversation.checkpoint()
        elif self._fresh_rounds and self.state.phase is not Phase.WORKING:
            conversation.restore(self._checkpoint)
        if self.state.phase is Phase.WORKING:
            reply = await self._proceed(brief)
        else:
            reply = await conversation.send(self.begin_round(brief), self.recorder)
        await self.finish_round(brief.round, reply)

    async def _proceed(self, brief: Brief) -> RoundReply:
        """A round that an earlier process began; its prompt may have been given or not."""
        conversation, prompt = self._parts.conversation, self._render(brief)
        if not self.state.prompted:
            return await conversation.send(prompt, self.recorder)
        if isinstance(conversation, Resumable):
            return await conversation.proceed(prompt, self._resumption.unfinished, self.recorder)
        return await conversation.send(prompt or self._render(Brief("neutral", brief.round)), self.recorder)

    def begin_round(self, brief: Brief) -> str:
        """Intent of a round; gives the user message for it."""
        self.watch.begin_round()
        self._journal.append(events.RoundStarted(round=brief.round, prompt=brief.kind))
        return self._render(brief)

    async def finish_round(self, number: int, reply: RoundReply) -> None:
        """The agent's turn is over: what it left is what is to be proven."""
        self._reply = reply
        response = self._response(number, reply.text) if self.state.plan.deliverable == "response" else None
        self._journal.append(
            events.RoundFinished(
                round=number,
                reason=reply.reason,
                steps=reply.steps,
                response=response,
                snapshot=await self.watch.end_round(number),
                idle=self.watch.idle,
                left=tuple(map(self._parts.redact, reply.left)),
            )
        )
        self._journal.count(self._parts.replaced())

    def _response(self, number: int, text: str) -> Observation:
        ref = self._journal.artifacts.put(text.encode("utf-8", errors="replace"))
        identifier = self._journal.next_observation()
        return Observation(id=identifier, source="response", facts=(f"round {number}",), round=number, output=ref)

    def _remaining(self) -> float | None:
        timeout = self.state.plan.timeout
        return None if timeout is None else max(0.0, timeout - self.state.elapsed)

    def _crashed(self) -> Finish:
        return limits.crashed(kept_traceback(self._parts.scratch, self._parts.redact))
