"""One turn of a command agent, recorded while it happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from goalrunner.agents.stream_events import (
    MESSAGE,
    Broke,
    Called,
    Growing,
    Happening,
    Noise,
    Piece,
    Reported,
    Returned,
    Said,
    SessionNamed,
    shortened,
)
from goalrunner.agents.usage import Ledger
from goalrunner.core.agent_ports import Recorder, ToolResult, Unfinished
from goalrunner.core.errors import RecordError
from goalrunner.core.messages import text_of
from goalrunner.core.observation import source_of
from goalrunner.core.outcome import AgentSession
from goalrunner.core.ports import Message

_LARGE = 1_000_000
"""Characters of an output that are handed on in a file; also of one piece of it."""


def handed_on(output: str, recorder: Recorder) -> bytes | Path:
    """The output as a tool's result has it. Raises RecordError where its file cannot be written."""
    if len(output) <= _LARGE:
        return output.encode("utf-8", "replace")
    path = recorder.scratch(".reported")
    try:
        with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
            for start in range(0, len(output), _LARGE):
                file.write(output[start : start + _LARGE])
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME") from error
    return path


UNNAMED = "tool"
"""A tool whose name was not told."""

_LONGEST_ID, _LONGEST_COMMAND = 200, 4_000
_MOST_OPEN = 1_000
_NOISE = 4_000


@dataclass
class _Open:
    """A call that has no result yet."""

    tool: str
    command: str
    began: float


class Turn:
    """Takes happenings and records them. `messages` is the chat to which its texts are added."""

    def __init__(
        self,
        agent: str,
        recorder: Recorder,
        messages: list[dict[str, Any]],
        session: AgentSession | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.text = ""
        """Its last message."""
        self.spoke = False
        self.calls = 0
        """Tool calls that it reported."""
        self.broke: str | None = None
        """What failed, in its words, with no sign of work after it."""
        self._agent = agent
        self.ledger = Ledger(agent, recorder, session, clock)
        """Its session, and what it used."""
        self._recorder = recorder
        self._messages = messages
        self._clock = clock
        self._pieces = Growing()
        self._noise = Growing(_NOISE)
        self._flushed = ""
        self._open: dict[str, _Open] = {}

    async def add(self, happening: Happening) -> None:
        """Record one happening."""
        match happening:
            case SessionNamed(id=name):
                self.ledger.named(name)
            case Piece(text=text):
                self._recorder.text(text)
                self._pieces.add(text)
            case Said(text=text):
                self._said(text)
            case Called():
                self._flush()
                await self._called(happening)
            case Returned():
                self._flush()
                await self._returned(happening)
            case Reported():
                self.ledger.reported(happening)
            case Broke(message=message):
                self._flush()
                self.broke = shortened(message, _NOISE)
            case Noise(text=text):
                self._noise.add(text + "\n")

    async def end(self) -> None:
        """The turn is over, however: what is open is closed as interrupted."""
        self._flush()
        for name in tuple(self._open):
            await self._close(name, ("interrupted",), b"", "interrupted")
        self.ledger.write()

    def settle(self) -> None:
        """It is an answer, so what it did not tell of its usage is not known.

        Of a turn that was cut or failed that is not for this turn to write: whoever goes on with the run estimates it.
        """
        self.ledger.end(worked=self.spoke or bool(self.calls))

    def noise(self) -> str:
        """What it wrote that nothing knows how to read; its two ends. Gives it once."""
        return self._noise.take()

    def _said(self, text: str) -> None:
        text = shortened(text, MESSAGE)
        streamed = self._pieces.take()
        if not streamed.strip() and text != self._flushed:
            self._recorder.text(text)
        if text != self._flushed:
            self._message(text)
        self._flushed = ""

    def _flush(self) -> None:
        """Pieces that no whole message followed."""
        text = self._pieces.take()
        if text.strip():
            self._flushed = text
            self._message(text)

    def _message(self, text: str) -> None:
        if not text.strip():
            return
        message = {"role": "assistant", "content": text}
        self._messages.append(message)
        self._recorder.message(message)
        self.text, self.spoke, self.broke = text, True, None

    async def _called(self, call: Called) -> None:
        name = self._id(call.id)
        known = self._open.get(name)
        if known is not None and call.id:
            known.command = known.command or shortened(call.command, _LONGEST_COMMAND)
            return
        await self._begin(name, call.tool, call.command)

    async def _begin(self, name: str, tool: str, command: str) -> None:
        if len(self._open) >= _MOST_OPEN:
            await self._close(next(iter(self._open)), ("interrupted",), b"", "interrupted")
        self.calls += 1
        self.ledger.write()
        one = _Open(source_of(tool), shortened(command, _LONGEST_COMMAND), self._clock())
        self._open[name] = one
        self._recorder.tool_called(name, one.tool, one.command)

    async def _returned(self, result: Returned) -> None:
        name = self._id(result.id, of_result=True)
        if name not in self._open:
            if not (result.tool or result.command):
                return  # told before, or of a call that nobody reported
            await self._begin(name, result.tool, result.command)
        one = self._open[name]
        if result.tool and one.tool == UNNAMED:
            one.tool = source_of(result.tool)
        one.command = one.command or shortened(result.command, _LONGEST_COMMAND)
        facts: tuple[str, ...] = ()
        if result.exit_code is not None:
            facts = (f"exit {result.exit_code}",)
        if result.failed and not result.exit_code:
            facts = ("error",)
        await self._close(name, facts, handed_on(result.output, self._recorder), facts[0] if facts else "")
        self.broke = None

    async def _close(self, name: str, facts: tuple[str, ...], output: bytes | Path, summary: str) -> None:
        one = self._open.pop(name)
        self.ledger.write()
        await self._recorder.tool_result(
            ToolResult(
                tool_call_id=name,
                tool=one.tool,
                command=one.command,
                facts=facts,
                output=output,
                duration=max(0.0, self._clock() - one.began),
                summary=summary,
                writes=False,
                reported_by=self._agent,
            )
        )

    def _id(self, name: str, *, of_result: bool = False) -> str:
        """The agent's own id; one that it left out is that of the newest open call, or a new one."""
        if name:
            return name[:_LONGEST_ID]
        nameless = [known for known in self._open if known.startswith("call-")]
        return nameless[-1] if of_result and nameless else f"call-{self.calls + 1}"


@dataclass(frozen=True)
class Checkpoint:
    """What was said. An agent's own memory only grows, so no checkpoint holds it."""

    messages: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """The conversation as it is now."""
        return cls(tuple(dict(message) for message in messages))


def said_at(checkpoint: object) -> list[dict[str, Any]]:
    """The conversation as it was then. Raises TypeError for what is no checkpoint of an external agent's."""
    if not isinstance(checkpoint, Checkpoint):
        raise TypeError(f"not a checkpoint of an external agent: {type(checkpoint).__name__}")
    return [dict(message) for message in checkpoint.messages]


def said_in(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """What was told and answered, without what only a chat model knows."""
    texts = ((message.get("role"), text_of(message.get("content"))) for message in messages)
    return [{"role": role, "content": text} for role, text in texts if role in ("user", "assistant") and text]


def cut_call(name: str, left: Unfinished, agent: str, unnamed: str) -> ToolResult:
    """The end of a call that an earlier process saw begin: the agent's word at best, and nobody knows what it did.

    `unnamed` is the tool where it was not told.
    """
    tool, command = left.told.get(name, (unnamed, ""))
    return ToolResult(
        tool_call_id=name,
        tool=tool,
        command=command,
        facts=("interrupted",),
        output=b"",
        summary="interrupted",
        writes=False,
        reported_by=agent,
    )
