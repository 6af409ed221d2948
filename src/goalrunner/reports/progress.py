"""The progress of a run on a stream, as whole lines for pipes, logs and files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self, TextIO

from goalrunner.core.activity import Activity, Remark
from goalrunner.core.events import Record, RoundStarted, RunEnded
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.run_state import RunState
from goalrunner.reports.ci_log import neutral
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.current import Current
from goalrunner.reports.layout import Fact, ReportLine, laid_out
from goalrunner.reports.narrative import MessageReader, Narrative
from goalrunner.reports.run_header import UNLIMITED

# Seconds between two looks at the running steps.
_LOOK = 0.5


class LastingStream:
    """A text stream whose failed writes raise no error.

    A run goes on if the reader of its output is gone, or the disk is full.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the text."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        with suppress(OSError, ValueError):
            self._stream.flush()


class Progress:
    """An observer that prints whole lines; a context manager around a run.

    Inside of the context a step that takes long gets a line soon after its start, and
    one every 30 seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        place: Callable[[str], str] | None = None,
        *,
        colours: bool = False,
        github: bool = False,
        quiet: bool = False,
        read_message: MessageReader | None = None,
        verbose: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Print to a stream.

        `place` returns more about a workspace, by its path: "git, clean". `github`: the
        stream is the log of a step of GitHub Actions, which shows each round as a
        group. `quiet`: only the last lines are printed, and a warning if there are no
        limits. `read_message` reads the messages of an external agent, which are shown
        whole if `verbose`.
        """
        self._github = github
        self._quiet = quiet
        self._colours = colours
        self._in_group = self._asking = False
        self._stream = LastingStream(stream)
        self.narrative = Narrative(place, read_message=read_message, verbose=verbose)
        self.current = Current(self.narrative, monotonic)
        self._turn = threading.RLock()
        self._over = threading.Event()
        self._notes: list[ReportLine] = []

    def __enter__(self) -> Self:
        self._over.clear()
        if not self._quiet:
            # A daemon, so that it cannot keep the process alive after an error.
            heartbeat = threading.Thread(
                target=self._beat, name="goal-heartbeat", daemon=True
            )
            heartbeat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(_LOOK):
            self.beat()

    def beat(self) -> None:
        """Print the lines of steps that take long, if they are due."""
        with self._turn:
            # A line would be printed into the answer that a person types.
            if not self._asking and not self._over.is_set():
                self._print(map(self.narrative.labelled, self.current.beats()))

    def on_state(self, state: RunState) -> None:
        """Print the state of a run that is resumed."""
        with self._turn:
            lines = self.narrative.restore(state)
            self.current.restore(state)
            if not self._quiet:
                self._print(lines)

    def on_record(self, record: Record) -> None:
        """Print the lines of an event."""
        with self._turn:
            lines = self.narrative.lines_of(record)
            if self._quiet:
                self._print(line for line in lines if line == UNLIMITED)
                # The line of the verdict was not printed, so the last lines repeat it.
                self.narrative.missing = ""
                return
            self.current.follow(record)
            # GitHub cannot nest groups.
            if isinstance(record.event, RoundStarted | RunEnded):
                self._end_group()
            self._print(lines)
            if isinstance(record.event, RoundStarted) and self._github:
                self._in_group = True
                self._write(f"::group::round {record.event.round}\n")

    def _end_group(self) -> None:
        if self._in_group:
            self._in_group = False
            self._write("::endgroup::\n")

    def on_activity(self, activity: Activity) -> None:
        """Process an activity, which happens between two events."""
        self.current.on_activity(activity)
        if isinstance(activity, Remark):
            self._notes.append(Fact("note", activity.text, "warn"))
            self._print_notes()

    def _print_notes(self) -> None:
        """Print the notes that came in meanwhile, unless a person is asked."""
        with self._turn:
            if not self._asking:
                notes, self._notes = self._notes, []
                self._print(notes)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Print nothing while a person is asked."""
        self._asking = True
        try:
            yield
        finally:
            self._asking = False
            self._print_notes()

    def leave(self) -> None:
        """Print the running steps, because the view ends before the run does."""
        with self._turn:
            steps = [running.step for running in self.current.running()]
            lines = [self.narrative.labelled(step) for step in steps]
        self.close(lines)

    def finish(self, outcome: GoalOutcome, copy: str = "") -> None:
        """Print the last lines. `copy` is the path of a copy of the outcome."""
        narrative = self.narrative
        self.close(closing_lines(outcome, narrative.state, copy, narrative.missing))

    def close(self, lines: Iterable[ReportLine]) -> None:
        """Print the last lines, after which nothing runs."""
        self._over.set()
        self.current.clear()
        self._asking = False
        self._print_notes()
        with self._turn:
            self._end_group()
            self._print(lines)

    def _print(self, lines: Iterable[ReportLine]) -> None:
        text = laid_out(lines, colours=self._colours)
        if text:
            self._write(neutral(text) if self._github else text)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
