"""What the output of an agent can report, and reading output as it grows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class SessionNamed:
    """It keeps a memory of this conversation under that id."""

    id: str


@dataclass(frozen=True)
class Said:
    """A whole message."""

    text: str


@dataclass(frozen=True)
class Piece:
    """A piece of a message, as it streams. Pieces that no whole message follows are one themselves."""

    text: str


@dataclass(frozen=True)
class Called:
    """A tool call begins. The same id again says more of the same call."""

    id: str
    tool: str = ""
    command: str = ""


@dataclass(frozen=True)
class Returned:
    """A tool call is over. `exit_code` is None where the agent reports none."""

    id: str
    output: str = ""
    exit_code: int | None = None
    failed: bool = False
    tool: str = ""
    command: str = ""


@dataclass(frozen=True)
class Reported:
    """What it says that it used. `cost` is None where that is unknown; `cumulative`: totals of the whole session."""

    input: int = 0
    output: int = 0
    cost: float | None = None
    cumulative: bool = False
    tokens: bool = True
    """Whether it tells of tokens at all."""
    dollars: bool = True
    """Whether it is to tell the dollars; False: another line does."""


@dataclass(frozen=True)
class Broke:
    """It says itself that something failed. `ends`: whatever it would still try is not worth waiting for."""

    message: str
    ends: bool = False


@dataclass(frozen=True)
class Noise:
    """Output that is none of these: a banner, a log line, a broken line."""

    text: str


Happening = SessionNamed | Said | Piece | Called | Returned | Reported | Broke | Noise


MESSAGE = 400_000
"""Characters of one message that are kept."""


def shortened(text: str, limit: int) -> str:
    """The text, or its two ends with the omission marked; `limit` in characters, the mark not counted."""
    if len(text) <= limit:
        return text
    head = limit // 3
    tail = limit - head
    return f"{text[:head]}{_mark(len(text) - limit)}{text[-tail:]}"


class Growing:
    """A text that comes in pieces. Keeps a third of `limit` characters of its beginning, and the rest of its end."""

    def __init__(self, limit: int = MESSAGE) -> None:
        self._head_room = limit // 3
        self._tail_room = limit - limit // 3
        self._head = ""
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._omitted = 0

    def add(self, piece: str) -> None:
        """More of it."""
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail.append(piece)
            self._tail_length += len(piece)
        while self._tail_length > self._tail_room:
            self._drop(self._tail_length - self._tail_room)

    def take(self) -> str:
        """All of it that is kept; afterwards there is nothing."""
        mark = _mark(self._omitted) if self._omitted else ""
        text = self._head + mark + "".join(self._tail)
        self._head, self._tail_length, self._omitted = "", 0, 0
        self._tail.clear()
        return text

    def _drop(self, number: int) -> None:
        oldest = self._tail.popleft()
        if len(oldest) > number:
            self._tail.appendleft(oldest[number:])
        dropped = min(number, len(oldest))
        self._tail_length -= dropped
        self._omitted += dropped


def _mark(number: int) -> str:
    return f"\n[... {number:,} characters left out ...]\n"


LONGEST_LINE = 1 << 26
"""Bytes."""


class Lines:
    """Holds the beginning of the line that is not over yet, and no more than `longest` bytes of it.

    A line is given as text, of which bytes that are no UTF-8 are U+FFFD: nothing else of it is held then.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.longest = longest
        self._held = bytearray()
        self._dropped = False

    def feed(self, piece: bytes) -> Iterator[str | None]:
        """The lines that are whole now, without their newlines; None for one that was too long."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._hold(piece[start:end])
            start = end + 1
            yield self._take()
        self._hold(piece[start:])

    def end(self) -> Iterator[str | None]:
        """The rest, where there is one."""
        if self._held or self._dropped:
            yield self._take()

    def _hold(self, part: bytes) -> None:
        if self._dropped or not part:
            return
        if len(self._held) + len(part) > self.longest:
            self._held = bytearray()
            self._dropped = True
        else:
            self._held += part

    def _take(self) -> str | None:
        line = None if self._dropped else self._held.decode("utf-8", "replace")
        self._held, self._dropped = bytearray(), False
        return line


_PIECE = 1 << 20
_LOOK = 0.05
"""Seconds between two looks."""


async def grown(path: Path, over: asyncio.Future[Any]) -> AsyncGenerator[bytes, None]:
    """What is written into the file, piece by piece, until `over` is done and all of it is read.

    A file that never comes gives nothing. Memory is bounded by one piece.
    """
    file = None
    try:
        while True:
            last = over.done()
            if file is None and path.exists():
                file = path.open("rb")
            while file is not None and (piece := file.read(_PIECE)):
                yield piece
                await asyncio.sleep(0)  # a flood holds nobody else up
            if last:
                return
            await asyncio.wait((over,), timeout=_LOOK)
    finally:
        if file is not None:
            file.close()
