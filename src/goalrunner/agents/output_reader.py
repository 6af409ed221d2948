"""Reading the output of an agent while it grows: as lines, as JSON objects, or as one text."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

from goalrunner.agents.external_agents import parser_class
from goalrunner.agents.parser import LONGEST_NOISE, AgentParser, StreamEvent, TextDelta, clean, object_in
from goalrunner.core.agent_preset import TEXT
from goalrunner.core.errors import AgentError, UsageError

LONGEST_LINE = 1 << 26
"""Bytes."""
_PIECE = 1 << 20
_INTERVAL = 0.05
"""Seconds between two looks at a growing file."""


class Lines:
    """Splits pieces of bytes into lines, of at most `longest` bytes. Invalid UTF-8 becomes U+FFFD."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.longest = longest
        self._held = bytearray()
        self._dropped = False

    def feed(self, piece: bytes) -> Iterator[str | None]:
        """Yield the lines that are complete now, without their newlines; None for one that is too long."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._hold(piece[start:end])
            start = end + 1
            yield self._take()
        self._hold(piece[start:])

    def end(self) -> Iterator[str | None]:
        """Yield the last line if it has no newline."""
        if self._held or self._dropped:
            yield self._take()

    def objects(self, piece: bytes) -> list[dict[str, Any]]:
        """Return the JSON objects among the lines that are complete now."""
        # No name is bound to a line: a long one is freed as soon as it is read.
        return [value for value in map(object_in, self.feed(piece)) if value is not None]

    def _hold(self, part: bytes) -> None:
        if self._dropped or len(self._held) + len(part) > self.longest:
            self._held, self._dropped = bytearray(), True
        else:
            self._held += part

    def _take(self) -> str | None:
        line = None if self._dropped else self._held.decode("utf-8", "replace")
        self._held, self._dropped = bytearray(), False
        return line


class TextReader:
    """Reads output that is the answer as a whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes, *, final: bool = False) -> Iterator[StreamEvent]:
        """Yield the events of a piece of output."""
        if text := self._decoder.decode(piece, final):
            yield TextDelta(text)

    def end(self) -> Iterator[StreamEvent]:
        """Yield the event of an incomplete character."""
        return self.feed(b"", final=True)


class JsonReader:
    """Reads output of one JSON object per line with a parser."""

    def __init__(self, parser: AgentParser) -> None:
        self._parser = parser
        self._lines = Lines()

    def feed(self, piece: bytes) -> Iterator[StreamEvent]:
        """Yield the events of each complete line."""
        return self._read(self._lines.feed(piece))

    def end(self) -> Iterator[StreamEvent]:
        """Yield the events of a last line without a newline."""
        return self._read(self._lines.end())

    def _read(self, lines: Iterator[str | None]) -> Iterator[StreamEvent]:
        # No name is bound to a line, and none to its value when the next line is read: either may have 64 MB.
        for value in map(self._value, lines):
            try:
                if isinstance(value, dict):
                    yield from self._parser.events(value)
                elif value:
                    yield self._parser.other(value)
            except Exception as error:
                name = type(self._parser).__qualname__
                raise AgentError(f"the parser {name} failed: {error!r}", "report it to its author") from error
            del value

    def _value(self, line: str | None) -> dict[str, Any] | str:
        if line is None:
            return f"[a line of more than {self._lines.longest // 1_000_000} MB was left out]"
        line = line.strip("\ufeff\0 \t\r\n")
        value = object_in(line)
        return clean(line[:LONGEST_NOISE]) if value is None else value


def reader_for(stream: str) -> TextReader | JsonReader:
    """Return the reader for the output format of a preset. Raise UsageError if no agent of that name is installed."""
    if stream == TEXT:
        return TextReader()
    try:
        return JsonReader(parser_class(stream)())
    except KeyError:
        hint = "install the package that registers it, or change stream in the agent's preset"
        raise UsageError(f'no parser "{stream}" is installed for the output of the agent', hint) from None


async def growing_file(path: Path, finished: asyncio.Future[Any]) -> AsyncGenerator[bytes, None]:
    """Yield what is written to the file, piece by piece, until `finished` is done and all of it is read.

    Yield nothing if the file is never created.
    """
    file = None
    try:
        while True:
            last = finished.done()
            if file is None and path.exists():
                file = path.open("rb")
            while file is not None and (piece := file.read(_PIECE)):
                yield piece
                await asyncio.sleep(0)  # let other tasks run
            if last:
                return
            await asyncio.wait((finished,), timeout=_INTERVAL)
    finally:
        if file is not None:
            file.close()
