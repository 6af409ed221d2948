"""One turn of an external agent, recorded while it happens."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from goalrunner.agents.parser import (
    CallFinished,
    CallStarted,
    Failed,
    Noise,
    SessionStarted,
    StreamEvent,
    Text,
    TextDelta,
    UsageReported,
)
from goalrunner.agents.usage import UsageTracker
from goalrunner.core.agent_ports import Recorder, ToolResult
from goalrunner.core.observation import source_of
from goalrunner.core.outcome import AgentSession

LONGEST_MESSAGE = 400_000
"""Characters of one message that are kept."""
LONGEST_CALL_ID, LONGEST_COMMAND = 200, 4_000
"""Characters of a call's id and of its command that are recorded."""
_MOST_OPEN = 1_000
_LONGEST_NOISE = 4_000


class GrowingText:
    """A text that arrives in pieces, of which the first third and the last two thirds of `limit` characters are kept."""

    def __init__(self, limit: int = LONGEST_MESSAGE) -> None:
        self._head_room, self._tail_room = limit // 3, limit - limit // 3
        self._pieces: list[str] = []
        self._length = self._omitted = 0

    def add(self, piece: str) -> None:
        """Append a piece."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > 2 * (self._head_room + self._tail_room):
            self._pieces = [*self._ends()]
            self._length = self._head_room + self._tail_room

    def take(self) -> str:
        """Return what is kept, and begin anew."""
        head, tail = self._ends()
        mark = f"\n[... {self._omitted:,} characters left out ...]\n" if self._omitted else ""
        self._pieces, self._length, self._omitted = [], 0, 0
        return head + mark + tail

    def _ends(self) -> tuple[str, str]:
        text = "".join(self._pieces)
        omitted = max(0, len(text) - self._head_room - self._tail_room)
        self._omitted += omitted
        return text[: self._head_room], text[self._head_room + omitted :]


def shortened(text: str, limit: int) -> str:
    """Return the text, or the first third and the last two thirds of `limit` characters."""
    growing = GrowingText(limit)
    growing.add(text)
    return growing.take()


def reported_result(
    agent: str, call_id: str, tool: str, command: str, facts: tuple[str, ...], output: str = "", duration: float = 0.0
) -> ToolResult:
    """Return the result of a call that an agent reports."""
    return ToolResult(
        tool_call_id=call_id,
        tool=tool,
        command=shortened(command, LONGEST_COMMAND),
        facts=facts,
        output=output.encode("utf-8", "replace"),
        duration=duration,
        summary=", ".join(facts),
        writes=False,
        reported_by=agent,
    )


@dataclass
class _Open:
    """A call that has no result yet."""

    tool: str
    command: str
    began: float


class Turn:
    """Records the messages and tool calls of one turn, and adds its messages to `messages`."""

    def __init__(self, agent: str, recorder: Recorder, messages: list[dict[str, Any]]) -> None:
        self.text = ""
        """The last message; empty if there is none."""
        self.calls = 0
        self.recorder = recorder
        self._agent = agent
        self._messages = messages
        self._pieces = GrowingText()
        self._open: dict[str, _Open] = {}

    def say(self, piece: str) -> None:
        """Show a piece of a message."""
        self.recorder.text(piece)
        self._pieces.add(piece)

    def flush(self) -> str:
        """Add the pieces as a message; return it, or an empty text."""
        text = self._pieces.take()
        self.add_message(text)
        return text if text.strip() else ""

    def add_message(self, text: str) -> None:
        """Add a message, unless it is empty."""
        if text.strip():
            message = {"role": "assistant", "content": text}
            self._messages.append(message)
            self.recorder.message(message)
            self.text = text

    async def start(self, name: str, tool: str, command: str, shown: str = "") -> None:
        """Record the begin of a call. `shown` is its line for people, by default the command."""
        if len(self._open) >= _MOST_OPEN:
            await self.finish(next(iter(self._open)), ("interrupted",))
        self.calls += 1
        call = self._open[name] = _Open(source_of(tool), shortened(command, LONGEST_COMMAND), time.monotonic())
        self.recorder.tool_called(name, call.tool, shown or call.command)

    async def finish(
        self, name: str, facts: tuple[str, ...], output: str = "", *, tool: str = "", command: str = ""
    ) -> None:
        """Record the end of a call; `tool` and `command` replace what was known of it."""
        call = self._open.pop(name, None)
        if call is not None:
            duration = time.monotonic() - call.began
            tool, command = source_of(tool) if tool else call.tool, command or call.command
            await self.recorder.tool_result(reported_result(self._agent, name, tool, command, facts, output, duration))


class CommandTurn(Turn):
    """Records the events of one turn of a command agent."""

    def __init__(
        self, agent: str, recorder: Recorder, messages: list[dict[str, Any]], session: AgentSession | None = None
    ) -> None:
        super().__init__(agent, recorder, messages)
        self.failure: str | None = None
        """A failure that the agent has reported, if no work followed."""
        self.usage = UsageTracker(agent, recorder, session)
        self._noise = GrowingText(_LONGEST_NOISE)
        self._flushed = ""
        """The last message that was made of pieces; the whole message that follows is the same."""

    @property
    def worked(self) -> bool:
        """Whether it has said or done anything."""
        return bool(self.text or self.calls or self.usage.tokens)

    async def add(self, event: StreamEvent) -> None:
        """Record one event."""
        if isinstance(event, CallStarted | CallFinished | Failed):
            self._end_message()
        match event:
            case SessionStarted(id=name):
                self.usage.name_session(name)
            case TextDelta(text=text):
                self.say(text)
            case Text(text=text):
                self._add_text(shortened(text, LONGEST_MESSAGE))
            case CallStarted():
                await self._start(event)
            case CallFinished():
                await self._finish(event)
            case UsageReported():
                self.usage.add(event)
            case Failed(message=message):
                self.failure = shortened(message, _LONGEST_NOISE)
            case Noise(text=text):
                self._noise.add(text + "\n")

    async def end(self) -> None:
        """Close what is open as interrupted."""
        self._end_message()
        self.usage.write()
        for name in tuple(self._open):
            await self.finish(name, ("interrupted",))

    def settle(self) -> None:
        """Record the usage of a turn that is an answer: what it did not report is unknown.

        The usage of a turn that failed or was cut is estimated when the run is resumed.
        """
        self.usage.end(worked=bool(self.text or self.calls))

    def take_noise(self) -> str:
        """Return the output that was not understood, truncated, once."""
        return self._noise.take()

    def add_message(self, text: str) -> None:
        if text.strip():
            self.failure = None
        super().add_message(text)

    def _end_message(self) -> None:
        self._flushed = self.flush() or self._flushed

    def _add_text(self, text: str) -> None:
        streamed = self._pieces.take()
        if text != self._flushed:
            if not streamed.strip():
                self.recorder.text(text)
            self.add_message(text)
        self._flushed = ""

    async def _start(self, event: CallStarted) -> None:
        name = event.id[:LONGEST_CALL_ID] or f"call-{self.calls + 1}"
        known = self._open.get(name)
        if known is None:
            self.usage.write()
            await self.start(name, event.tool, event.command)
        else:
            known.command = known.command or shortened(event.command, LONGEST_COMMAND)

    async def _finish(self, event: CallFinished) -> None:
        # Without an id, it is the result of the newest call without one.
        nameless = [known for known in self._open if known.startswith("call-")]
        name = event.id[:LONGEST_CALL_ID] or (nameless[-1] if nameless else f"call-{self.calls + 1}")
        self.usage.write()
        if name not in self._open:
            if not (event.tool or event.command):
                return  # a second result, or one of a call that was not reported
            await self.start(name, event.tool, event.command)
        facts: tuple[str, ...] = () if event.exit_code is None else (f"exit {event.exit_code}",)
        if event.failed and not event.exit_code:
            facts = ("error",)
        await self.finish(name, facts, event.output, tool=event.tool, command=event.command)
        self.failure = None
