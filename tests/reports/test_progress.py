from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from goalrunner.cli.drive import is_interactive, open_progress
from goalrunner.core import events
from goalrunner.core.observation import DiffStat
from goalrunner.core.ports import CommandEnded, CommandStarted, Remark
from goalrunner.reports.progress import Progress
from tests.reports.test_current import Clock
from tests.reports.test_live import Terminal
from tests.support import told_run
from tests.support.told_run import feed, numbered, outcome


def test_in_a_pipe_a_long_step_has_a_line_at_its_start_a_heartbeat_and_one_at_its_end() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, monotonic=clock)
    start = (told_run.created(), told_run.started(), events.RoundStarted(round=1, prompt="first"))
    check = events.StepStarted(step_id="validate-1", description="run 1 validator")
    feed(progress, *start, events.RoundFinished(round=1), check)
    before = len(stream.getvalue())
    command = CommandStarted("tests", "pytest -q", Path("/nowhere/out"))
    progress.on_activity(command)
    for _ in range(140):
        progress.beat()
        clock.now += 0.5
    progress.on_activity(CommandEnded(command))
    feed(progress, told_run.checked(True, "43 passed"))
    assert stream.getvalue()[before:].splitlines() == [
        "round 1    · tests   pytest -q                  3.0 s   running",
        "           · tests   pytest -q                 30.0 s   still running",
        "           · tests   pytest -q                  1 min   still running",
        "           ✓ tests   pytest -q                  1.1 s   43 passed",
    ]


def test_a_short_step_has_one_line() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, monotonic=clock)
    feed(progress, told_run.created(), told_run.started(), events.RoundStarted(round=1, prompt="first"))
    before = stream.getvalue()
    clock.now += 2.9
    progress.beat()
    assert stream.getvalue() == before


def test_nothing_is_printed_while_a_person_is_asked_and_a_note_follows_the_answer() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, monotonic=clock)
    feed(progress, told_run.created(), told_run.started(), events.RoundStarted(round=1, prompt="first"))
    before = len(stream.getvalue())
    with progress.suspended():
        clock.now += 60
        progress.beat()
        progress.on_activity(Remark("the command failed"))
        assert stream.getvalue()[before:] == ""
    assert stream.getvalue()[before:] == "note       the command failed\n"


def test_a_round_ends_with_its_duration_changes_and_spend() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    changes = DiffStat(files=2, added=9, removed=2)
    for record in numbered(
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=1, prompt="first"),
        events.RoundFinished(round=1, changes=changes, total=changes),
        told_run.checked(False, "2 failed"),
        events.RoundStarted(round=2, prompt="retry"),
    ):
        progress.on_record(record)
    assert stream.getvalue().splitlines()[-1] == "           round 1 took 3.0 s · 2 files changed, +9 −2"


def test_the_last_line_has_the_changes() -> None:
    stream = io.StringIO()
    Progress(stream).finish(outcome().model_copy(update={"changes": DiffStat(files=2, added=9, removed=2)}))
    assert stream.getvalue().splitlines()[0] == (
        "complete   2 rounds · 3 min 12 s · 41,210 tokens · $0.21 (judge 6 %) · 2 files changed, +9 −2"
    )


@pytest.mark.parametrize(
    ("environ", "live"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "xterm", "CI": "false"}, True),
    ],
)
def test_a_terminal_is_redrawn_unless_it_is_dumb_or_in_ci(environ: dict[str, str], live: bool) -> None:
    assert is_interactive(Terminal(), environ) == live


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_a_pipe_has_colours_only_if_they_are_forced(environ: dict[str, str], coloured: bool) -> None:
    stream = io.StringIO()
    feed(open_progress(stream, environ=environ), told_run.checked(True, "ok"))
    assert ("\x1b[32m✓" in stream.getvalue()) == coloured
    assert ("\x1b" in stream.getvalue()) == coloured


def test_progress_in_a_pipe_does_not_load_the_live_display() -> None:
    code = "import sys; from goalrunner.cli.drive import open_progress as o; o(sys.stdout); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "goalrunner.reports.progress" in loaded
    assert "rich.console" not in loaded
