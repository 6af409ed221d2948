"""Progress of a run on a terminal or in a pipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Protocol, Self, TextIO

from goalrunner.core.events import Record
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.run_state import RunState
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.header import unlimited_line
from goalrunner.reports.line import Layout, Line, plain
from goalrunner.reports.narrative import Narrative


class EnduringStream:
    """Writes as long as somebody reads, and then no more. Has what Rich needs of a text file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.gone = False

    @property
    def encoding(self) -> str:
        """The encoding of the stream beneath."""
        return self._stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        """Write the text, if anybody is there."""
        if not self.gone:
            try:
                self._stream.write(text)
            except (OSError, ValueError):  # a broken pipe, a full disk, a stream that was closed
                self.gone = True
        return len(text)

    def flush(self) -> None:
        """Let the reader have it."""
        if not self.gone:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self.gone = True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The descriptor beneath."""
        return self._stream.fileno()


class Progress(Protocol):
    """An observer that is opened around a run, and told the outcome at its end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def on_state(self, state: RunState) -> None:
        """An earlier process left the run like this, and it goes on."""
        ...

    def on_record(self, record: Record) -> None:
        """An event was written."""
        ...

    def suspended(self) -> AbstractContextManager[None]:
        """A time in which somebody else writes to the terminal."""
        ...

    def finish(self, outcome: GoalOutcome, copy: str = "") -> None:
        """Print the last lines."""
        ...


class PlainProgress:
    """Whole lines, as they end, without colour: for pipes, logs and files."""

    def __init__(self, stream: TextIO, place: Callable[[str], str] | None = None) -> None:
        """`place` says more of a workspace, given its path: "git, clean"."""
        self._stream = EnduringStream(stream)
        self._narrative = Narrative(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def on_state(self, state: RunState) -> None:
        """Print where the run stands."""
        self._print(self._narrative.take_up(state))

    def on_record(self, record: Record) -> None:
        """Print the lines of an event."""
        self._print(self._narrative.tell(record))

    def suspended(self) -> AbstractContextManager[None]:
        """Nothing lives here that would have to stand still."""
        return nullcontext()

    def finish(self, outcome: GoalOutcome, copy: str = "") -> None:
        """Print the last lines."""
        told = self._narrative
        self._print(closing_lines(outcome, copy, told.red, told.missing, told.origin))

    def _print(self, lines: Iterable[Line]) -> None:
        layout = Layout(name_columns=self._narrative.name_columns)
        text = "".join(plain(layout.rows(line)) for line in lines)
        if text:
            self._stream.write(text)
            self._stream.flush()


class QuietProgress(PlainProgress):
    """Nothing but a warning where there are no limits, and the last lines."""

    def on_state(self, state: RunState) -> None:
        """Nothing is said of it."""
        self._narrative.take_up(state)

    def on_record(self, record: Record) -> None:
        """Only what must be said aloud."""
        warning = unlimited_line()
        self._print(line for line in self._narrative.tell(record) if line == warning)
        self._narrative.missing = ""


def open_progress(
    stream: TextIO,
    *,
    quiet: bool = False,
    place: Callable[[str], str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Progress:
    """The progress that fits a stream: living on a terminal, plain lines elsewhere. Rich is loaded for a terminal alone."""
    if quiet:
        return QuietProgress(stream)
    if not is_living(stream, environ):
        return PlainProgress(stream, place)
    from goalrunner.reports.live import LiveProgress

    return LiveProgress(stream, place, environ=environ)


def is_living(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the stream is a terminal whose lines can be drawn again."""
    try:
        return stream.isatty() and environ.get("TERM", "") not in ("dumb", "unknown")
    except ValueError:
        return False
