"""Progress on a terminal that is redrawn while a step is under way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TextIO, cast

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook, RenderResult
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.spinner import Spinner
from rich.text import Text

from goalrunner.core.events import MessageRecorded, Record
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.run_state import RunState
from goalrunner.reports import figures
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.line import LABEL_COLUMNS, Layout, Line, Row, Step, Tone
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.progress import EnduringStream
from goalrunner.reports.text import clean, wrap

_CUTTING = ("linux", "screen", "st-", "vt")
"""How the names of terminals begin that cut rows instead of breaking them."""


def breaks_rows(environ: Mapping[str, str]) -> bool:
    """Whether a terminal breaks rows that have become too long for it. To wipe rows on one that does not would be a loss."""
    if "TMUX" in environ:
        return True
    return "XTERM_VERSION" not in environ and not environ.get("TERM", "").startswith(_CUTTING)


class Reflow(RenderHook):
    """Pushed after the live region's own hook, so that what it wipes lies below what that one wipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn: tuple[int, ...] = ()

    def region(self, rows: Iterable[Text]) -> ConsoleRenderable:
        """The region of these rows; remembered as it is drawn."""
        return _Region(self, tuple(rows))

    def remember(self, columns: tuple[int, ...]) -> None:
        """These are the widths of the rows that stand on the terminal now."""
        self._drawn = columns

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Begin with wiping the rows that the terminal has made of what was drawn last."""
        more = self._broken()
        if not more:
            return renderables
        wipe = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)) * more
        return [Control(ControlType.CARRIAGE_RETURN, *wipe), *renderables]

    def _broken(self) -> int:
        width, height = self._console.size
        return sum((columns - 1) // width for columns in self._drawn[:height] if columns) if width else 0


class _Region:
    def __init__(self, reflow: Reflow, rows: tuple[Text, ...]) -> None:
        self._reflow = reflow
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self._reflow.remember(tuple(row.cell_len for row in self._rows))
        yield from self._rows


_STYLES: dict[Tone, str] = {
    "plain": "",
    "dim": "dim",
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "bold": "bold",
}
_TEXT_ROWS = 6
_TEXT_KEPT = 4_000
"""Characters of streamed text that are kept to be drawn; older ones have scrolled away."""
_FRAMES_PER_SECOND = 8
_WIDEST = 80
"""Columns of what lives, so that few terminals break it when they are made narrower (see `reflow`)."""


class LiveProgress:
    """Draws a run on a terminal. The region under way is wiped at the end; the lines stay."""

    def __init__(
        self,
        stream: TextIO,
        place: Callable[[str], str] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        lasting = cast("TextIO", EnduringStream(stream))
        self._console = Console(file=lasting, highlight=False, markup=False, emoji=False, _environ=environ)
        self._narrative = Narrative(place)
        self._monotonic = monotonic
        self._running: Step | None = None
        self._since = 0.0
        self._text = ""
        self._spinner = Spinner("dots")
        self._reflow = Reflow(self._console)
        self._breaks = breaks_rows(os.environ if environ is None else environ)
        # Rich would send what others write to stdout to this console too; the outcome's JSON must stay where it belongs.
        self._live = Live(
            console=self._console,
            get_renderable=self._region,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            refresh_per_second=_FRAMES_PER_SECOND,
        )

    def __enter__(self) -> Self:
        self._live.start()
        if self._breaks:
            self._console.push_render_hook(self._reflow)
        # Rich hides the cursor; a run that is ended at once would leave the terminal without one.
        self._console.show_cursor(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running, self._text = None, ""
        self._wipe()

    def _wipe(self) -> None:
        """Stop drawing, with nothing of the live region left on the screen."""
        if not self._live.is_started:
            return
        running, self._running = self._running, None
        # An empty region is drawn first: what is drawn after a later start then erases no line above it.
        self._live.refresh()
        if self._breaks:
            self._console.pop_render_hook()
        self._live.stop()
        self._running = running

    def on_state(self, state: RunState) -> None:
        """Print where the run stands."""
        self._print(self._narrative.take_up(state))

    def on_record(self, record: Record) -> None:
        """Print the lines of an event, and draw the step that runs now."""
        lines = self._narrative.tell(record)
        running = self._narrative.running
        if running is not self._running:
            self._running, self._since = running, self._monotonic()
        if isinstance(record.event, MessageRecorded):
            self._text = ""
        self._print(lines)

    def on_text(self, delta: str) -> None:
        """Stream the agent's text; a thread of the terminal's draws it a few times a second."""
        self._text = (self._text + delta)[-_TEXT_KEPT:]

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Wipe the live region and draw nothing while a person is asked; that time does not count for the step."""
        self._wipe()
        began = self._monotonic()
        try:
            yield
        finally:
            self._text = ""
            self._since += self._monotonic() - began
            self.__enter__()
            self._live.refresh()

    def finish(self, outcome: GoalOutcome, copy: str = "") -> None:
        """Wipe what lives and print the last lines."""
        self.__exit__(None, None, None)
        told = self._narrative
        self._print(closing_lines(outcome, copy, told.red, told.missing, told.origin))

    def _layout(self) -> Layout:
        return Layout(self._console.width, self._narrative.name_columns)

    def _print(self, lines: Iterable[Line]) -> None:
        layout = self._layout()
        rows = [row for line in lines for row in layout.rows(line)]
        if rows:
            # A soft wrap leaves rows that are longer than the terminal whole, so that a path can be copied.
            self._console.print(Text("\n").join(map(_text, rows)), soft_wrap=True)
            self._live.refresh()

    def _region(self) -> RenderableType:
        running = self._running
        if running is None:
            return self._reflow.region([Text("")])
        layout = self._layout()
        step = Step(
            running.name,
            " ",
            running.subject,
            figures.elapsed(self._monotonic() - self._since),
            label=self._narrative.label,
        )
        row = _text(layout.rows(step)[0])
        frame = self._spinner.render(self._monotonic())
        mark = frame.plain if isinstance(frame, Text) else "·"
        row.plain = row.plain[:LABEL_COLUMNS] + mark + row.plain[LABEL_COLUMNS + 1 :]
        row.no_wrap, row.overflow = True, "crop"
        row.truncate(self._region_columns())
        return self._reflow.region([row, *self._streamed()])

    def _region_columns(self) -> int:
        return max(min(self._console.width - 1, _WIDEST), 1)

    def _streamed(self) -> list[Text]:
        columns = max(self._region_columns() - LABEL_COLUMNS - 2, 10)
        rows = [row for line in clean(self._text).splitlines() for row in wrap(line, columns, _TEXT_KEPT) if row]
        indent = " " * (LABEL_COLUMNS + 2)
        return [Text(indent + row, style="dim", no_wrap=True) for row in rows[-_TEXT_ROWS:]]


def _text(row: Row) -> Text:
    return Text.assemble(*((span.text.rstrip() if span is row[-1] else span.text, _STYLES[span.tone]) for span in row))
