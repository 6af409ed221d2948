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
from goalrunner.core.errors import shortened
from goalrunner.core.observation import source_of
from goalrunner.core.outcome import AgentSession

LONGEST_MESSAGE = 400_000
"""Characters of one message that are kept."""
LONGEST_CALL_ID, LONGEST_COMMAND = 200, 4_000
"""Characters of a call's id and of its command that are recorded."""
_LONGEST_NOISE = 4_000


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
        self._streamed = ""
        self._open: dict[str, _Open] = {}

    def say(self, piece: str) -> None:
        """Show a piece of a message."""
        self.recorder.text(piece)
        self._streamed += piece
        if len(self._streamed) > 2 * LONGEST_MESSAGE:
            self._streamed = shortened(self._streamed, LONGEST_MESSAGE)

    def flush(self) -> None:
        """Add the pieces as a message."""
        text, self._streamed = self._streamed, ""
        self.add_message(text)

    def add_message(self, text: str) -> None:
        """Add a message, unless it is empty."""
        if text.strip():
            text = shortened(text, LONGEST_MESSAGE)
            message = {"role": "assistant", "content": text}
            self._messages.append(message)
            self.recorder.message(message)
            self.text = text

    async def start(self, name: str, tool: str, command: str, shown: str = "") -> None:
        """Record the begin of a call. `shown` is its line for people, by default the command."""
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
        self.noise = ""
        """The last lines that were not understood."""

    @property
    def worked(self) -> bool:
        """Whether it has said or done anything."""
        return bool(self.text or self.calls or self.usage.tokens)

    async def add(self, event: StreamEvent) -> None:
        """Record one event."""
        if isinstance(event, CallStarted | CallFinished | Failed):
            self.flush()
        match event:
            case SessionStarted(id=name):
                self.usage.name_session(name)
            case TextDelta(text=text):
                self.say(text)
            case Text(text=text):
                if not self._streamed:
                    self.recorder.text(text)
                self._streamed = ""  # the pieces of the same message
                self.add_message(text)
            case CallStarted():
                await self._start(event)
            case CallFinished():
                await self._finish(event)
            case UsageReported():
                self.usage.add(event)
            case Failed(message=message):
                self.failure = shortened(message, _LONGEST_NOISE)
            case Noise(text=text):
                self.noise = f"{self.noise}{text}\n"[-_LONGEST_NOISE:]

    async def end(self) -> None:
        """Close what is open as interrupted."""
        self.flush()
        self.usage.write()
        for name in tuple(self._open):
            await self.finish(name, ("interrupted",))

    def settle(self) -> None:
        """Record the usage of a turn that is an answer: what it did not report is unknown.

        The usage of a turn that failed or was cut is estimated when the run is resumed.
        """
        self.usage.end(worked=bool(self.text or self.calls))

    def add_message(self, text: str) -> None:
        if text.strip():
            self.failure = None
        super().add_message(text)

    async def _start(self, event: CallStarted) -> None:
        name = event.id[:LONGEST_CALL_ID] or f"call-{self.calls + 1}"
        known = self._open.get(name)
        if known is None:
            self.usage.write()
            await self.start(name, event.tool, event.command)
        else:
            known.command = known.command or shortened(event.command, LONGEST_COMMAND)

    async def _finish(self, event: CallFinished) -> None:
        # Without an id, it is the result of the newest call.
        name = event.id[:LONGEST_CALL_ID] or f"call-{self.calls}"
        self.usage.write()
        if name not in self._open:
            if not (event.tool or event.command):
                return  # a second result, or one of a call that was not reported
            name = event.id[:LONGEST_CALL_ID] or f"call-{self.calls + 1}"
            await self.start(name, event.tool, event.command)
        facts: tuple[str, ...] = () if event.exit_code is None else (f"exit {event.exit_code}",)
        if event.failed and not event.exit_code:
            facts = ("error",)
        await self.finish(name, facts, event.output, tool=event.tool, command=event.command)
        self.failure = None
