"""What is printed about a batch is what tests/batches/screens holds.

After an intended change, `pytest tests/batches --update-goldens` writes the files.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from goalrunner.batches.displays import JsonLines, LineDisplay
from goalrunner.batches.history import BatchResumed, BatchStopped
from goalrunner.batches.live_table import LiveTable
from goalrunner.batches.rows import BatchMoment, batch_rows
from goalrunner.reports.terminal_text import width
from tests.support import batch_moments
from tests.support.batch_moments import AT, LIMITS

SCREENS = Path(__file__).with_name("screens")
SIZES = ((80, 24), (140, 45), (80, 14))


def check(name: str, text: str, request: pytest.FixtureRequest) -> None:
    """Compare a text with its file, or write the file."""
    file = SCREENS / name
    if request.config.getoption("--update-goldens"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def table_at(columns: int, height: int) -> LiveTable:
    """Return a table on a terminal of that size, which records what is drawn."""
    table = LiveTable(io.StringIO(), environ={})
    table._console = Console(
        file=io.StringIO(),
        record=True,
        width=columns,
        height=height,
        highlight=False,
        markup=False,
    )
    return table


def screens_of(moment: BatchMoment) -> dict[str, str]:
    """Return the live table at each size, and the last lines, by heading."""
    screens = {}
    for columns, height in SIZES:
        table = table_at(columns, height)
        table._console.print(table.region(moment, batch_rows(moment)))
        screens[f"{columns}x{height}"] = _lines(table)
    for columns in (80, 140):
        table = table_at(columns, 24)
        table.finish(moment)
        screens[f"the end at {columns}"] = _lines(table)
    return screens


def _lines(table: LiveTable) -> str:
    text = table._console.export_text().strip("\n")
    return "".join(f"{line.rstrip()}\n" for line in text.split("\n"))


@pytest.mark.parametrize("moment", batch_moments.MOMENTS)
def test_a_moment_looks_as_it_is_kept(
    moment: Callable[[], BatchMoment], request: pytest.FixtureRequest
) -> None:
    screens = screens_of(moment())
    text = "".join(f"=== {name}\n{screen}" for name, screen in screens.items())
    check(f"{moment.__name__}.txt", text, request)
    for columns, height in SIZES:
        lines = screens[f"{columns}x{height}"].splitlines()
        # One line remains for the cursor.
        assert len(lines) < height
        assert max(map(width, lines)) <= columns


def told(display: LineDisplay | JsonLines) -> None:
    """Tell a display the night from its beginning to the end of its budget."""
    moment, later = batch_moments.at_work(), batch_moments.over_budget()
    display.begin(moment)
    for event in batch_moments.night_events():
        display.on_event(event, moment)
        # A look between two events repeats no line.
        display.on_look(moment)
    display.on_event(BatchStopped(at=AT, reason="the budget of $20.00 is spent"), later)
    display.on_event(BatchResumed(at=AT, limits=LIMITS, jobs=4), later)
    display.finish(later)


def test_lines_in_a_pipe_are_as_they_are_kept(request: pytest.FixtureRequest) -> None:
    stream = io.StringIO()
    told(LineDisplay(stream, environ={}))
    check("piped.txt", stream.getvalue(), request)
    stream = io.StringIO()
    told(LineDisplay(stream, environ={}, quiet=True))
    check("quiet.txt", stream.getvalue(), request)


def test_json_lines_are_as_they_are_kept(request: pytest.FixtureRequest) -> None:
    stream = io.StringIO()
    told(JsonLines(stream))
    check("lines.jsonl", stream.getvalue(), request)


def bells(environ: dict[str, str]) -> int:
    """Return how often a table rings while two looks show the same question."""
    stream = io.StringIO()
    table = LiveTable(stream, environ={"TTY_COMPATIBLE": "1", **environ})
    table.begin(batch_moments.at_work())
    table.on_look(batch_moments.at_work())
    table.close()
    return stream.getvalue().count("\a")


def test_the_bell_rings_once_for_a_question() -> None:
    assert bells({}) == 1
    assert bells({"GOAL_NO_BELL": "1"}) == 0


def test_a_table_that_is_closed_leaves_nothing() -> None:
    stream = io.StringIO()
    table = LiveTable(stream, environ={"TTY_COMPATIBLE": "1", "COLUMNS": "80"})
    table.begin(batch_moments.at_work())
    before = len(stream.getvalue())
    table.close()
    # Each row of the table is erased.
    assert stream.getvalue()[before:].count("\x1b[2K") >= len(batch_moments.NAMES)
    table.close()


def test_a_json_line_has_no_command_of_a_ci_system() -> None:
    stream = io.StringIO()
    event = batch_moments.ended(1, "failed", "##[add-mask]x")
    JsonLines(stream).on_event(event, batch_moments.at_work())
    assert "##[" not in stream.getvalue()
    assert json.loads(stream.getvalue())["message"] == "##[add-mask]x"
