"""One turn of a conversation: its answer, and a record of its messages if it keeps none; exclusive use of a conversation."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from goalrunner.core.agent_ports import (
    Conversation,
    Message,
    Recorder,
    Resumable,
    RoundReply,
    ToolResult,
    Unfinished,
)
from goalrunner.core.chat_trail import trail_of
from goalrunner.core.errors import (
    AgentError,
    ConversationBusy,
    DeadlineReached,
    GoalError,
    TurnCut,
    UsageError,
    kind_of,
    span,
)
from goalrunner.core.events import Account
from goalrunner.core.messages import blocks_of, refuse_no_chat, text_of
from goalrunner.core.observation import Observation, Trail, UserText, source_of
from goalrunner.core.outcome import Usage
from goalrunner.core.run_state import RunState
from goalrunner.core.user_messages import persons_text
from goalrunner.engine.journal import Parts, RunJournal, kept_traceback
from goalrunner.engine.recorder import RunRecorder

WANTED = "write: async def send(self, prompt, recorder), which returns a RoundReply, or the text of the answer"


class ReportedChat:
    """The chat of an agent that does not record what it does. If it does not begin with the previous chat, all of it is new."""

    def __init__(self, reporter: str, redact: Callable[[str], str] = str) -> None:
        """Start without a known chat. `reporter` reports the tool results; `redact` replaces secrets as in the records."""
        self._reporter = reporter
        self._redact = redact
        self._known: list[tuple[str, str, str, str]] = []
        self._prompts: list[str] = []
        self._heard: set[str] = set()

    def sent(self, *prompts: str) -> None:
        """Note prompts of the runner, which are not what a person wrote."""
        self._prompts += map(self._redact, prompts)

    def hear(self, said: Sequence[UserText], recorder: Recorder) -> None:
        """Record what a person wrote, once."""
        for text in (
            persons_text(self._redact(one.text), self._prompts) for one in said
        ):
            if text and text not in self._heard:
                recorder.user_said(text)
                self._heard.add(text)

    def recall(self, trail: Trail) -> None:
        """Take a chat, or what an earlier process recorded of it, as known."""
        self._heard.update(self._redact(one.text) for one in trail.said)
        self._known = []
        for item in trail.items:
            source, command = (
                (item.source, item.command)
                if isinstance(item, Observation)
                else ("", "")
            )
            known = (
                item.kind,
                source_of(source),
                self._redact(command),
                self._redact(trail.read(item)),
            )
            self._known.append(known)

    async def record(self, messages: Sequence[Message], recorder: Recorder) -> str:
        """Record what is new: tool results as reported observations, texts as claims, and what a person wrote.

        Return the last new text of the agent.
        """
        trail, known, response = trail_of(messages), self._known, ""
        self.hear(trail.said, recorder)
        self.recall(trail)
        for item in trail.items[
            len(known) if self._known[: len(known)] == known else 0 :
        ]:
            text = trail.read(item)
            if isinstance(item, Observation):
                result = ToolResult(
                    tool_call_id=item.id,
                    tool=item.source,
                    command=item.command,
                    facts=item.facts,
                    output=text.encode("utf-8", errors="replace"),
                    reported_by=self._reporter,
                    started=item.started,
                    ended=item.started,
                )
                await recorder.tool_result(result)
            else:
                recorder.message({"role": "assistant", "content": text})
                response = text
        return response


def accepts(function: Callable[..., Any], count: int) -> bool:
    """Return whether a function can be called with `count` positional arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except ValueError:  # a builtin
        return True
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class _Before:
    """What was known before a turn. `prompt` is empty, and `chat` None, if an earlier process had begun the turn."""

    prompt: str = ""
    chat: list[Mapping[str, Any]] | None = None
    observations: int = 0
    spent: Usage | None = None


