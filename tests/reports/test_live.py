from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from goalrunner.cli.drive import open_progress
from goalrunner.core import events
from goalrunner.core.activity import CommandStarted, PersonNeeded
from goalrunner.reports.live import LiveProgress
from goalrunner.reports.terminal_text import printable
from tests.support import told_run
from tests.support.told_run import feed, outcome

ENVIRON = {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}


class Terminal(io.StringIO):
    """A terminal that keeps what was drawn."""

    gone = False

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.gone:
            raise OSError(5, "Input/output error")
        return super().write(text)

    def screen(self) -> list[str]:
        """What stands there in the end: a line that is erased and written again counts once."""
        lines = [
            re.split(r"\x1b\[2K", line)[-1] for line in self.getvalue().split("\n")
        ]
        return [printable(line).rstrip() for line in lines]


@pytest.fixture
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture
def progress(terminal: Terminal) -> Iterator[LiveProgress]:
    ticks = count()
    with LiveProgress(
        terminal,
        lambda _: "git, clean",
        environ=ENVIRON,
        monotonic=lambda: float(next(ticks)),
    ) as live:
        yield live


@pytest.fixture
def still(terminal: Terminal) -> Iterator[LiveProgress]:
    """Live progress without time, so that each frame is the same."""
    with LiveProgress(terminal, environ=ENVIRON, monotonic=lambda: 0.0) as live:
        yield live


def test_a_terminal_gets_the_living_progress(terminal: Terminal) -> None:
    assert isinstance(open_progress(terminal, environ=ENVIRON), LiveProgress)


def test_the_lines_stay_and_are_those_of_a_pipe(
    terminal: Terminal, progress: LiveProgress
) -> None:
    for record in told_run.two_rounds():
        progress.on_record(record)
    progress.finish(outcome())
    screen = "\n".join(terminal.screen())
    for line in (
        "agent      anthropic/claude-sonnet-4-5",
        "round 1    · shell   pytest -q tests/test_parser.py   0.9 s   exit 1",
        "           ✓ tests   pytest -q                  1.1 s   43 passed",
        "complete   2 rounds · 3 min 12 s · 41,210 tokens · $0.21 (judge 6 %)",
        "           /state/goal/runs/k3f9-make-parse/outcome.json",
    ):
        assert line in screen


def test_colours_say_what_the_marks_say(
    terminal: Terminal, progress: LiveProgress
) -> None:
    feed(progress, told_run.checked(True, "ok"), told_run.checked(False, "bad"))
    assert "\x1b[32m✓" in terminal.getvalue()
    assert "\x1b[31m✗" in terminal.getvalue()


def test_no_color_is_obeyed(terminal: Terminal) -> None:
    with LiveProgress(terminal, environ={**ENVIRON, "NO_COLOR": "1"}) as live:
        feed(live, told_run.checked(True, "ok"))
    assert re.search(r"\x1b\[[0-9;]*3[0-7]m", terminal.getvalue()) is None
    assert "✓ " in terminal.getvalue()


def test_without_unicode_a_running_step_has_no_mark_of_a_question(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Terminal, "encoding", "ascii")
    with LiveProgress(terminal, environ=ENVIRON, monotonic=lambda: 0.0) as live:
        feed(live, events.RoundStarted(round=1, prompt="first"))
        live._live.refresh()
    assert re.search(r"round 1 .*[-\\|/] agent", printable(terminal.getvalue()))
    assert "⠋" not in terminal.getvalue()


def test_the_step_under_way_and_the_text_under_it_live(
    terminal: Terminal, progress: LiveProgress
) -> None:
    call = events.ToolCalled(tool_call_id="c", tool="shell", summary="pytest -q")
    feed(progress, events.RoundStarted(round=1, prompt="first"), call)
    for piece in (
        "I will look at ",
        "\x1b]0;owned\x07the [bold]parser[/bold].\n",
        "Then",
        " I fix it.",
    ):
        progress.on_text(piece)
    progress._live.refresh()
    drawn = terminal.getvalue()
    assert re.search(r"shell   .*pytest -q .* s", printable(drawn))
    assert "I will look at the [bold]parser[/bold]." in drawn
    assert "Then I fix it." in drawn
    assert "owned" not in drawn


def test_text_that_was_recorded_makes_room_for_the_next(
    terminal: Terminal, progress: LiveProgress
) -> None:
    feed(progress, events.RoundStarted(round=1, prompt="first"))
    progress.on_text("the first words")
    feed(progress, told_run.message())
    progress.on_text("the second words")
    before = len(terminal.getvalue())
    progress._live.refresh()
    assert "the second words" in terminal.getvalue()[before:]
    assert "the first words" not in terminal.getvalue()[before:]


