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
from goalrunner.reports.layout import (
    INDENT,
    LABEL_COLUMNS,
    Fact,
    ReportLine,
    laid_out,
)
from goalrunner.reports.narrative import MessageReader
from goalrunner.reports.progress import Progress
from goalrunner.reports.terminal_text import (
    hanging,
    printable,
)

_TAIL_ROWS = 6
"""Rows for the output of the running step, or for the agent's text."""
_WIDE = 1_000
"""Rows that one line of output may be wrapped to; the last ones are drawn."""
_NO_BELL = "GOAL_NO_BELL"
"""The environment variable that switches the bell and the title off."""


class LiveProgress(Progress):
    """Prints lines, and draws below them the running steps, the end of their output, and the totals and limits."""

    def __init__(
        self,
        stream: TextIO,
        place: Callable[[str], str] | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        said: MessageReader | None = None,
        verbose: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, place, said=said, verbose=verbose, monotonic=monotonic)
        lasting = cast("TextIO", self._stream)
        self._console = Console(
            file=lasting, highlight=False, markup=False, emoji=False, _environ=environ
        )
        self._monotonic = monotonic
        self._redact = Redactor(environ).text  # output is drawn before it is recorded
        self._signals = not environ.get(_NO_BELL)
        self._spinner = Spinner(
            "dots" if self._console.encoding.startswith("utf") else "line"
        )
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
        self._console.show_cursor(
            True
        )  # Rich hides it, and a process that is killed cannot show it again
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._wipe()

    def _wipe(self) -> None:
        """Stop drawing. The region is empty by now, so that a later start erases no line above it."""
        if self._live.is_started:
            self._live.refresh()
            self._live.stop()

    def on_text(self, delta: str) -> None:
        """Add text of the agent, which is drawn a few times a second."""
        self.current.on_text(delta)

    def on_activity(self, activity: Activity) -> None:
        """Process an activity; ring the bell if a person is needed."""
        super().on_activity(activity)
        if isinstance(activity, PersonNeeded) and activity.bell and self._signals:
            self._write(f"\x1b]0;{printable(activity.text)}\x07\x07")

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Wipe the live region and draw nothing while a person is asked; that time does not count for the step."""
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
        return Text.from_ansi(
            laid_out(lines, self._console.width, colours=True).rstrip("\n")
        )

    def _print(self, lines: Iterable[ReportLine]) -> None:
        text = self._text(lines)
        if text:
            # A soft wrap leaves rows that are longer than the terminal whole, so that a path can be copied.
            self._console.print(text, soft_wrap=True)
            if self._live.is_started:
                self._live.refresh()

    def _region(self) -> RenderableType:
        if self._asking or self._over.is_set():
            return Text("")
        running = self.current.running()
        tail = max(_TAIL_ROWS // max(len(running), 1), 1)
        rows: list[Text] = []
        for number, item in enumerate(running):
            rows += self._drawn(item, tail, self.narrative.label if number == 0 else "")
        if totals := self.current.totals():
            rows += self._text([Fact("total", totals, "dim")]).split()
        for row in rows:
            row.truncate(self._console.width)
        return Text("\n", no_wrap=True, overflow="crop").join(rows)

    def _drawn(self, item: Running, tail: int, label: str) -> list[Text]:
        """Return a running step with the last rows of its output."""
        subject = self._redact(item.step.subject)
        first, *rows = self._text(
            [replace(item.step, subject=subject, label=label, mark=" ")]
        ).split()
        frame = self._spinner.render(self._monotonic())
        first.plain = (
            first.plain[:LABEL_COLUMNS] + str(frame) + first.plain[LABEL_COLUMNS + 1 :]
        )
        room = max(self._console.width - INDENT, 10)
        whole = (
            printable(self._redact("\n".join(item.lines[-tail:])))
            .expandtabs(4)
            .splitlines()
        )
        below = [
            row for line in whole if line.strip() for row in hanging(line, room, _WIDE)
        ]
        return [
            first,
            *rows,
            *(Text(" " * INDENT + row, style="dim") for row in below[-tail:]),
        ]
