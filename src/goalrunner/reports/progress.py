"""Progress of a run on a terminal or in a pipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self, TextIO

from goalrunner.core.events import Record
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.run_state import RunState
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.header import unlimited_line
from goalrunner.reports.line import Layout, Line
from goalrunner.reports.narrative import Narrative


class LastingStream:
    """A text stream that ignores writes after the first failure: the reader is gone, or the disk is full."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._failed = False

    @property
    def encoding(self) -> str:
        """The encoding of the stream."""
        return self._stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        """Write the text."""
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._try(self._stream.flush)

    def _try(self, action: Callable[[], object]) -> None:
        if not self._failed:
            try:
                action()
            except (OSError, ValueError):
                self._failed = True

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._stream.fileno()


class Progress:
    """An observer that prints whole lines without colour, for pipes, logs and files; a context manager around a run."""

    def __init__(self, stream: TextIO, place: Callable[[str], str] | None = None) -> None:
        """`place` returns more about a workspace, given its path: "git, clean"."""
        self._stream = LastingStream(stream)
        self._narrative = Narrative(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def on_state(self, state: RunState) -> None:
        """Print the state that an earlier process left."""
        self._print(self._narrative.take_up(state))

    def on_record(self, record: Record) -> None:
        """Print the lines of an event."""
        self._print(self._narrative.tell(record))

    def suspended(self) -> AbstractContextManager[None]:
        """Return a context in which nothing is drawn."""
        return nullcontext()

    def finish(self, outcome: GoalOutcome, copy: str = "") -> None:
        """Print the last lines. `copy` is the path of a copy of the outcome."""
        known = self._narrative
        self._print(closing_lines(outcome, copy, known.red, known.missing, known.origin))

    def _print(self, lines: Iterable[Line]) -> None:
        if text := Layout(name_columns=self._narrative.name_columns).text(lines):
            self._stream.write(text)
            self._stream.flush()


class QuietProgress(Progress):
    """Prints the last lines only, and a warning if there are no limits."""

    def on_state(self, state: RunState) -> None:
        """Print nothing."""
        self._narrative.take_up(state)

    def on_record(self, record: Record) -> None:
        """Print the warning."""
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
    """Return live progress for a terminal and plain lines for other streams. Rich is imported for a terminal only."""
    if quiet:
        return QuietProgress(stream)
    if not is_interactive(stream, environ):
        return Progress(stream, place)
    from goalrunner.reports.live import LiveProgress

    return LiveProgress(stream, place, environ=environ)


def is_interactive(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether the stream is a terminal whose lines can be redrawn."""
    try:
        return stream.isatty() and environ.get("TERM", "") not in ("dumb", "unknown")
    except ValueError:
        return False
