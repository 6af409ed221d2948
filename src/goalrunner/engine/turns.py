"""The turns of a conversation, with their time limits.

The chat of a conversation that records nothing is recorded here.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from goalrunner.core.agent_ports import (
    Message,
    Recorder,
    Resumable,
    RoundReply,
    Unfinished,
)
from goalrunner.core.chat_trail import trail_of
from goalrunner.core.errors import (
    AgentError,
    DeadlineReached,
    GoalError,
    TurnCut,
    UsageError,
    kind_of,
    span,
)
from goalrunner.core.events import Account
from goalrunner.core.messages import blocks_of, refuse_no_chat, text_of
from goalrunner.core.outages import outage_of_error
from goalrunner.core.outcome import Usage
from goalrunner.core.run_state import RunState
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.output_store import store_traceback
from goalrunner.engine.parts import Parts
from goalrunner.engine.recorder import RunRecorder
from goalrunner.engine.reported_chat import ReportedChat

SEND_SIGNATURE = (
    "write: async def send(self, prompt, recorder), which returns a RoundReply,"
    " or the text of the answer"
)
"""What to write for a conversation whose `send` does not fit."""


def accepts(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with `count` positional arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except ValueError:
        # A function in C may have no signature.
        return True
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class _TurnStart:
    """What was recorded before a turn.

    `prompt` is empty, and `chat` None, if an earlier process had begun the turn.
    """

    prompt: str = ""
    chat: Sequence[Message] | None = None
    observations: int = 0
    usage: Usage | None = None


class Turns:
    """The turns of one conversation.

    A `send` that is not async runs in a thread, so that limits can interrupt it.
    `longest` is the time limit of each turn in seconds; None: no limit.
    """

    def __init__(
        self,
        parts: Parts,
        recorder: RunRecorder,
        journal: RunJournal,
        longest: float | None = None,
    ) -> None:
        self._parts = parts
        self._conversation = parts.conversation
        self._recorder = recorder
        self._journal = journal
        self._longest = longest
        self._start = _TurnStart()
        self._name = type(parts.conversation).__name__
        reporter = getattr(parts.conversation, "name", None) or self._name
        self._chat = ReportedChat(str(reporter))
        self.records_user_texts = True
        """Whether the texts of users in the chat before round 1 are recorded."""

    async def send(self, prompt: str) -> RoundReply:
        """Let the agent work on a user message.

        Raise GoalError; AgentError for another error and an unusable answer; TurnCut if
        a time limit cuts the turn, which `interrupted` then has to record.
        """
        # Conversations usually append to one list, so this is a copy of it.
        messages = self._messages()
        chat = list(messages) if messages is not None else None
        self._chat.note_prompts(prompt)
        if chat and self.records_user_texts and self._state.round == 1:
            self._chat.record_user_texts(trail_of(chat).said, self._recorder)
        self.records_user_texts = False
        self._start = self._turn_start(prompt, chat)
        async with self._limits():
            value = await self._answer_to(prompt)
        reply = _reply_of(value, self._name)
        await self._record_unrecorded(reply)
        # A failure may end the run; then a resumed run estimates what the turn used.
        if reply.failure is None:
            self.count_unreported()
        return reply

    def _turn_start(
        self, prompt: str = "", chat: Sequence[Message] | None = None
    ) -> _TurnStart:
        usage = self._state.usage.get("agent")
        return _TurnStart(prompt, chat, self._state.observations, usage)

    async def interrupted(
        self, ending: str, used: Mapping[Account, Usage]
    ) -> RoundReply:
        """Record the open calls of a turn that was cut.

        `used` is what its last call may have used, by account.
        """
        # Each recorded call needs a result, or a resumed run would report it again.
        await self._recorder.interrupt_calls()
        reply = RoundReply(self._last_text(), "interrupted", ending=ending)
        await self._record_unrecorded(reply)
        for account, usage in used.items():
            self._recorder.usage(account, usage)
        self.count_unreported()
        return reply

    def count_unreported(self) -> None:
        """Record that the usage of the last turn is unknown if none was reported.

        A budget must not count it as 0.
        """
        if self._state.usage.get("agent") == self._start.usage:
            self._recorder.usage("agent", Usage.unknown())

    async def _record_unrecorded(self, reply: RoundReply) -> None:
        """Record the prompt and what followed, if the conversation recorded nothing."""
        start, recorder = self._start, self._recorder
        if self._state.prompted or not start.prompt:
            return
        recorder.message({"role": "user", "content": start.prompt})
        if start.chat is not None:
            self._chat.continue_from(trail_of(start.chat))
        last_text = ""
        # Tool results that the conversation recorded itself may be in its messages as
        # well, and would count twice.
        if self._state.observations == start.observations:
            messages = self._messages()
            if messages is not None:
                last_text = await self._chat.record(messages, recorder)
        if reply.text and reply.text != last_text:
            recorder.message({"role": "assistant", "content": reply.text})

    def _last_text(self) -> str:
        """Return the last text of the agent since the newest prompt, if any."""
        for message in reversed(self._messages() or ()):
            role = message.get("role")
            if role == "user":
                break
            text = text_of(message.get("content")) if role == "assistant" else ""
            if text:
                return text
        return ""

    @property
    def _state(self) -> RunState:
        return self._journal.state

    @property
    def in_thread(self) -> bool:
        """Whether the agent's turn runs in a thread, which cannot be ended."""
        return not inspect.iscoroutinefunction(self._conversation.send)

    @contextlib.asynccontextmanager
    async def _limits(self) -> AsyncIterator[None]:
        """Return a context for a turn.

        Raise DeadlineReached at the time limit of the run, TurnCut at that of the turn.
        """
        run_timeout = turn_timeout = None
        try:
            async with (
                self._journal.turn_deadline() as run_timeout,
                self._journal.deadline(self._longest) as turn_timeout,
            ):
                yield
        # A conversation may report its cancellation as its own failure.
        except (TimeoutError, AgentError) as error:
            if run_timeout is not None and run_timeout.expired():
                limit = span(self._state.plan.timeout or 0.0)
                raise DeadlineReached(f"the time limit of {limit}") from error
            if turn_timeout is not None and turn_timeout.expired():
                limit = span(self._longest or 0.0)
                raise TurnCut(f"the turn's time limit of {limit}") from error
            raise

    async def resume(self, notice: str, unfinished: Unfinished) -> RoundReply:
        """Continue an interrupted turn of a Resumable conversation.

        Raise as `send` does.
        """
        self._start = self._turn_start()
        conversation = cast(Resumable, self._conversation)
        async with self._limits():
            with self._errors("resume_turn"):
                return await conversation.resume_turn(
                    notice, unfinished, self._recorder
                )

    async def _answer_to(self, prompt: str) -> Any:
        """Return the answer of `send`, which may take the prompt alone."""
        send: Any = self._conversation.send
        takes_recorder = accepts(send, 2)
        with self._errors("send"):
            if inspect.iscoroutinefunction(send):
                if takes_recorder:
                    return await send(prompt, self._recorder)
                return await send(prompt)
            # A plain function would block the event loop, and with it all limits.
            bridge = _Bridge(self._recorder)
            arguments = (prompt, bridge) if takes_recorder else (prompt,)
            try:
                value = await self._parts.in_thread(send, *arguments)
                return await value if inspect.isawaitable(value) else value
            finally:
                bridge.is_over = True

    @contextlib.contextmanager
    def _errors(self, method: str) -> Iterator[None]:
        """Raise an error of a caller's own conversation as AgentError.

        It ends the run as failed, unless it is an outage of the agent's provider.
        """
        try:
            yield
        except GoalError:
            raise
        except Exception as error:
            # An error of our own code is a defect, and is reported as one.
            if type(self._conversation).__module__.startswith("goalrunner."):
                raise
            place = store_traceback(self._parts.store_traceback, self._parts.redact)
            outage = outage_of_error(error, datetime.now(UTC))
            message = f"{self._name}.{method} raised {place}"
            raise AgentError(message, outage=outage) from error

    def _messages(self) -> Sequence[Message] | None:
        """Return the chat of the conversation; None if it cannot be read."""
        messages = self._conversation.messages
        try:
            refuse_no_chat(messages)
        except UsageError:
            return None
        return messages


