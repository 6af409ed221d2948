from __future__ import annotations

import io
import os
from pathlib import Path
from textwrap import dedent

import pytest

from goalrunner.app.run_options import Callback
from goalrunner.cli.drive import can_redraw, open_progress
from goalrunner.core import events
from goalrunner.core.activity import CommandEnded, CommandStarted, Remark
from goalrunner.core.agent_ports import TextObserver
from goalrunner.core.fold import apply
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import RunState
from goalrunner.reports.layout import Fact
from goalrunner.reports.live import LiveProgress
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.progress import Progress
from tests.reports.test_current import Clock
from tests.reports.test_live import Terminal
from tests.support import told_run
from tests.support.told_run import feed, numbered, outcome, tool_result


def test_in_a_pipe_a_long_step_has_a_line_at_its_start_a_heartbeat_and_one_at_its_end() -> (
    None
):
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, monotonic=clock)
    start = (
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=1, prompt="first"),
    )
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
    feed(
        progress,
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=1, prompt="first"),
    )
    before = stream.getvalue()
    clock.now += 2.9
    progress.beat()
    assert stream.getvalue() == before


def test_nothing_is_printed_while_a_person_is_asked_and_a_note_follows_the_answer() -> (
    None
):
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, monotonic=clock)
    feed(
        progress,
        told_run.created(),
        told_run.started(),
        events.RoundStarted(round=1, prompt="first"),
    )
    before = len(stream.getvalue())
    with progress.suspended():
        clock.now += 60
        progress.beat()
        progress.on_activity(Remark("the command failed"))
        assert stream.getvalue()[before:] == ""
    assert stream.getvalue()[before:] == "note       the command failed\n"


@pytest.mark.parametrize(
    ("environ", "live"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "xterm", "CI": "false"}, True),
    ],
)
def test_a_terminal_is_redrawn_unless_it_is_dumb_or_in_ci(
    environ: dict[str, str], live: bool
) -> None:
    assert can_redraw(Terminal(), environ) == live


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_a_pipe_has_colours_only_if_they_are_forced(
    environ: dict[str, str], coloured: bool
) -> None:
    stream = io.StringIO()
    feed(open_progress(stream, environ=environ), told_run.checked(True, "ok"))
    assert ("\x1b[32m✓" in stream.getvalue()) == coloured
    assert ("\x1b" in stream.getvalue()) == coloured


def test_every_line_is_printed_as_it_ends() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.on_record(numbered(told_run.created())[0])
    assert stream.getvalue() == "goal       Make parse() accept empty input.\n"


def test_quiet_prints_the_last_lines_alone() -> None:
    stream = io.StringIO()
    with Progress(stream, quiet=True) as progress:
        for record in told_run.two_rounds():
            progress.on_record(record)
        progress.finish(outcome())
    assert stream.getvalue() == dedent("""\
        complete   2 rounds · 3 min 12 s · 41,210 tokens · $0.21 (judge 6 %)
                   /state/goal/runs/k3f9-make-parse/outcome.json
        """)


def test_quiet_still_warns_of_a_run_that_nothing_stops() -> None:
    stream = io.StringIO()
    progress = Progress(stream, quiet=True)
    for record in numbered(
        told_run.created(max_iterations=None, timeout=None), told_run.started()
    ):
        progress.on_record(record)
    assert stream.getvalue() == (
        "warning    no limit stops this run: no round limit, no timeout, no budget\n"
    )


def test_a_reader_that_goes_away_does_not_end_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    # Closing flushes what could not be written; that a reader is gone is no news then.
    stream = os.fdopen(writing, "w", encoding="utf-8")
    progress = Progress(stream)
    for record in told_run.two_rounds():
        progress.on_record(record)
    progress.finish(outcome())
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_a_closed_stream_does_not_end_the_run() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    stream.close()
    progress.on_record(numbered(told_run.created())[0])
    assert stream.closed


def test_only_a_terminal_is_redrawn_and_not_a_quiet_one() -> None:
    assert not can_redraw(io.StringIO(), {"TERM": "xterm-256color"})
    assert not isinstance(open_progress(Terminal(), quiet=True), LiveProgress)


