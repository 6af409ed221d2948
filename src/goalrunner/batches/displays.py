"""What shows a batch while it is driven or watched."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol, TextIO

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.history import BatchEvent, BatchState
from goalrunner.batches.lines import closing_facts, event_fact, first_facts, wait_fact
from goalrunner.batches.rows import (
    BatchMoment,
    BatchRow,
    active_rows,
    batch_row,
    batch_rows,
)
from goalrunner.batches.run_figures import RunFigures
from goalrunner.batches.values import event_value, result_value, wait_value
from goalrunner.reports.ci_log import is_github, neutral
from goalrunner.reports.layout import ReportLine, laid_out
from goalrunner.reports.progress import LastingStream


class BatchDisplay(Protocol):
    """Shows the moments of a batch, one after another."""

    def begin(self, moment: BatchMoment) -> None:
        """Show a batch that begins, or goes on."""

    def on_event(self, event: BatchEvent, moment: BatchMoment) -> None:
        """Show an event; the moment is the one after it."""

    def on_look(self, moment: BatchMoment) -> None:
        """Show new figures of the runs; called a few times a second."""

    def finish(self, moment: BatchMoment) -> None:
        """Show the end of the batch, or of the view of a batch that goes on."""

    def close(self) -> None:
        """Stop drawing, also after an error."""


def open_display(
    stream: TextIO,
    *,
    json_lines: bool = False,
    quiet: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> BatchDisplay:
    """Return JSON lines, a live table for a terminal, or lines for other streams."""
    if json_lines:
        return JsonLines(stream)
    from goalrunner.cli.drive import can_redraw

    if can_redraw(stream, environ) and not quiet:
        # A pipe does not need Rich, which takes long to import.
        from goalrunner.batches.live_table import LiveTable

        return LiveTable(stream, environ)
    return LineDisplay(stream, quiet=quiet, environ=environ)


def entry_row(event: BatchEvent, moment: BatchMoment) -> BatchRow | None:
    """Return the row of the entry that an event is about; None if it is about none."""
    key = getattr(event, "key", None)
    return None if key is None else batch_row(moment, key)


class _Waits:
    """What each run waits for, so that a wait is shown once."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def begun(self, moment: BatchMoment) -> list[BatchRow]:
        """Return the rows of the runs that have begun to wait since the last call."""
        reasons = {}
        rows = []
        for row in active_rows(moment):
            if row.word != "waiting":
                continue
            # The remark on a limit has the time that is left, which changes.
            reason = row.summary.waits_for or row.remark
            reasons[row.run_id] = reason
            if self._reasons.get(row.run_id) != reason:
                rows.append(row)
        self._reasons = reasons
        return rows


class LineDisplay:
    """Prints a line for each event, and for each run that begins to wait."""

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`quiet`: only the last lines are printed."""
        self._stream = LastingStream(stream)
        self._quiet = quiet
        self._github = is_github(environ)
        self._waits = _Waits()

    def begin(self, moment: BatchMoment) -> None:
        """Print the first line."""
        if not self._quiet:
            self._print(first_facts(moment))

    def on_event(self, event: BatchEvent, moment: BatchMoment) -> None:
        """Print the line of an event."""
        if not self._quiet:
            self._print([event_fact(event, entry_row(event, moment))])

    def on_look(self, moment: BatchMoment) -> None:
        """Print a line for each run that has begun to wait."""
        if not self._quiet:
            self._print(map(wait_fact, self._waits.begun(moment)))

    def finish(self, moment: BatchMoment) -> None:
        """Print the totals, and the commands that come next."""
        self._print(closing_facts(moment, batch_rows(moment)))

    def close(self) -> None:
        """Do nothing: all lines are printed."""

    def _print(self, lines: Iterable[ReportLine]) -> None:
        text = laid_out(lines)
        # GitHub performs lines such as `::error::`, which an agent may have written.
        self._stream.write(neutral(text) if self._github else text)
        self._stream.flush()


class JsonLines:
    """Prints each event with the figures of its run, and last the whole result."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = LastingStream(stream)
        self._waits = _Waits()

    def begin(self, moment: BatchMoment) -> None:
        """Print nothing: the events say it."""

    def on_event(self, event: BatchEvent, moment: BatchMoment) -> None:
        """Print an event."""
        self._print(event_value(event, entry_row(event, moment)))

    def on_look(self, moment: BatchMoment) -> None:
        """Print a line for each run that has begun to wait."""
        for row in self._waits.begun(moment):
            self._print(wait_value(row, moment))

    def finish(self, moment: BatchMoment) -> None:
        """Print the result."""
        self._print(result_value(moment))

    def close(self) -> None:
        """Do nothing: all lines are printed."""

    def _print(self, value: object) -> None:
        # A CI system performs `##[command]`, which a text of an agent may contain. In
        # JSON, it can only be in a string.
        line = json.dumps(value).replace("##[", "#\\u0023[")
        self._stream.write(f"{line}\n")
        self._stream.flush()


class BatchView:
    """Reads the figures of the runs, and gives each moment to a display."""

    def __init__(self, display: BatchDisplay | None = None) -> None:
        """Use a display; by default, a table or lines on stdout."""
        self._display = display or open_display(sys.stdout)
        self._figures: RunFigures | None = None

    def begin(self, folder: BatchFolder, state: BatchState) -> None:
        """Show the batch before its first run."""
        self._figures = RunFigures(folder.home)
        self._display.begin(self._moment(state))

    def changed(self, state: BatchState, event: BatchEvent) -> None:
        """Show an event; `state` is that after it."""
        self._display.on_event(event, self._moment(state))

    def refresh(self, state: BatchState) -> None:
        """Show the figures of the running runs; called some times a second."""
        self._display.on_look(self._moment(state))

    def end(
        self, folder: BatchFolder, state: BatchState, *, is_driven: bool = False
    ) -> None:
        """Show how the batch ended; if it `is_driven`, only the view of it ends."""
        # Read anew: the process of a run may have been killed, which changes no file.
        self._figures = RunFigures(folder.home)
        self._display.finish(self._moment(state, is_driven=is_driven))

    def close(self) -> None:
        """Stop drawing. After `end`, there is nothing to stop."""
        self._display.close()

    def _moment(self, state: BatchState, *, is_driven: bool = True) -> BatchMoment:
        assert self._figures is not None, "the batch has begun"
        summaries = self._figures.of(state)
        return BatchMoment(state, summaries, is_driven, datetime.now(UTC))