class Turns:
    """The turns of one conversation. A `send` that is not async runs in a thread, so that limits can interrupt it.

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
        self._before = _Before()
        self._name = type(parts.conversation).__name__
        self._chat = ReportedChat(
            str(getattr(parts.conversation, "name", None) or self._name)
        )
        self.hears_history = True  # whether the chat before the first turn may contain what a person wrote

    async def send(self, prompt: str) -> RoundReply:
        """Let the agent work on a user message.

        Raise GoalError; AgentError for another error and an unusable answer; TurnCut if the turn is ended before it is
        over. Call `interrupted` then.
        """
        chat, recorder = self._messages(), self._recorder
        before = list(chat) if chat is not None else None
        self._chat.sent(prompt)
        if before and self.hears_history and self._state.round == 1:
            self._chat.hear(trail_of(before).said, recorder)
        self.hears_history = False
        self._before = _Before(
            prompt, before, self._state.observations, self._state.usage.get("agent")
        )
        async with self._limits():
            value = await self._sent(prompt)
        reply = _reply_of(value, self._name)
        await self._record_unrecorded(reply)
        # A failure may end the run; a resumed run estimates what the turn used.
        if reply.failure is None:
            self.count_unreported()
        return reply

    async def interrupted(
        self, ending: str, used: Mapping[Account, Usage]
    ) -> RoundReply:
        """Record what a turn that was cut has left open. `used` is what its last call may have used, by account."""
        await self._recorder.interrupt_calls()
        reply = RoundReply(self._last_text(), "interrupted", ending=ending)
        await self._record_unrecorded(reply)
        for account, usage in used.items():
            self._recorder.usage(account, usage)
        self.count_unreported()
        return reply

    def count_unreported(self) -> None:
        """Record that the usage of the last turn is unknown if none was reported: a budget must not count it as 0."""
        if self._state.usage.get("agent") == self._before.spent:
            self._recorder.usage("agent", Usage.unknown())

    async def _record_unrecorded(self, reply: RoundReply) -> None:
        """Record the prompt and what followed, if the conversation recorded no message."""
        prompt, before, recorder = (
            self._before.prompt,
            self._before.chat,
            self._recorder,
        )
        if self._state.prompted or not prompt:
            return
        recorder.message({"role": "user", "content": prompt})
        # Tool results that the conversation recorded itself may be in its messages as well.
        messages = (
            self._messages()
            if self._state.observations == self._before.observations
            else None
        )
        if before is not None:
            self._chat.recall(trail_of(before))
        last = (
            await self._chat.record(messages, recorder) if messages is not None else ""
        )
        if reply.text and reply.text != last:
            recorder.message({"role": "assistant", "content": reply.text})

    def _last_text(self) -> str:
        """Return the last text of the agent since the newest prompt; empty if there is none."""
        for message in reversed(self._messages() or ()):
            if message.get("role") == "user":
                break
            if message.get("role") == "assistant" and (
                text := text_of(message.get("content"))
            ):
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
        """Return a context for a turn. Raise DeadlineReached at the time limit of the run, TurnCut at that of the turn."""
        run = turn = None
        try:
            async with (
                self._journal.turn_deadline() as run,
                self._journal.deadline(self._longest) as turn,
            ):
                yield
        except (
            TimeoutError,
            AgentError,
        ) as error:  # a conversation may report its cancellation as its own failure
            if run is not None and run.expired():
                raise DeadlineReached(
                    f"the time limit of {span(self._state.plan.timeout or 0.0)}"
                ) from error
            if turn is not None and turn.expired():
                raise TurnCut(
                    f"the turn's time limit of {span(self._longest or 0.0)}"
                ) from error
            raise

    async def resume(self, notice: str, unfinished: Unfinished) -> RoundReply:
        """Continue an interrupted turn of a Resumable conversation. Raise as `send` does."""
        self._before = _Before(
            observations=self._state.observations, spent=self._state.usage.get("agent")
        )
        async with self._limits():
            with self._errors("resume_turn"):
                return await cast(Resumable, self._conversation).resume_turn(
                    notice, unfinished, self._recorder
                )

    async def _sent(self, prompt: str) -> Any:
        send: Any = self._conversation.send
        count = 2 if accepts(send, 2) else 1
        with self._errors("send"):
            if inspect.iscoroutinefunction(send):
                return await send(*(prompt, self._recorder)[:count])
            bridge = _Bridge(self._recorder)
            try:
                value = await self._parts.in_thread(send, *(prompt, bridge)[:count])
                return await value if inspect.isawaitable(value) else value
            finally:
                bridge.over = True

    @contextlib.contextmanager
    def _errors(self, method: str) -> Iterator[None]:
        """Raise an error of a conversation of the caller's own as AgentError, which ends the run as failed."""
        try:
            yield
        except GoalError:
            raise
        except Exception as error:
            if type(self._conversation).__module__.startswith("goalrunner."):
                raise
            where = kept_traceback(self._recorder.scratch, self._parts.redact)
            raise AgentError(f"{self._name}.{method} raised {where}") from error

    def _messages(self) -> Sequence[Mapping[str, Any]] | None:
        """Return the chat of the conversation; None if it cannot be read."""
        messages = self._conversation.messages
        try:
            refuse_no_chat(messages)
        except UsageError:
            return None
        return messages


def _reply_of(value: object, name: str) -> RoundReply:
    """Return the answer of `send`: a RoundReply, a text, a list of content blocks, or a message. Raise AgentError."""
    if isinstance(value, RoundReply):
        return value
    content = value.get("content") if isinstance(value, Mapping) else value
    if isinstance(content, str):
        return RoundReply(content)
    blocks = blocks_of(content) if isinstance(content, list | tuple) else ()
    if blocks and all(block.kind != "unknown" for block in blocks):
        return RoundReply(text_of(content))
    raise AgentError(
        f"{name}.send returned {kind_of(value)}, not the answer of the agent", WANTED
    )


class _Bridge:
    """The recorder for a `send` in a thread: each call waits for the event loop. It is refused once the turn is `over`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._loop = asyncio.get_running_loop()
        self.over = False

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._recorder, name)
        if not callable(value):
            return value

        async def work(*arguments: Any, **named: Any) -> Any:
            if self.over:
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
            return value(
                *arguments, **named
            )  # a coroutine that `send` returned runs in the loop

        return call


_driven: set[int] = set()


def refuse_driven(conversation: Conversation) -> None:
    """Raise ConversationBusy if another run uses this conversation."""
    if id(conversation) in _driven:
        raise ConversationBusy(
            "this conversation is already used by another run",
            "wait for the other run to end, or give this run its own conversation",
        )


@contextlib.contextmanager
def exclusive(conversation: Conversation) -> Iterator[None]:
    """Use a conversation exclusively. Raise ConversationBusy if another run uses it."""
    refuse_driven(conversation)
    _driven.add(id(conversation))
    try:
        yield
    finally:
        _driven.discard(id(conversation))


ONLY_CHECKS = (
    "only the checks were wanted"  # the error of a run that would let the agent work
)


class NoAgent:
    """A conversation whose agent never gets a prompt: only its checks run, or the calling program drives it."""

    def __init__(self, name: str = "none", *, live: bool = False) -> None:
        self.name, self.live = name, live
        self.messages: Sequence[Message] = ()

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        raise GoalError(ONLY_CHECKS)

    def checkpoint(self) -> object:
        """Return nothing."""

    def restore(self, checkpoint: object) -> None:
        """Do nothing."""
