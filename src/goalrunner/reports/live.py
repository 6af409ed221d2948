"""Progress on a terminal that is redrawn while a step is running."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Self, TextIO, cast

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from goalrunner.core.activity import Activity, PersonNeeded
from goalrunner.records.redaction import Redactor
from goalrunner.reports.current import Running
from goalrunner.reports.layout import INDENT, LABEL_COLUMNS, Fact, ReportLine, laid_out
from goalrunner.reports.narrative import MessageReader
from goalrunner.reports.progress import Progress
from goalrunner.reports.terminal_text import hanging, printable

# Rows for the output of the running step, or for the agent's text.
_TAIL_ROWS = 6
# Rows that one line of output may be wrapped to; the last ones are drawn.
_MOST_ROWS = 1_000
# The environment variable that switches the bell and the title off.
NO_BELL = "GOAL_NO_BELL"


class LiveProgress(Progress):
    """Prints lines, and draws the current activity below them.

    The activity is the running steps with the end of their output, then the totals and
    limits.
    """

    def __init__(
        self,
        stream: TextIO,
        place: Callable[[str], str] | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        read_message: MessageReader | None = None,
        verbose: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            stream,
            place,
            read_message=read_message,
            verbose=verbose,
            monotonic=monotonic,
        )
        lasting = cast("TextIO", self._stream)
        self._console = Console(
            file=lasting, highlight=False, markup=False, emoji=False, _environ=environ
        )
        self._monotonic = monotonic
        # Output is drawn before it is recorded, which is where secrets are replaced.
        self._redact = Redactor(environ).text
        self._rings = not environ.get(NO_BELL)
        can_show_dots = self._console.encoding.startswith("utf")
        self._spinner = Spinner("dots" if can_show_dots else "line")
        # Rich would redirect the outcome's JSON on stdout to this console.
        self._live = Live(
            console=self._console,
            get_renderable=self._region,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            refresh_per_second=8,
        )

    def __enter__(self) -> Self:
        self._over.clear()
        self._live.start()
        # Rich hides the cursor, and a process that is killed cannot show it again.
        self._console.show_cursor(True)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._wipe()

    def _wipe(self) -> None:
        """Stop drawing, and leave nothing of the live region."""
        if self._live.is_started:
            # The region is empty by now. Without this refresh, a later start would
            # erase lines above it.
            self._live.refresh()
            self._live.stop()

    def on_text(self, delta: str) -> None:
        """Add text of the agent, which is drawn a few times a second."""
        self.current.on_text(delta)

    def on_activity(self, activity: Activity) -> None:
        """Process an activity; ring the bell if a person is needed."""
        super().on_activity(activity)
        if isinstance(activity, PersonNeeded) and activity.bell and self._rings:
            # OSC 0 sets the title of the terminal; the second BEL rings.
            self._write(f"\x1b]0;{printable(activity.text)}\x07\x07")

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Draw nothing while a person is asked; that time does not count."""
        began = self._monotonic()
        with super().suspended():
            self._wipe()
            try:
                yield
            finally:
                self.current.shift(self._monotonic() - began)
                self.__enter__()
        self._live.refresh()

    def close(self, lines: Iterable[ReportLine]) -> None:
        """Wipe the live region and print the last lines."""
        self.__exit__()
        super().close(lines)

    def _text(self, lines: Iterable[ReportLine]) -> Text:
        text = laid_out(lines, self._console.width, colours=True)
        return Text.from_ansi(text.rstrip("\n"))

    def _print(self, lines: Iterable[ReportLine]) -> None:
        text = self._text(lines)
        if text:
            # A soft wrap leaves rows that are longer than the terminal whole, so that a
            # path can be copied.
            self._console.print(text, soft_wrap=True)
            if self._live.is_started:
                self._live.refresh()

    def _region(self) -> RenderableType:
        if self._asking or self._over.is_set():
            return Text("")
        running = self.current.running()
        tail = max(_TAIL_ROWS // max(len(running), 1), 1)
        label = self.narrative.label
        rows: list[Text] = []
        for item in running:
            rows += self._drawn(item, tail, label)
            # The label of a round is shown once.
            label = ""
        totals = self.current.totals()
        if totals:
            rows += self._text([Fact("total", totals, "dim")]).split()
        for row in rows:
            row.truncate(self._console.width)
        return Text("\n", no_wrap=True, overflow="crop").join(rows)

    def _drawn(self, item: Running, tail: int, label: str) -> list[Text]:
        """Return a running step with the last rows of its output."""
        subject = self._redact(item.step.subject)
        step = replace(item.step, subject=subject, label=label, mark=" ")
        first, *others = self._text([step]).split()
        # The spinner is drawn in the column of the mark.
        frame = str(self._spinner.render(self._monotonic()))
        before = first.plain[:LABEL_COLUMNS]
        after = first.plain[LABEL_COLUMNS + 1 :]
        first.plain = before + frame + after
        output_rows = self._output_rows(item.lines[-tail:])[-tail:]
        indent = " " * INDENT
        return [
            first,
            *others,
            *(Text(indent + row, style="dim") for row in output_rows),
        ]

    def _output_rows(self, lines: list[str]) -> list[str]:
        """Return lines of output without secrets, wrapped to the terminal."""
        room = max(self._console.width - INDENT, 10)
        # A secret may have several lines, so it is looked for before they are split.
        text = printable(self._redact("\n".join(lines))).expandtabs(4)
        rows = []
        for line in text.splitlines():
            if line.strip():
                rows += hanging(line, room, _MOST_ROWS)
        return rows
