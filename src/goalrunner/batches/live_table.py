"""A batch as a table on a terminal, which is redrawn in place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text

from goalrunner.batches.history import BatchEvent
from goalrunner.batches.lines import closing_facts, first_facts
from goalrunner.batches.rows import BatchMoment, BatchRow, active_rows, batch_rows
from goalrunner.batches.table import TONES, shown_rows, table_lines, total_facts
from goalrunner.reports.layout import ReportLine, laid_out
from goalrunner.reports.live import NO_BELL
from goalrunner.reports.progress import LastingStream

# Seconds between two drawings of an unchanged table, in which only times differ.
_INTERVAL = 1.0
# Seconds between two drawings after events: a hundred goals may be skipped at once.
_SHORTEST_INTERVAL = 0.2
# Rows of the terminal for the heading of the table and for the cursor.
_OTHER_ROWS = 2
_STYLES = {"good": "green", "bad": "red", "warn": "yellow", "bold": "bold"}


class LiveTable:
    """Draws a row for each entry, and the totals below them."""

    def __init__(
        self,
        stream: TextIO,
        environ: Mapping[str, str] = os.environ,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        lasting = cast("TextIO", LastingStream(stream))
        self._console = Console(
            file=lasting, highlight=False, markup=False, emoji=False, _environ=environ
        )
        self._monotonic = monotonic
        self._rings = not environ.get(NO_BELL)
        self._asking: set[str] = set()
        self._drawn_at = -_INTERVAL
        self._words: list[str] = []
        # It draws when a method is called: with 50 runs, a thread of its own that draws
        # eight times a second takes more of a core than the whole scheduler.
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, moment: BatchMoment) -> None:
        """Draw the table."""
        self._live.start()
        # Rich hides the cursor, and a process that is killed cannot show it again.
        self._console.show_cursor(True)
        self._draw(moment, batch_rows(moment))

    def on_event(self, event: BatchEvent, moment: BatchMoment) -> None:
        """Draw the table after an event, but not for each of many at once."""
        if self._monotonic() - self._drawn_at >= _SHORTEST_INTERVAL:
            self._draw(moment, batch_rows(moment))
        else:
            # No row has such words, so the next look draws the table.
            self._words = []

    def on_look(self, moment: BatchMoment) -> None:
        """Draw the table if an entry has another state, and once a second."""
        words = [row.word for row in active_rows(moment)]
        is_due = self._monotonic() - self._drawn_at >= _INTERVAL
        if is_due or words != self._words:
            self._words = words
            self._draw(moment, batch_rows(moment))

    def finish(self, moment: BatchMoment) -> None:
        """Replace the live table by the last lines, with all rows."""
        self.close()
        rows = batch_rows(moment)
        width = self._console.width
        lines = [*self._facts(first_facts(moment)), *_painted_rows(rows, width)]
        lines += self._facts(closing_facts(moment, rows))
        # A soft wrap leaves a command that is longer than the terminal whole.
        self._console.print(Text("\n").join(lines), soft_wrap=True)

    def close(self) -> None:
        """Stop drawing, and leave nothing of the table."""
        if self._live.is_started:
            self._live.update(Text(""), refresh=True)
            self._live.stop()

    def _draw(self, moment: BatchMoment, rows: list[BatchRow]) -> None:
        self._drawn_at = self._monotonic()
        self._live.update(self.region(moment, rows), refresh=True)
        asking = {row.run_id for row in rows if row.waits_for_person}
        if asking - self._asking and self._rings:
            self._console.bell()
        self._asking = asking

    def region(self, moment: BatchMoment, rows: list[BatchRow]) -> Text:
        """Return what is drawn: it fits the terminal."""
        width, height = self._console.size
        first_lines = self._facts(first_facts(moment))
        totals = self._facts(total_facts(moment, rows))
        room = height - _OTHER_ROWS - len(first_lines) - len(totals)
        # A terminal of few lines shows at least one row, and the number of others.
        drawn, others = shown_rows(rows, max(room, 2))
        lines = first_lines + _painted_rows(drawn, width)
        if others:
            lines.append(Text(others, style="dim"))
        lines += totals
        # A line that wraps takes two rows, and the table would not fit any more.
        for line in lines:
            line.truncate(width)
        return Text("\n", no_wrap=True, overflow="crop").join(lines)

    def _facts(self, facts: Iterable[ReportLine]) -> list[Text]:
        text = laid_out(facts, self._console.width, colours=True)
        return list(Text.from_ansi(text.rstrip("\n")).split())


def _painted_rows(rows: list[BatchRow], width: int) -> list[Text]:
    """Return the lines of a table; the word of each row has the colour of its tone."""
    heading, *lines = table_lines(rows, width)
    painted = [Text(heading, style="dim")]
    for row, line in zip(rows, lines, strict=True):
        text = Text(line)
        tone = TONES.get(row.word, "plain")
        text.stylize(_STYLES.get(tone, tone), 0, len(row.word))
        painted.append(text)
    return painted
