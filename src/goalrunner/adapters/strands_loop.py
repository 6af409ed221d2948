"""The hooks that run a goal around each invocation of a Strands agent."""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from goalrunner import GoalOutcome
from goalrunner.adapters.framework import framework_module
from goalrunner.adapters.message_formats import shown_content
from goalrunner.adapters.strands_agent import StrandsConversation, reply_of
from goalrunner.adapters.strands_goal import LoopGoal, LoopSettings
from goalrunner.app.build import PreparedRun
from goalrunner.app.library import prepare_conversation
from goalrunner.app.session import HostedRun
from goalrunner.core.errors import AgentError, GoalError, UsageError
from goalrunner.core.outcome import StopReason
from goalrunner.engine.reported_chat import ReportedChat
from goalrunner.llm.outside import goal_error_of

_MOST_MESSAGES = 200
"""The messages of an earlier chat that a judge sees; each takes time to record."""


@dataclass(frozen=True)
class Attempt:
    """A turn of the agent that was checked."""

    number: int
    passed: bool
    feedback: str | None


Finished = Callable[[GoalOutcome, Sequence[Attempt]], None]
"""Called at the end of a run."""


class _TimeIsUpError(GoalError):
    """The time limit is over; it is checked between attempts."""

    stop_reason = StopReason.TIMEOUT.value


@dataclass
class _Watch:
    """The time of a run. Waiting for the answer to an interrupt does not count."""

    began: float = field(default_factory=time.monotonic)
    _stopped: float | None = None

    def stop(self) -> None:
        self._stopped = time.monotonic()

    def go_on(self) -> None:
        if self._stopped is not None:
            self.began += time.monotonic() - self._stopped
        self._stopped = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