def test_a_resumed_run_shows_the_agents_command_and_that_its_usage_is_unknown() -> None:
    started = told_run.started().model_copy(
        update={"agent_command": "command · ./fix.sh"}
    )
    state: RunState | None = None
    prompt = told_run.message("user")
    for record in numbered(
        told_run.created(),
        started,
        events.RoundStarted(round=1, prompt="first"),
        prompt,
    ):
        state = apply(state, record)
    assert state is not None
    stream = io.StringIO()
    Progress(stream).on_state(state.model_copy(update={"iterations": 1}))
    lines = stream.getvalue().splitlines()
    assert any(line.startswith("agent      command · ./fix.sh") for line in lines)
    assert lines[-1].endswith("tokens unknown · cost unknown")
    Progress(stream).on_state(
        state.model_copy(update={"iterations": 1, "external": False})
    )
    assert stream.getvalue().splitlines()[-1].endswith("0 tokens · $0.00")


def test_a_round_that_was_interrupted_keeps_its_number_and_is_timed_from_the_resume() -> (
    None
):
    past = told_run.two_rounds()
    state = told_run.state_of(past[2].event)
    stream = io.StringIO()
    progress = Progress(stream)
    progress.on_state(state)
    for record in past[3:]:
        progress.on_record(record)
    lines = stream.getvalue().splitlines()
    assert lines[6].startswith("round 1    · shell   pytest -q tests/test_parser.py")
    began, ended = past[2].elapsed, past[14].elapsed
    assert lines[10].startswith(
        f"           round 1 took {ended - began:.1f} s since it was resumed"
    )


def test_the_end_of_a_round_is_shown_once_if_the_run_is_resumed_after_it() -> None:
    narrative, records = Narrative(), told_run.two_rounds()
    lines = [line for record in records for line in narrative.lines_of(record)]
    assert narrative.state is not None
    resumed = numbered(
        events.RunResumed(plan=narrative.state.plan, version="1"),
        events.RoundStarted(round=3, prompt="retry"),
        after=len(records),
    )
    lines += [line for record in resumed for line in narrative.lines_of(record)]
    shown = [line.text for line in lines if isinstance(line, Fact)]
    assert [text.split()[:3] for text in shown if " took " in text] == [
        ["round", "1", "took"],
        ["round", "2", "took"],
    ]


def test_only_a_terminal_needs_streamed_text() -> None:
    stream = io.StringIO()
    assert not isinstance(Progress(stream), TextObserver)
    assert not isinstance(Callback(print), TextObserver)
    assert isinstance(LiveProgress(stream), TextObserver)


@pytest.mark.parametrize(
    ("verbose", "rows"),
    [
        (False, ["round 1    · agent   I look at it. Then I change it."]),
        (
            True,
            [
                "round 1    · agent   said",
                "             I look at it.",
                "               Then I change it.",
            ],
        ),
    ],
)
def test_a_message_of_an_external_agent_is_a_row_or_shown_whole(
    verbose: bool, rows: list[str]
) -> None:
    stream = io.StringIO()
    read: list[str] = []

    def said(run_id: str, message: TranscriptRef) -> str:
        read.append(run_id)
        return "I look at it.\n  Then I change it.\n"

    progress = Progress(stream, read_message=said, verbose=verbose)
    external = told_run.started().model_copy(update={"agent_command": "claude -p"})
    feed(
        progress,
        told_run.created(),
        external,
        events.RoundStarted(round=1, prompt="first"),
        told_run.message(),
    )
    assert stream.getvalue().splitlines()[-len(rows) :] == rows
    assert read == ["k3f9-make-parse"]


def test_the_messages_of_the_built_in_agent_have_no_rows() -> None:
    stream = io.StringIO()
    progress = Progress(stream, read_message=lambda run_id, message: "I look at it.")
    first = events.RoundStarted(round=1, prompt="first")
    feed(progress, told_run.created(), told_run.started(), first, told_run.message())
    assert "I look" not in stream.getvalue()


def test_a_reported_call_that_was_cut_is_the_only_row_that_says_so() -> None:
    stream = io.StringIO()
    cut = tool_result("Bash", "make", "interrupted", 5.0, ("interrupted",))
    seen = cut.observation.model_copy(update={"reported_by": "claude"})
    ended = events.RunEnded(stop_reason=StopReason.INTERRUPTED, message="interrupted")
    feed(
        Progress(stream),
        events.RoundStarted(round=1, prompt="first"),
        cut.model_copy(update={"observation": seen}),
        ended,
    )
    assert stream.getvalue().count("interrupted") == 1
