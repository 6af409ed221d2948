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
from goalrunner.engine.checks import Checks
from goalrunner.engine.conversations import exclusive
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.output_store import store_traceback
from goalrunner.engine.parts import Parts
from goalrunner.engine.prompts import interruption_text
from goalrunner.engine.recorder import RunRecorder
from goalrunner.engine.resumption import Resumption, usage_of_cut_call
from goalrunner.engine.snapshot_tracker import SnapshotTracker
from goalrunner.engine.turns import Turns
from goalrunner.engine.validator_runs import InterruptedByValidatorError

T = TypeVar("T")

_CLOCK_CHECK = 20.0
"""Seconds between two looks at the clock during a wait."""

CutUsage = Callable[[RunState, Sequence[Message], bool], dict[events.Account, Usage]]
"""Returns what a call that was cut may have used, by account.

It gets the state, the chat, and whether the agent has a session.
"""

CountUsage = Callable[[events.Account, Usage], None]
"""Records what an account has used."""


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
        cut_usage: CutUsage = lambda state, chat, _: usage_of_cut_call(state, chat),
    ) -> None:
        """Prepare a run; `render` returns the text of a prompt.

        `fresh_rounds` restores the conversation before each retry. `longest_turn` is
        the time limit of a turn in seconds.
        `preflight(count)` is awaited once, before the baseline; in a run that is
        resumed after its baseline, before the next round. It calls `count` with what
        its calls used, and returns warnings. Its GoalError ends the run.
        """
        self.parts = parts
        self._journal = journal
        self._render = render
        self._fresh_rounds = fresh_rounds
        self._preflight = preflight
        # Taken now, before the chat of an earlier process is loaded: a fresh round
        # begins without it.
        self._checkpoint = parts.conversation.checkpoint() if fresh_rounds else None
        self.resumption = resumption or Resumption()
        self._reply = RoundReply(text=self.resumption.response)
        self._prompt = ""
        """The last prompt of this process."""
        self._signal: int | None = None
        self._cancelled: str | None = None
        self.tracker = SnapshotTracker(parts.snapshots, journal)
        self._approvals = ApprovalGate(parts, journal, self.tracker)
        self.recorder = RunRecorder(
            journal, self.tracker, self._approvals, parts.scratch, parts.refuse_call
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
        first_message: str = "",
    ) -> None:
        """Write the first events, with the chat of another run among them.

        A run whose process is killed between them has not started. `first_message` is
        what a person wrote to the agent, if that is not the objective.
        """
        self._journal.append(created)
        if chat and isinstance(self.conversation, Resumable):
            self.conversation.adopt_history(chat, self.recorder)
            self._turns.records_user_texts = False
        self._journal.append(started)
        if first_message.strip():
            self.recorder.user_said(shortened(first_message, LONGEST_USER_TEXT))
        self._journal.save()

    async def resume(self, resumed: events.RunResumed) -> None:
        """Record that the run goes on, with what changed in the workspace meanwhile.

        The journal has the state that the earlier process left. The snapshots and the
        interrupted calls are added to `resumed` here.
        """
        is_live = getattr(self.conversation, "live", False)
        last_snapshot = self.tracker.last
        now = None
        # A live agent has worked on meanwhile: the changes are those of its round.
        if is_live and self.state.phase is Phase.WORKING:
            last_snapshot = None
        if last_snapshot is not None:
            now = await self.tracker.take("resumed")
        update = {
            "snapshot": now,
            "cut": tuple(self.resumption.unfinished.cut),
            "changed": await self.tracker.changed(last_snapshot, now),
        }
        self._journal.append(resumed.model_copy(update=update))
        self._journal.save()

    def interrupt(self, number: int) -> None:
        """Attribute the following cancellation to this signal."""
        self._signal = number

    def cancel(self, message: str) -> None:
        """Let the following cancellation end the run permanently.

        `message` names who cancelled it, and why.
        """
        self._cancelled = message

    async def drive(self) -> GoalOutcome:
        """Drive the run to its end.

        Raise CancelledError if neither `interrupt` nor `cancel` was called; the log is
        complete then as well.
        """
        conversation = self.parts.conversation
        with exclusive(conversation):
            try:
                finish = await self.guarded(self._loop)
            finally:
                if isinstance(conversation, Closing):
                    await conversation.close()
        return self.end(finish)

    async def guarded(self, work: Callable[[], Awaitable[T]]) -> T | events.RunEnded:
        """Await `work()` under the deadline of the run.

        Return how the run ends if the work was stopped.
        """
        deadline: asyncio.Timeout | None = None
        try:
            async with self._journal.deadline(self._remaining_time()) as deadline:
                return await work()
        except TimeoutError:
            # An adapter may raise the same error by itself.
            if deadline is not None and deadline.expired():
                return endings.timed_out(self.state)
            return self._crashed()
        except asyncio.CancelledError:
            finish = self._end_by_cancellation()
            # Without a signal, a caller has cancelled its task, and expects the error.
            if self._signal is not None or self._cancelled is not None:
                return finish
            self.end(finish)
            raise
        except InterruptedByValidatorError:
            return endings.interrupted(signal.SIGINT, is_kept=self.state.is_kept)
        except RecordError:
            # The end of the run could not be recorded either.
            raise
        except GoalError as error:
            return endings.end_by_error(self.state, error)
        except Exception:
            return self._crashed()

    def end(self, finish: events.RunEnded) -> GoalOutcome:
        """Write the last event once; return the outcome."""
        if self.state.status is GoalStatus.RUNNING:
            self._journal.count_secrets(self.parts.take_secret_counts())
            self._journal.append(finish)
            self._journal.save()
        return self.outcome()

    def outcome(self) -> GoalOutcome:
        return self._journal.outcome()

    def abandon(self, error: BaseException) -> None:
        """End a run after `error`.

        If the last event cannot be written, only the state changes.
        """
        if self.state.status is not GoalStatus.RUNNING:
            return
        if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)):
            finish = self._end_by_cancellation()
        elif isinstance(error, GoalError):
            finish = endings.end_by_error(self.state, error)
        else:
            message = f"{type(error).__name__}: {error}"
            finish = events.RunEnded(
                stop_reason=StopReason.INTERNAL_ERROR, message=message
            )
        try:
            self.end(finish)
        # A full disk is the most likely reason that a run is abandoned.
        except RecordError:
            if self.state.status is GoalStatus.RUNNING:
                self._journal.fold_unwritten(finish)

    def _end_by_cancellation(self) -> events.RunEnded:
        """Return how the run ends by a signal, or by `cancel`."""
        if self._cancelled is None:
            is_kept = self.state.is_kept
            return endings.interrupted(self._signal, is_kept=is_kept)
        return events.RunEnded(
            stop_reason=StopReason.CANCELLED, message=self._cancelled
        )

    async def advance(  # noqa: C901  one arm per step
        self,
    ) -> decision.RunRound | events.RunEnded:
        """Perform steps until the agent has to work or the run ends."""
        if self.state.phase is Phase.READY:
            await self._run_preflight()
        if self.tracker.last is None:
            await self.tracker.take("start")
        await self._checks.record_start()
        while True:
            self._approvals.record_decisions_elsewhere()
            step = decision.decide(self.state)
            match step:
                case decision.RunRound():
                    await self._run_preflight()
                    return step
                case events.RunEnded(stop_reason=StopReason.QUESTION_OPEN) if (
                    await self._approvals.answers_all()
                ):
                    # A person has answered every question: the state decides anew.
                    pass
                case events.RunEnded() if (
                    step.stop_reason.status is GoalStatus.COMPLETE
                ):
                    # Files that changed since the check are recorded, and checked.
                    if await self._checks.unchanged():
                        return step
                case events.RunEnded():
                    return step
                case decision.TakeBaseline():
                    await self._checks.baseline()
                case decision.ScoreRound(problem=""):
                    await self._judged(
                        "critic", self._checks.score(step.round, self._reply.text)
                    )
                case decision.ScoreRound():
                    self._journal.append(
                        events.CritiqueFinished(round=step.round, problem=step.problem)
                    )
                case decision.Validate():
                    await self._checks.validate(step.round, self._reply.text)
                case decision.ReviewChecks():
                    await self._judged("judge", self._checks.review(step.round))
                case decision.AskJudge():
                    await self._judged("judge", self._checks.audit(step.round))
                case decision.Confirm():
                    await self._judged("judge", self._checks.confirm(step.claim))
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
            self._journal.count_secrets(self.parts.take_secret_counts())
            self._journal.save()

    async def _wait(self, step: decision.Wait) -> None:
        """Wait until the time of the step. A wait for a limit is no active time."""
        conversation, journal = self.parts.conversation, self._journal
        # An idle program of an agent may hold locks and memory for hours.
        if isinstance(conversation, Closing):
            await conversation.close()
        # A resumed run waits on until the recorded time.
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
        """Sleep until a time, but not longer than it takes by the clock now.

        The clock of the system may be set back meanwhile.
        """
        loop = asyncio.get_running_loop()

        def remaining() -> float:
            return (until - self.parts.clock.now()).total_seconds()

        latest = loop.time() + remaining()
        # The clock may be set forward, or go on while the machine sleeps, so one long
        # sleep is not enough.
        while (pause := min(remaining(), latest - loop.time())) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(pause, _CLOCK_CHECK))

    async def _switch(self, step: decision.SwitchAgent) -> None:
        """Let another agent take over the round."""
        event = events.AgentSwitched(
            round=self.state.round,
            index=step.index,
            agent=step.agent,
            before=step.before,
            reason=step.reason,
        )
        # It is recorded first, so that a resumed run goes on with that agent.
        self._journal.append(event)
        self._journal.save()
        # The next agent cannot continue the session of this one.
        self.recorder.has_session = False
        assert isinstance(self.conversation, Switching), "the goal has several agents"
        await self.conversation.switch(step.index)

    def _remaining_time(self) -> float | None:
        """Return the seconds of active time until the time limit; None without one."""
        timeout = self.state.plan.timeout
        return None if timeout is None else max(0.0, timeout - self.state.elapsed)

    def _deadline_at(self) -> str | None:
        """Return when the time limit is reached from now on, in ISO 8601.

        Return None without a time limit.
        """
        seconds = self._remaining_time()
        if seconds is None:
            return None
        return (self.parts.clock.now() + timedelta(seconds=seconds)).isoformat()

    async def _judged(self, account: events.Account, work: Awaitable[None]) -> None:
        """Await the work of a judge or a critic, and record its failure.

        `decide` repeats the work if the failure passes by itself.
        """
        try:
            await work
        except (AgentError, ModelError) as error:
            self._failed(account, error)

    def _failed(
        self, account: events.Account, error: GoalError, *, has_work: bool = False
    ) -> None:
        """Record that an account could not go on.

        Raise `error` if neither time nor another agent can help. `has_work`: the agent
        has changed files, which are checked before the run ends.
        """
        outage = error.outage
        has_fallback = account == "agent" and bool(self.state.plan.agents)
        is_failure_of_work = isinstance(error, AgentError | ModelError)
        goes_on = (has_fallback or has_work) and is_failure_of_work
        if outage is None and not goes_on:
            raise error
        resets_at = outage.resets_at if outage is not None else None
        end = endings.end_by_error(self.state, error)
        failed = events.WorkFailed(
            account=account,
            kind=outage.kind if outage is not None else "permanent",
            reason=outage.reason if outage is not None else one_line(error.message),
            resets_at=resets_at.isoformat() if resets_at is not None else "",
            was_retried=outage is not None and outage.was_retried,
            stop_reason=end.stop_reason,
            message=end.message,
        )
        self._journal.append(failed)

    async def _run_preflight(self) -> None:
        """Run the preflight of this process, once, and record its warnings.

        It shows that agent, judge and validators can work, before anything is spent.
        """
        preflight, self._preflight = self._preflight, None
        if preflight is not None:
            for note in await preflight(self.recorder.usage):
                self._journal.append(events.NoteAdded(note=note))

    async def _loop(self) -> events.RunEnded:
        while True:
            step = await self.advance()
            if isinstance(step, decision.RunRound):
                end = await self._round(step)
            else:
                end = await self._end_after_check(step)
            if end is not None:
                return end

    async def _end_after_check(self, end: events.RunEnded) -> events.RunEnded | None:
        """Return the end of the run; None if a last check has to come before it.

        It is needed if an agent that cannot go on has changed files.
        """
        failure = self.state.failure
        if failure is None or failure.account != "agent" or not await self._has_work():
            return end
        # The end of the round clears the failure that this depends on.
        resets_at = resume_at(self.state)
        await self.recorder.interrupt_calls()
        # The turn of an external agent is counted when it ends.
        if not self.state.external:
            self._turns.count_unreported()
        reply = RoundReply("", "interrupted", ending=failure.reason)
        await self.finish_round(self.state.round, reply)
        self._journal.append(events.LimitReached(end=end, resets_at=resets_at))
        return None

    async def _has_work(self) -> bool:
        """Return whether a turn that was cut has changed files.

        Return False if its agent may still be working.
        """
        # A thread cannot be ended, so its files may change during the check.
        is_cut = self.state.phase is Phase.WORKING and not self._turns.in_thread
        return is_cut and await self.tracker.has_changed()

    async def _round(self, brief: decision.RunRound) -> events.RunEnded | None:
        """Let the agent work; continue a turn that was interrupted after its prompt.

        Return how the run ends if a limit cut a turn that changed nothing.
        """
        is_working = self.state.phase is Phase.WORKING
        is_retry = not is_working and brief.kind not in ("first", "refine")
        if self._fresh_rounds and is_retry:
            self.parts.conversation.restore(self._checkpoint)
        try:
            reply = await self._turn(brief)
            await self.finish_round(brief.round, reply)
        except (AgentError, ModelError) as error:
            has_work = self.state.external and await self._has_work()
            self._failed("agent", error, has_work=has_work)
        except BudgetExhausted:
            end = endings.out_of_budget(self.state)
            return await self._finish_cut_turn(brief.round, "its budget is spent", end)
        except DeadlineReached as reached:
            end = endings.timed_out(self.state)
            return await self._finish_cut_turn(brief.round, str(reached), end)
        except TurnCut as cut:
            return await self._finish_cut_turn(brief.round, str(cut))
        return None

    async def _turn(self, brief: decision.RunRound) -> RoundReply:
        """Return the answer of the agent, whose turn may have begun earlier."""
        conversation = self.parts.conversation
        is_working = self.state.phase is Phase.WORKING
        # Only the first turn of this process can go on with one of an earlier process.
        unfinished = self.resumption.unfinished
        self.resumption.unfinished = Unfinished()
        if is_working and self.state.prompted and isinstance(conversation, Resumable):
            # The agent has got its prompt already, so the same turn goes on.
            return await self._turns.resume(self._render(brief), unfinished)
        if is_working and self._prompt:
            # The turn failed in this process: its prompt is sent again.
            self._prompt = self._same_prompt(brief)
        else:
            self._prompt = self.begin_round(brief)
        return await self._turns.send(self._prompt)

    def _same_prompt(self, brief: decision.RunRound) -> str:
        """Return the prompt that is sent again after a failure in this process.

        It begins with what people said meanwhile.
        """
        news = interruption_text(brief.interruption)
        return self._prompt if news in self._prompt else f"{news}\n\n{self._prompt}"

    async def _finish_cut_turn(
        self, number: int, ending: str, run_end: events.RunEnded | None = None
    ) -> events.RunEnded | None:
        """Record the end of a turn that was cut.

        `ending` says why it was cut. If a limit of the run cut it, `run_end` is how the
        run ends after a last check of the changes; return it if there are none.
        """
        if run_end is not None and not await self._has_work():
            return run_end
        usage: Mapping[events.Account, Usage] = {}
        # A spent budget ends a turn between two calls, so no call was cut.
        if run_end is None or run_end.stop_reason is not StopReason.BUDGET_EXHAUSTED:
            usage = self._cut_usage(
                self.state, self.conversation.messages, self.recorder.has_session
            )
        await self.finish_round(number, await self._turns.interrupted(ending, usage))
        if run_end is not None:
            # The last check takes time that the limit does not allow any more.
            self._journal.lift_deadlines()
            self._journal.append(events.LimitReached(end=run_end))
        return None

    def begin_round(self, brief: decision.RunRound) -> str:
        """Record the start of a round, or of a refinement in it.

        Return its user message.
        """
        if self.state.phase is Phase.WORKING:
            # An earlier process has recorded the start. With nothing to report, the
            # text is empty, but an agent that begins again needs a prompt.
            neutral = decision.RunRound("neutral", brief.round)
            return self._render(brief) or self._render(neutral)
        if brief.kind == "refine":
            refinement = self.state.refinements + 1
            self._journal.append(
                events.RefinementStarted(round=brief.round, number=refinement)
            )
        else:
            self._journal.append(
                events.RoundStarted(round=brief.round, prompt=brief.kind)
            )
            self._journal.save()
        return self._render(brief)

    async def finish_round(self, number: int, reply: RoundReply) -> None:
        """Record the end of the agent's turn.

        Raise the error of a turn without a message that changed no file.
        """
        self._reply = reply
        ended = await self.tracker.end_round()
        has_changed = ended.snapshot is not None and not ended.idle
        if reply.failure is not None:
            if not has_changed and not reply.text:
                raise reply.failure
            self._turns.count_unreported()
        plan = self.state.plan
        response_bytes = reply.text.encode("utf-8", errors="replace")
        # A callable may check the response, which no snapshot shows.
        response_hash = ""
        if plan.checks_response:
            response_hash = sha256(response_bytes).hexdigest()
        response: Observation | None = None
        if plan.deliverable == "response":
            response = Observation(
                id=self._journal.next_observation(),
                source=RESPONSE,
                facts=(f"round {number}",),
                round=number,
                output=self._journal.artifacts.put(response_bytes),
            )
        self._journal.append(
            events.RoundFinished(
                round=number,
                reason=reply.reason,
                ending=reply.ending,
                steps=reply.steps,
                response=response,
                said=response_hash,
                left=reply.left,
                snapshot=ended.snapshot,
                idle=ended.idle,
                changes=ended.changes,
                total=ended.total,
                touched=ended.touched,
                gone_or_reverted=ended.gone_or_reverted,
            )
        )
        self._journal.count_secrets(self.parts.take_secret_counts())

    def _crashed(self) -> events.RunEnded:
        """Return how the run ends after a defect of the runner or an adapter.

        The defect is the current exception.
        """
        message = store_traceback(self.parts.store_traceback, self.parts.redact)
        return events.RunEnded(stop_reason=StopReason.INTERNAL_ERROR, message=message)