def _reply_of(value: object, name: str) -> RoundReply:
    """Return the answer of `send` as a reply. Raise AgentError for an unusable one.

    The answer is a RoundReply, a text, a list of content blocks, or a message.
    """
    if isinstance(value, RoundReply):
        return value
    content = value.get("content") if isinstance(value, Mapping) else value
    if isinstance(content, str):
        return RoundReply(content)
    blocks = blocks_of(content) if isinstance(content, list | tuple) else ()
    if blocks and all(block.kind != "unknown" for block in blocks):
        return RoundReply(text_of(content))
    raise AgentError(
        f"{name}.send returned {kind_of(value)}, not the answer of the agent",
        SEND_SIGNATURE,
    )


class _Bridge:
    """The recorder for a `send` in a thread: each call waits for the event loop.

    A call is refused once `is_over`: a thread goes on after its turn was ended. The
    calls run in the loop, because the journal is not safe for threads.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._loop = asyncio.get_running_loop()
        self.is_over = False

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._recorder, name)
        if not callable(value):
            return value

        async def work(*arguments: Any, **named: Any) -> Any:
            if self.is_over:
                raise AgentError("the turn is over; nothing more is recorded")
            result = value(*arguments, **named)
            return await result if inspect.isawaitable(result) else result

        def call(*arguments: Any, **named: Any) -> Any:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return asyncio.run_coroutine_threadsafe(
                    work(*arguments, **named), self._loop
                ).result()
            # A coroutine that `send` returned runs in the loop.
            return value(*arguments, **named)

        return call
