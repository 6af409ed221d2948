"""Readers of what agents print for programs, by the parsers that read it in runs.

`claude --output-format stream-json`, `codex exec --json` and the like. An agent that
another package registers has a reader as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalrunner.agents.external_agents import parser_class, registered_names
from goalrunner.agents.parser import (
    AgentParser,
    CallFinished,
    CallStarted,
    Failed,
    Prompted,
    StreamEvent,
    Text,
    TextDelta,
    TurnEnded,
)
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource

_PARTS_OF_TURN = (Prompted, Text, TextDelta, CallStarted, CallFinished)

SUFFIX = "-stream"
"""The end of the name of such a format, after the name of the agent."""


def registered_stream_readers() -> Iterator[tuple[str, StreamReader]]:
    """Yield the names and the readers of registered agents.

    Raise UsageError if one cannot be imported.
    """
    for agent in registered_names():
        yield f"{agent}{SUFFIX}", StreamReader(agent)


class StreamReader(RowReader):
    """Reads the output of one agent."""

    def __init__(self, agent: str) -> None:
        self.reporter = agent
        super().__init__()
        self.DESCRIPTION = f"output of {agent} for programs (JSON Lines or an array)"
        parser = parser_class(agent)
        self._prints = parser.prints
        self._reports_end = parser.reports_end
        self._is_open = False
        """Whether a turn has begun whose end was not reported."""
        self._parser: AgentParser = parser()
        self._pieces = ""
        """The pieces of a message whose end has not come yet."""

    def is_typical(self, row: dict[str, Any]) -> bool:
        return self._prints(row)

    def is_valid(self, row: Any) -> bool:
        return isinstance(row, dict) and self._prints(row)

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        yield from super().rows(source)
        if self._is_open and self._reports_end:
            source.add_gap("the output ends before the end of a turn")

    def add(self, row: Any) -> None:
        for event in self._parser.events(row):
            if isinstance(event, TurnEnded | Failed):
                self._is_open = False
            elif isinstance(event, _PARTS_OF_TURN):
                self._is_open = True
            self._add_event(event)

    def end(self) -> None:
        self.trail.claimed(self._pieces)

    def _add_event(self, event: StreamEvent) -> None:
        if isinstance(event, TextDelta):
            self._pieces += event.text
            return
        # A message that is printed whole after its pieces replaces them.
        pieces, self._pieces = self._pieces, ""
        if not isinstance(event, Text):
            self.trail.claimed(pieces)
        match event:
            case Prompted(text=text):
                self.trail.user(text)
            case Text(text=text, by_subagent=by_subagent):
                self.trail.claimed(text, summary=by_subagent)
            case CallStarted():
                self._add_call(event)
            case CallFinished():
                self._add_result(event)
            case _:
                pass

    def _add_call(self, event: CallStarted | CallFinished) -> None:
        arguments = event.arguments
        if not isinstance(arguments, dict):
            arguments = event.command
        self.trail.called(event.id, event.tool, arguments, summary=event.by_subagent)

    def _add_result(self, event: CallFinished) -> None:
        is_announced = self.trail.tool(event.id)
        has_call = bool(event.tool or event.command)
        # Some programs print a call only when it has ended.
        if has_call and not is_announced:
            self._add_call(event)
        self.trail.result(event.id, event.output, event.facts, tool=event.tool)


class ClaudeStream(StreamReader):
    """`claude -p --output-format stream-json` or `json`, also of claude-code-action."""

    def __init__(self) -> None:
        super().__init__("claude")


class CodexStream(StreamReader):
    """`codex exec --json`."""

    def __init__(self) -> None:
        super().__init__("codex")


class GeminiStream(StreamReader):
    """`gemini -o stream-json` or `json`, which has only the answer of the turn."""

    def __init__(self) -> None:
        super().__init__("gemini")


class OpenCodeStream(StreamReader):
    """`opencode run --format json`."""

    def __init__(self) -> None:
        super().__init__("opencode")


class QwenStream(StreamReader):
    """`qwen -o stream-json`."""

    def __init__(self) -> None:
        super().__init__("qwen")

    def is_typical(self, row: dict[str, Any]) -> bool:
        # The other lines have the form of Claude Code.
        return "qwen_code_version" in row
