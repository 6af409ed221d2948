"""What lives on a terminal that is made narrower: its rows are broken in two, and the rest of each would stay behind.

Owns how many rows that makes, and wiping them before the region is drawn again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

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
