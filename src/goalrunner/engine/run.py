"""One run: decide, perform, append, until it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TypeVar, assert_never

from goalrunner.core import decision, endings, events
from goalrunner.core.agent_ports import (
    Closing,
    Conversation,
    Message,
    Resumable,
    RoundReply,
    Switching,
    Unfinished,
)
from goalrunner.core.errors import (
    AgentError,
    BudgetExhausted,
    DeadlineReached,
    GoalError,
    ModelError,
    RecordError,
    TurnCut,
    one_line,
    shortened,
)
from goalrunner.core.observation import RESPONSE, Observation
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason, Usage
from goalrunner.core.run_state import Phase, RunState
from goalrunner.core.user_messages import LONGEST_USER_TEXT
from goalrunner.core.waiting import resume_at
from goalrunner.engine.approvals import ApprovalGate
from goalrunner.engine.checks import Checks, InterruptedByValidatorError
from goalrunner.engine.journal import Parts, RunJournal, kept_traceback
from goalrunner.engine.prompts import interruption_text
from goalrunner.engine.recorder import Resumption, RunRecorder, cut_calls
from goalrunner.engine.snapshot_tracker import SnapshotTracker
from goalrunner.engine.turns import Turns, exclusive

T = TypeVar("T")

_CLOCK_CHECK = 20.0
"""Seconds between two looks at the clock during a wait."""

CutUsage = Callable[[RunState, Sequence[Message], bool], dict[events.Account, Usage]]
"""Returns what a call that was cut may have used, by account, from the chat and whether the agent has a session."""

CountUsage = Callable[[events.Account, Usage], None]  # records what an account has used


class Run:
    """One run of a goal with the adapters in `parts`."""

    def __init__(
        self,
        parts: Parts,
        journal: RunJournal,
        render: Callable[[decision.RunRound], str],
        *,
        fresh_rounds: bool,
        preflight: Callable[[CountUsage], Awaitable[Sequence[str]]] | None = None,
        resumption: Resumption | None = None,
        longest_turn: float | None = None,
        cut_usage: CutUsage = lambda state, chat, _: cut_calls(state, chat),
    ) -> None:
        """`render` returns the text of a prompt; `fresh_rounds` restores the conversation before each retry.

        `longest_turn` is the time limit of a turn in seconds.
        `preflight(count)` is awaited once before anything else (in a run resumed after its baseline, before the next
        round), and returns warnings; it calls `count` with what its calls used. Its GoalError ends the run.
        """
        self.parts = parts
        self._journal = journal
        self._render = render
        self._fresh_rounds = fresh_rounds
        self._preflight = preflight
        # Taken before a chat is loaded.
        self._checkpoint = parts.conversation.checkpoint() if fresh_rounds else None
        self.resumption = resumption or Resumption()
        self._reply = RoundReply(text=self.resumption.response)
        self._prompt = ""  # the last one of this process
        self._signal: int | None = None
        self._cancelled: str | None = None
        self.tracker = SnapshotTracker(parts.watch, journal)
        self._approvals = ApprovalGate(parts, journal, self.tracker)
        self.recorder = RunRecorder(
            journal, self.tracker, self._approvals, parts.scratch
        )
        self.recorder.has_session = self.resumption.unfinished.session is not None
        self._turns = Turns(parts, self.recorder, journal, longest_turn)
        self._cut_usage = cut_usage
        self._checks = Checks(
            parts, journal, self.tracker, self.recorder, self.resumption
        )

    @property
    def conversation(self) -> Conversation:
        return self.parts.conversation

    @property
    def state(self) -> RunState:
        return self._journal.state

    def start(
        self,
        created: events.GoalCreated,
        started: events.RunStarted,
        chat: Sequence[Message] = (),
        asked: str = "",
    ) -> None:
        """Write the first events, with the chat of another run among them: a run that is killed there has not started.

        `asked` is what a person wrote to the agent, if that is not the objective.
        """
        self._journal.append(created)
        if chat and isinstance(self.conversation, Resumable):
            self.conversation.adopt_history(chat, self.recorder)
            self._turns.hears_history = False
        self._journal.append(started)
        if asked.strip():
            self.recorder.user_said(shortened(asked, LONGEST_USER_TEXT))
        self._journal.save()

    async def resume(self, begun: events.RunResumed) -> None:
        """Continue the run that the journal has replayed: record `begun` with the changes in the workspace since."""
        live = (
            getattr(self.conversation, "live", False)
            and self.state.phase is Phase.WORKING
        )
        seen = (
            None if live else self.tracker.last
        )  # changes by a live agent are the work of its round
        now = await self.tracker.take("resumed") if seen is not None else None
        update = {"snapshot": now, "cut": tuple(self.resumption.unfinished.cut)}
        update["changed"] = await self.tracker.changed(seen, now)
        self._journal.append(begun.model_copy(update=update))
        self._journal.save()

    def interrupt(self, number: int) -> None:
        """Attribute the following cancellation to this signal."""
        self._signal = number

    def cancel(self, message: str) -> None:
        """Let the following cancellation end the run permanently; `message` names who cancelled it, and why."""
        self._cancelled = message

    async def drive(self) -> GoalOutcome:
        """Drive the run to its end. Raise CancelledError if neither `interrupt` nor `cancel` was called; the log is complete."""
        conversation = self.parts.conversation
        with exclusive(conversation):
            try:
                finish = await self.guarded(self._loop)
            finally:
                if isinstance(conversation, Closing):
                    await conversation.close()
        return self.end(finish)

    async def guarded(self, work: Callable[[], Awaitable[T]]) -> T | events.RunEnded:
        """Await `work()` under the deadline; return how the run ends if it was stopped."""
        timeout, deadline = self.state.plan.timeout, None
        left = None if timeout is None else max(0.0, timeout - self.state.elapsed)
        try:
            async with self._journal.deadline(left) as deadline:
                return await work()
        except TimeoutError:
            return (
                endings.timed_out(self.state)
                if deadline is not None and deadline.expired()
                else self._crashed()
            )
        except asyncio.CancelledError:
            finish = self._cut_off()
            if self._signal is not None or self._cancelled is not None:
                return finish
            self.end(finish)
            raise
        except InterruptedByValidatorError:
            return endings.interrupted(signal.SIGINT)
        except RecordError:
            raise
        except GoalError as error:
            return endings.end_by_error(self.state, error)
        except Exception:
            return self._crashed()

    def end(self, finish: events.RunEnded) -> GoalOutcome:
        """Write the last event once; return the outcome."""
        if self.state.status is GoalStatus.RUNNING:
            self._journal.count(self.parts.replaced())
            self._journal.append(finish)
            self._journal.save()
        return self.outcome()

    def outcome(self) -> GoalOutcome:
        return self._journal.outcome()

    def abandon(self, error: BaseException) -> None:
        """End a run after `error`. If the last event cannot be written, only the state changes."""
        if self.state.status is not GoalStatus.RUNNING:
            return
        if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
            finish = self._cut_off()
        elif isinstance(error, GoalError):
            finish = endings.end_by_error(self.state, error)
        else:
            message = f"{type(error).__name__}: {error}"
            finish = events.RunEnded(
                stop_reason=StopReason.INTERNAL_ERROR, message=message
            )
        try:
            self.end(finish)
        except RecordError:
            if self.state.status is GoalStatus.RUNNING:
                self._journal.fold_unwritten(finish)

    def _cut_off(self) -> events.RunEnded:
        if self._cancelled is None:
            return endings.interrupted(self._signal)
        return events.RunEnded(
            stop_reason=StopReason.CANCELLED, message=self._cancelled
        )

    async def advance(self) -> decision.RunRound | events.RunEnded:  # noqa: C901  one arm per step
        """Perform steps until the agent has to work or the run ends."""
        if self.state.phase is Phase.READY:
            await self._check()
        if self.tracker.last is None:
            await self.tracker.take("start")
        await self._checks.keep_start()
        while True:
            self._approvals.take_over()
            step = decision.decide(self.state)
            match step:
                case decision.RunRound():
                    await self._check()
                    return step
                case events.RunEnded(stop_reason=StopReason.QUESTION_OPEN) if (
                    await self._approvals.answers_all()
                ):
                    pass
                case events.RunEnded() if (
                    step.stop_reason.status is GoalStatus.COMPLETE
                ):
                    if await self._checks.unchanged():
                        return step
                case events.RunEnded():
                    return step
                case decision.TakeBaseline():
                    await self._checks.baseline()
                case decision.ScoreRound(problem=""):
                    await self._asked(
                        "critic", self._checks.score(step.round, self._reply.text)
                    )
                case decision.ScoreRound():
                    self._journal.append(
                        events.CritiqueFinished(round=step.round, problem=step.problem)
                    )
                case decision.Validate():
                    await self._checks.validate(step.round, self._reply.text)
                case decision.ReviewChecks():
                    await self._asked("judge", self._checks.review(step.round))
                case decision.AskJudge():
                    await self._asked("judge", self._checks.audit(step.round))
                case decision.Confirm():
                    await self._asked("judge", self._checks.confirm(step.claim))
                case decision.AskApproval(kind="checks"):
                    await self._approvals.checks(step.action, step.rule)
                case decision.AskApproval():
                    await self._approvals.completion(step.action, step.rule)
                case decision.Wait():
                    await self._wait(step)
                case decision.SwitchAgent():
                    await self._switch(step)
                case _:
                    assert_never(step)
            self._journal.count(self.parts.replaced())
            self._journal.save()

    async def _wait(self, step: decision.Wait) -> None:
        """Wait until the time of the step. A wait for a limit is no active time."""
        conversation, journal = self.parts.conversation, self._journal
        if isinstance(conversation, Closing):
            await conversation.close()
        if not step.begun:
            started = events.WaitStarted(
                account=step.account,
                kind=step.kind,
                reason=step.reason,
                until=step.until.astimezone(UTC).isoformat(),
                number=step.number,
            )
            journal.append(started)
            journal.save()
        with journal.suspended() if step.kind == "limit" else nullcontext():
            await self._sleep_until(step.until)
        journal.append(events.WaitEnded(deadline_at=self._deadline_at()))

    async def _sleep_until(self, until: datetime) -> None:
        """Sleep until a time, but not longer than it seems at first: the clock of the system may be set back."""
        loop = asyncio.get_running_loop()

        def left() -> float:
            return (until - self.parts.clock.now()).total_seconds()

        longest = loop.time() + left()
        # The clock may be set forward, or go on while the machine sleeps, so one long sleep is not enough.
        while (pause := min(left(), longest - loop.time())) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(pause, _CLOCK_CHECK))

    async def _switch(self, step: decision.SwitchAgent) -> None:
        """Let another agent take the round over; it is recorded first, so that a resumed run goes on with that agent."""
        event = events.AgentSwitched(
            round=self.state.round,
            index=step.index,
            agent=step.agent,
            before=step.before,
            reason=step.reason,
        )
        self._journal.append(event)
        self._journal.save()
        self.recorder.has_session = False
        assert isinstance(self.conversation, Switching), "the goal has several agents"
        await self.conversation.switch(step.index)

    def _deadline_at(self) -> str | None:
        """Return when the time limit is reached from now on (ISO 8601); None without one."""
        timeout = self.state.plan.timeout
        if timeout is None:
            return None
        left = timedelta(seconds=max(0.0, timeout - self.state.elapsed))
        return (self.parts.clock.now() + left).isoformat()

    async def _asked(self, account: events.Account, work: Awaitable[None]) -> None:
        """Await the work of a judge or a critic, which is done again if its failure passes."""
        try:
            await work
        except (AgentError, ModelError) as error:
            self._failed(account, error)

    def _failed(
        self, account: events.Account, error: GoalError, *, has_work: bool = False
    ) -> None:
        """Record that an account could not go on. Raise `error` if neither time nor another agent can help.

        `has_work`: the agent has changed files, which are checked before the run ends.
        """
        outage = error.outage
        is_one_of_several = account == "agent" and bool(self.state.plan.agents)
        is_kept = (is_one_of_several or has_work) and isinstance(
            error, AgentError | ModelError
        )
        if outage is None and not is_kept:
            raise error
        end = endings.end_by_error(self.state, error)
        failed = events.WorkFailed(
            account=account,
            kind=outage.kind if outage is not None else "permanent",
            reason=outage.reason if outage is not None else one_line(error.message),
            resets_at=outage.resets_at.isoformat()
            if outage is not None and outage.resets_at is not None
            else "",
            was_retried=outage is not None and outage.was_retried,
            stop_reason=end.stop_reason,
            message=end.message,
        )
        self._journal.append(failed)

    async def _check(self) -> None:
        """Check once in each process that agent, judge and validators can work, before anything is spent."""
        preflight, self._preflight = self._preflight, None
        if preflight is not None:
            for note in await preflight(self.recorder.usage):
                self._journal.append(events.NoteAdded(note=note))

    async def _loop(self) -> events.RunEnded:
        while True:
            step = await self.advance()
            end = (
                await self._round(step)
                if isinstance(step, decision.RunRound)
                else await self._checked_end(step)
            )
            if end is not None:
                return end

    async def _checked_end(self, end: events.RunEnded) -> events.RunEnded | None:
        """Return the end of the run; None if what an agent has changed that cannot go on has to be checked before."""
        failure = self.state.failure
        if failure is None or failure.account != "agent" or not await self._has_work():
            return end
        resets_at = resume_at(self.state)
        await self.recorder.interrupt_calls()
        if (
            not self.state.external
        ):  # the turn of an external agent is counted when it ends
            self._turns.count_unreported()
        await self.finish_round(
            self.state.round, RoundReply("", "interrupted", ending=failure.reason)
        )
        self._journal.append(events.LimitReached(end=end, resets_at=resets_at))
        return None

    async def _has_work(self) -> bool:
        """Return whether a turn that was cut has changed files, and its agent does not work any more."""
        in_turn = self.state.phase is Phase.WORKING and not self._turns.in_thread
        return in_turn and await self.tracker.has_changed()

    async def _round(self, brief: decision.RunRound) -> events.RunEnded | None:
        """Let the agent work; continue a turn that was interrupted if its prompt was sent.

        Return how the run ends if a limit cut a turn that changed nothing.
        """
        conversation, working = (
            self.parts.conversation,
            self.state.phase is Phase.WORKING,
        )
        if self._fresh_rounds and not working and brief.kind not in ("first", "refine"):
            conversation.restore(self._checkpoint)
        # What an earlier process left is reported to the agent once.
        unfinished = self.resumption.unfinished
        self.resumption.unfinished = Unfinished()
        try:
            if working and self.state.prompted and isinstance(conversation, Resumable):
                reply = await self._turns.resume(self._render(brief), unfinished)
            else:
                self._prompt = (
                    self._same_prompt(brief)
                    if working and self._prompt
                    else self.begin_round(brief)
                )
                reply = await self._turns.send(self._prompt)
            await self.finish_round(brief.round, reply)
        except (AgentError, ModelError) as error:
            self._failed(
                "agent", error, has_work=self.state.external and await self._has_work()
            )
        except BudgetExhausted:
            return await self._cut(
                brief.round, "its budget is spent", endings.out_of_budget(self.state)
            )
        except DeadlineReached as cut:
            return await self._cut(brief.round, str(cut), endings.timed_out(self.state))
        except TurnCut as cut:
            return await self._cut(brief.round, str(cut))
        return None

    def _same_prompt(self, brief: decision.RunRound) -> str:
        """Return the prompt that is sent again after a failure in this process, with what people said meanwhile."""
        news = interruption_text(brief.interruption)
        return self._prompt if news in self._prompt else f"{news}\n\n{self._prompt}"

    async def _cut(
        self, number: int, ending: str, end: events.RunEnded | None = None
    ) -> events.RunEnded | None:
        """Record the end of a turn that was cut. `end` is that of the run, if a limit of the run cut the turn.

        Such a run ends after a last check of what is there. Return `end` if there is nothing to check.
        """
        if end is not None and not await self._has_work():
            return end
        used: Mapping[
            events.Account, Usage
        ] = {}  # a spent budget ends a turn between two calls
        if end is None or end.stop_reason is not StopReason.BUDGET_EXHAUSTED:
            used = self._cut_usage(
                self.state, self.conversation.messages, self.recorder.has_session
            )
        await self.finish_round(number, await self._turns.interrupted(ending, used))
        if end is not None:
            self._journal.lift_deadlines()
            self._journal.append(events.LimitReached(end=end))
        return None

    def begin_round(self, brief: decision.RunRound) -> str:
        """Record the start of a round, or of a refinement in it; return its user message."""
        if self.state.phase is Phase.WORKING:  # an earlier process began it
            return self._render(brief) or self._render(
                decision.RunRound("neutral", brief.round)
            )
        if brief.kind == "refine":
            self._journal.append(
                events.RefinementStarted(
                    round=brief.round, number=self.state.refinements + 1
                )
            )
        else:
            self._journal.append(
                events.RoundStarted(round=brief.round, prompt=brief.kind)
            )
        return self._render(brief)

    async def finish_round(self, number: int, reply: RoundReply) -> None:
        """Record the end of the agent's turn. Raise the error of a turn without a message that changed no file."""
        self._reply = reply
        ended = await self.tracker.end_round()
        has_changed = ended["snapshot"] is not None and not ended["idle"]
        if reply.failure is not None and not (has_changed or reply.text):
            raise reply.failure
        if reply.failure is not None:
            self._turns.count_unreported()
        plan, data, response = (
            self.state.plan,
            reply.text.encode("utf-8", errors="replace"),
            None,
        )
        if plan.deliverable == "response":
            facts, ref = (f"round {number}",), self._journal.artifacts.put(data)
            identifier = self._journal.next_observation()
            response = Observation(
                id=identifier, source=RESPONSE, facts=facts, round=number, output=ref
            )
        self._journal.append(
            events.RoundFinished(
                round=number,
                reason=reply.reason,
                ending=reply.ending,
                steps=reply.steps,
                response=response,
                said=sha256(data).hexdigest() if plan.checks_response else "",
                left=reply.left,
                **ended,
            )
        )
        self._journal.count(self.parts.replaced())

    def _crashed(self) -> events.RunEnded:
        """Return how the run ends after a defect of the runner or an adapter, which is the current exception."""
        message = kept_traceback(self.parts.scratch, self.parts.redact)
        return events.RunEnded(stop_reason=StopReason.INTERNAL_ERROR, message=message)