def test_only_the_end_of_a_long_text_is_drawn(
    terminal: Terminal, progress: LiveProgress
) -> None:
    feed(progress, events.RoundStarted(round=1, prompt="first"))
    for number in range(5_000):
        progress.on_text(f"line {number}\n")
    before = len(terminal.getvalue())
    progress._live.refresh()
    drawn = terminal.getvalue()[before:]
    assert re.findall(r"line (\d+)", drawn) == [
        str(number) for number in range(4_994, 5_000)
    ]


def test_the_end_wipes_what_lived_and_shows_the_cursor(
    terminal: Terminal, progress: LiveProgress
) -> None:
    feed(progress, events.RoundStarted(round=1, prompt="first"))
    progress.on_text("half a sentence")
    progress.finish(outcome())
    assert "half a sentence" not in "\n".join(terminal.screen()[-3:])
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind(
        "\x1b[?25l"
    )


def test_the_cursor_is_there_during_the_run_too(
    terminal: Terminal, progress: LiveProgress
) -> None:
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind(
        "\x1b[?25l"
    )


def test_a_terminal_that_hangs_up_does_not_end_the_run(
    terminal: Terminal, progress: LiveProgress
) -> None:
    feed(progress, told_run.created())
    terminal.gone = True
    feed(progress, told_run.checked(True, "ok"))
    progress.finish(outcome())
    assert "complete" not in terminal.getvalue()


def test_the_live_region_uses_the_width_of_the_terminal(terminal: Terminal) -> None:
    environ = {**ENVIRON, "COLUMNS": "200"}
    with LiveProgress(terminal, environ=environ, monotonic=lambda: 0.0) as live:
        feed(live, events.RoundStarted(round=1, prompt="first"))
        live.on_text("word " * 100)
        before = len(terminal.getvalue())
        live._live.refresh()
        drawn = printable(terminal.getvalue()[before:]).split("\n")
    assert max(len(line.rstrip()) for line in drawn) in range(190, 201)


def test_nothing_is_drawn_while_a_person_is_asked(
    terminal: Terminal, progress: LiveProgress
) -> None:
    feed(progress, events.RoundStarted(round=1, prompt="first"))
    with progress.suspended():
        terminal.write("approve? ")
        before = len(terminal.getvalue())
        time.sleep(0.4)  # three frames
        assert terminal.getvalue()[before:] == ""
    assert "waiting for the model" in printable(terminal.getvalue()[before:])


def test_after_a_question_one_region_is_drawn_and_no_line_above_it_is_erased(
    terminal: Terminal, progress: LiveProgress
) -> None:
    """The live region has several rows when the question begins; the answer stands above the region afterwards."""
    feed(progress, events.RoundStarted(round=1, prompt="first"))
    progress.on_text("one\ntwo\nthree\n")
    progress._live.refresh()
    for _ in range(2):
        with progress.suspended():
            wiped = terminal.getvalue()
            terminal.write("[y]es / [n]o REASON: y\n")
        drawn = terminal.getvalue()[len(wiped) :]
        assert "\x1b[1A" not in drawn
        assert printable(drawn).count("waiting for the model") == 1
    before = len(terminal.getvalue())
    feed(progress, told_run.checked(True, "ok"))
    assert printable(terminal.getvalue()[before:]).count("43") <= 1
    progress.finish(outcome())


def test_secrets_in_output_are_not_drawn(terminal: Terminal, tmp_path: Path) -> None:
    secret = "secret-of-this-test"
    (tmp_path / "out").write_text(f"the key is {secret}\n")
    with LiveProgress(terminal, environ={**ENVIRON, "MY_API_KEY": secret}) as live:
        live.on_activity(CommandStarted("tests", "pytest", tmp_path / "out"))
        live._live.refresh()
    assert "the key is" in terminal.getvalue()
    assert secret not in terminal.getvalue()


@pytest.mark.parametrize(
    ("environ", "bell", "rings"),
    [({}, True, True), ({"GOAL_NO_BELL": "1"}, True, False), ({}, False, False)],
)
def test_the_terminal_rings_and_has_a_title_when_a_person_is_needed(
    terminal: Terminal, environ: dict[str, str], bell: bool, rings: bool
) -> None:
    live = LiveProgress(terminal, environ={**ENVIRON, **environ})
    live.on_activity(PersonNeeded("goal: complete k3f9", bell=bell))
    assert ("\x1b]0;goal: complete k3f9\x07\x07" in terminal.getvalue()) == rings


def test_a_view_that_is_left_keeps_the_row_of_the_running_step(
    progress: LiveProgress, terminal: Terminal
) -> None:
    called = events.ToolCalled(tool_call_id="c", tool="shell", summary="make")
    feed(progress, events.RoundStarted(round=1, prompt="first"), called)
    progress.leave()
    assert terminal.screen()[-2].startswith("round 1    · shell   make ")
