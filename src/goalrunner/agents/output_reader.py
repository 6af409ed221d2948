"""Reading the output of an agent's program while the program writes it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goalrunner.agents.external_agents import parser_class
from goalrunner.agents.json_lines import Lines, object_in
from goalrunner.agents.parser import (
    LONGEST_NOISE,
    Failed,
    SessionStarted,
    StreamEvent,
    TextDelta,
)
from goalrunner.agents.turn import Arrival
from goalrunner.core.agent_preset import TEXT
from goalrunner.core.errors import AgentError, UsageError
from goalrunner.core.messages import clean
from goalrunner.system.change_clock import change_time

# Bytes of one read: a fast program may write many megabytes between two reads.
_PIECE = 1 << 20
# Seconds between two reads of a growing file. Shorter than a person notices; the
# arrival of a report is known to the same precision.
_INTERVAL = 0.05
# Seconds in which a program exits after it has written out its buffer. Several lines
# are held back so long, unless more output or the end of the program comes before.
_EXIT_TIME = 0.5
# Some programs on Windows shells print a byte order mark, NULs or carriage returns.
_PADDING = "\ufeff\0 \t\r\n"


class Reader:
    """Reads output in the format of a preset.

    The format is plain text, all of which is the answer, or one JSON object per line.
    Raise UsageError if the parser of the format is not installed.
    """

    def __init__(self, stream: str) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines = Lines()
        self._parser = None
        if stream == TEXT:
            return
        try:
            self._parser = parser_class(stream)()
        except KeyError:
            raise UsageError(
                f'no parser "{stream}" is installed for the output of the agent',
                "install the package that registers it, "
                "or change stream in the agent's preset",
            ) from None

    def feed(self, piece: bytes, *, final: bool = False) -> Iterator[StreamEvent]:
        """Yield the events of a piece of output; `final` if it is the last piece.

        Raise AgentError if the parser fails.
        """
        if self._parser is None:
            text = self._decoder.decode(piece, final)
            if text:
                yield TextDelta(text)
            return
        if final:
            # The last line may lack its newline.
            piece += b"\n"
        for line in self._lines.feed(piece):
            stripped = line.strip(_PADDING)
            value = object_in(stripped)
            try:
                if value is not None:
                    yield from self._parser.events(value)
                elif stripped:
                    yield self._parser.other(clean(stripped[:LONGEST_NOISE]))
            except Exception as error:
                raise self._defect(error) from error

    @property
    def reports_end(self) -> bool:
        """Whether the output of a finished turn says that the turn is over."""
        return self._parser is not None and self._parser.reports_end

    def details(
        self, failure: Failed, session: str, env: Mapping[str, str]
    ) -> list[StreamEvent]:
        """Return what the agent's own files contain about a failed turn.

        Raise AgentError if the parser fails.
        """
        if self._parser is None:
            return []
        try:
            return list(self._parser.details(failure, session, env))
        except Exception as error:
            raise self._defect(error) from error

    def model_and_version(self, session: str, env: Mapping[str, str]) -> SessionStarted:
        """Return what the agent's own files contain about a session.

        Raise AgentError if the parser fails.
        """
        if self._parser is None:
            return SessionStarted(session)
        try:
            return self._parser.model_and_version(session, env)
        except Exception as error:
            raise self._defect(error) from error

    def _defect(self, error: Exception) -> AgentError:
        name = type(self._parser).__qualname__
        return AgentError(
            f"the parser {name} failed: {error!r}", "report it to its author"
        )


@dataclass(frozen=True)
class OutputPiece:
    """A piece of output, and what is known of the time at which it was written."""

    data: bytes
    arrival: Arrival


async def growing_file(
    path: Path, finished: asyncio.Future[Any]
) -> AsyncGenerator[OutputPiece, None]:
    """Yield what is written to the file, piece by piece.

    End when `finished` is done and all of the file is read. Yield nothing if the file
    is never created.
    """
    with contextlib.ExitStack() as stack:
        file = None
        # Everything in the first batch was written after this time.
        before = change_time()
        batch = 0
        held: list[OutputPiece] = []
        held_until = 0.0
        while True:
            # Looked up before the read: what was written until then is read below.
            is_last = finished.done()
            if file is None and path.exists():
                file = stack.enter_context(path.open("rb"))
            read_at = change_time()
            while file is not None and (data := file.read(_PIECE)):
                # The program went on after this output, unless it has ended since. A
                # full piece is not held: a program may write without a pause.
                if held and (held[-1].arrival.batch < batch or len(data) == _PIECE):
                    for piece in _settled(held, is_running=not finished.done()):
                        yield piece
                arrival = Arrival(before, batch, data.endswith(b"\n"))
                held.append(OutputPiece(data, arrival))
                held_until = time.monotonic() + _EXIT_TIME
                # Other tasks must run even if the program writes without a pause.
                await asyncio.sleep(0)
                read_at = change_time()
            is_certain = _is_one_line(held) or time.monotonic() > held_until
            if is_last or (is_certain and not finished.done()):
                for piece in _settled(held, is_running=not is_last):
                    yield piece
            if is_last:
                return
            before = read_at
            batch += 1
            await asyncio.wait((finished,), timeout=_INTERVAL)


def _is_one_line(pieces: Sequence[OutputPiece]) -> bool:
    """Return whether pieces hold no two reports, which could be out of order."""
    return sum(piece.data.count(b"\n") for piece in pieces) < 2


def _settled(held: list[OutputPiece], *, is_running: bool) -> list[OutputPiece]:
    """Take the pieces that were held back.

    At its end, a program writes out its buffer: an old report may then be in the same
    batch as a new one.
    """
    pieces = list(held)
    held.clear()
    if is_running:
        return pieces
    return [
        replace(piece, arrival=replace(piece.arrival, whole=False)) for piece in pieces
    ]