class AgentLoop:
    """The hooks of one agent with a GoalLoop."""

    def __init__(
        self,
        settings: LoopSettings,
        agent: Any,
        begun: Callable[[], None],
        finished: Finished,
    ) -> None:
        """Add the hooks. `begun` is called at the start of each run."""
        self._settings = settings
        self._agent = agent
        self._begun = begun
        self._finished = finished
        self._conversation = StrandsConversation(agent)
        # The run of the current invocation.
        self._host: HostedRun | None = None
        # Whether that run waits for the answer to an interrupt.
        self._waits = False
        self._watch = _Watch()
        self._attempts: list[Attempt] = []
        self._goal = LoopGoal(settings, agent)
        # The recording of the current turn.
        self._turn = ExitStack()
        # What a retry starts from, without `preserve_context`.
        self._snapshot: object = None
        # The state of the invocation that the plugin itself has resumed.
        self._resumed: object = None
        # The prompts of the retries of all runs, which no person wrote.
        self._prompts: set[str] = set()
        hooks = framework_module("strands.hooks", "strands")
        agent.add_hook(self._before, hooks.BeforeInvocationEvent)
        agent.add_hook(self._after, hooks.AfterInvocationEvent)
        if not settings.preserve_context:
            agent.add_hook(self._before_model, hooks.BeforeModelCallEvent)

    async def _before(self, event: Any) -> None:
        """Begin a run, unless the invocation goes on with one."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed is event.invocation_state:
            return
        # Agent.structured_output has no turn that could be checked.
        if event.messages is None:
            return
        waited, self._waits = self._waits, False
        # An answer to the interrupt of this turn brings no message.
        if self._host is not None and waited and not event.messages:
            self._watch.go_on()
            self._record(self._host)
            return
        if self._host is not None:
            # The interrupt was dropped, or another hook raised an error before the
            # agent began.
            self._finish(await self._cancelled(self._host, "the turn has no end"))
        await self._begin(event)

    async def _begin(self, event: Any) -> None:
        self._begun()
        self._attempts, self._snapshot = [], None
        prepared = self._prepared(self._prompt_of(event.messages))
        self._host = HostedRun(prepared)
        first = await self._host.next()
        if isinstance(first, str):
            await self._record_earlier_chat(prepared)
            self._record(self._host)
            self._watch = _Watch()
        else:
            self._finish(first)
            # The run has ended before its first round.
            event.cancel = first.message

    def _prepared(self, prompt: str) -> PreparedRun:
        """Return a run; one without records if no folder for them can be made."""
        goal, options = self._goal.resolved(prompt, self._conversation)
        # The plugin has warned already.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                return prepare_conversation(goal, options, self._conversation)
            except UsageError as error:
                names_records = self._settings.options.keys() & {"home", "records"}
                needs_records = bool(goal.validators) or goal.deliverable != "response"
                is_of_folder = isinstance(error.__cause__, OSError)
                if not is_of_folder or names_records or needs_records:
                    raise
                reason = error.message
            options = replace(options, in_memory=True)
            prepared = prepare_conversation(goal, options, self._conversation)
        warnings.warn(
            f"{self._settings.name} does not record its runs: {reason}; set GOAL_HOME "
            'to a folder that can be written, or pass records="none"',
            RuntimeWarning,
            stacklevel=2,
        )
        return prepared

    async def _record_earlier_chat(self, prepared: PreparedRun) -> None:
        """Record what was said before this invocation, and shown to the agent."""
        plan = prepared.run.state.plan
        # A callable reads the agent's messages themselves.
        if not (plan.has_judge or plan.deliverable == "workspace"):
            return
        messages = self._agent.messages
        if len(messages) > _MOST_MESSAGES:
            # The first one often says what holds for all.
            messages = [messages[0], *messages[-_MOST_MESSAGES:]]
        # A new one, because each run has records of its own.
        chat = ReportedChat(self._conversation.name)
        chat.note_prompts(*self._prompts)
        await chat.record(messages, prepared.run.recorder)

    def _prompt_of(self, messages: Sequence[Any]) -> str:
        """Return the input of an invocation as text; empty if there is none.

        Without input, the agent answers the last message of its chat.
        """
        for message in reversed([*self._agent.messages, *messages]):
            text = shown_content(message["content"])
            if message["role"] == "user" and text:
                return text
        return ""

    def _record(self, host: HostedRun) -> None:
        self._turn.enter_context(
            self._conversation.recording(host.prepared.run.recorder, keeps_budget=False)
        )

    def _before_model(self, _: Any) -> None:
        """Take the snapshot for retries: the messages with the original input."""
        # Before the first call only: later ones have its answer in the chat.
        self._snapshot = self._snapshot or self._conversation.checkpoint()

    async def _after(self, event: Any) -> None:
        """Check the turn; resume the agent with the next prompt, or keep the result."""
        host = self._host
        # Without a recording, this is the end of something else than a turn.
        if host is None or self._waits:
            return
        self._turn.close()
        result = event.result
        if result is not None and result.stop_reason == "interrupt":
            # The turn goes on when the program answers.
            self._waits = True
            self._watch.stop()
            return
        # The event has no field for the exception that ended the invocation.
        try:
            step = await self._next_step(host, result, sys.exc_info()[1])
        except BaseException:
            # The invocation was cancelled during a check; the run has ended.
            self._finish(host.prepared.run.outcome())
            raise
        if isinstance(step, GoalOutcome):
            self._finish(step)
            self._raise_escaped()
            return
        if self._snapshot is not None:
            self._conversation.restore(self._snapshot)
        self._record(host)
        self._prompts.add(step)
        retry_input, self._goal.retry_input = self._goal.retry_input, None
        event.resume = step if retry_input is None else retry_input
        self._resumed = event.invocation_state

    async def _next_step(
        self, host: HostedRun, result: Any, error: BaseException | None
    ) -> str | GoalOutcome:
        """Check the turn, and end the run if a function of the program raised."""
        try:
            step = await self._checked(host, result, error)
        except GoalError:
            if self._goal.escaped is None:
                raise
            # The template of the retry raised it; the run has ended.
            step = host.prepared.run.outcome()
        self._note_attempts(host)
        if self._goal.escaped is not None and isinstance(step, str):
            name = type(self._goal.escaped).__name__
            return await self._cancelled(host, f"a validator raised {name}")
        return step

    async def _cancelled(self, host: HostedRun, reason: str) -> GoalOutcome:
        step = await host.cancel(reason)
        assert isinstance(step, GoalOutcome), "a cancelled run has ended"
        return step

    def _raise_escaped(self) -> None:
        error, self._goal.escaped = self._goal.escaped, None
        if error is not None:
            raise error

    async def _checked(
        self, host: HostedRun, result: Any, error: BaseException | None
    ) -> str | GoalOutcome:
        """Return the next prompt, or the outcome if the run has ended."""
        is_cancelled = isinstance(error, asyncio.CancelledError | GeneratorExit)
        if result is not None:
            is_cancelled = is_cancelled or result.stop_reason == "cancelled"
        if is_cancelled:
            return await self._cancelled(host, "the agent was cancelled")
        if result is None:
            cause = error or RuntimeError("the agent gave no result")
            return await host.next(goal_error_of(cause))
        timeout = self._settings.timeout
        if self._watch.seconds >= timeout:
            message = f"the time limit of {timeout:g} s was reached"
            return await host.next(_TimeIsUpError(message))
        self._goal.feedback = None
        try:
            return await host.next(reply_of(result))
        except AgentError as stopped:
            return await host.next(stopped)

    def _note_attempts(self, host: HostedRun) -> None:
        """Keep the attempts that the last check has decided."""
        for attempt in host.prepared.run.state.attempts:
            if self._attempts and attempt.attempt <= self._attempts[-1].number:
                continue
            feedback = attempt.feedback
            if self._goal.decides_alone:
                feedback = self._goal.feedback
            self._attempts.append(Attempt(attempt.attempt, attempt.passed, feedback))

    def _finish(self, outcome: GoalOutcome) -> None:
        self._host = None
        self._finished(outcome, self._attempts)
