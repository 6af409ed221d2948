"""The lines of a report in columns."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goalrunner.core import events
from goalrunner.reports.event_lines import event_lines
from goalrunner.reports.layout import Fact, ReportLine, StepLine, laid_out
from goalrunner.reports.terminal_text import width


def test_what_a_person_copies_is_never_wrapped() -> None:
    path = "/state/" + "long/" * 20
    assert laid_out([Fact("", path, whole=True)], 40) == f"           {path}\n"


def test_a_flood_of_text_is_cut_even_in_a_pipe() -> None:
    assert len(laid_out([Fact("goal", "x" * 100_000)])) < 2_100
    assert len(laid_out([StepLine("judge", remark="x" * 100_000)])) < 2_100


TEXT = st.text(max_size=120)
LINES = st.one_of(
    st.builds(
        StepLine,
        TEXT,
        subject=TEXT,
        time=st.sampled_from(["", "0.1 s", "12 min 34 s"]),
        remark=TEXT,
    ),
    st.builds(Fact, st.just("goal"), TEXT),
)


@example(StepLine("", subject="", time="0.1 s"), 44)
@given(LINES, st.integers(40, 200))
def test_no_row_is_wider_than_the_terminal(line: ReportLine, columns: int) -> None:
    for row in laid_out([line], columns).split("\n"):
        assert width(row) <= columns


@given(LINES)
def test_a_pipe_gets_one_row_a_line(line: ReportLine) -> None:
    assert laid_out([line]).count("\n") == 1


PUSH = "git push origin main --force-with-lease --tags and more"


def asked(columns: int | None) -> str:
    event = events.ApprovalRequested(
        approval_id="a1",
        kind="shell",
        action=PUSH,
        rule='[approvals] commands = "git push*"',
    )
    return laid_out(event_lines(event), columns)


@pytest.mark.parametrize("columns", [40, 53, 60, 80, 120, 200, None])
def test_what_a_person_is_asked_is_whole_at_any_width(columns: int | None) -> None:
    text = asked(columns)
    assert "…" not in text
    assert (
        "".join(text.split())
        .removeprefix("?approval")
        .startswith("".join(PUSH.split()))
    )
    assert columns is None or all(width(row) <= columns for row in text.splitlines())


def test_a_name_that_is_one_column_longer_moves_no_remark_out_of_its_column() -> None:
    short, long = (
        laid_out([StepLine(name, "✓", "a1", remark="by ann")], 80)
        for name in ("shell", "approval")
    )
    assert short.index("by ann") == long.index("by ann")


def test_a_warning_is_shown_whole_on_a_narrow_terminal() -> None:
    remark = "checked without the agent's changes to: tests/test_parser.py (changed; existing test)"
    text = laid_out([StepLine("files", "!", remark=remark, tone="warn")], 40)
    assert "".join(text.split()) == "".join(f"! files {remark}".split())


@pytest.mark.parametrize(("time", "column"), [("0.9 s", 56), ("", 48)])
def test_the_result_of_a_wrapped_command_stays_in_its_column(
    time: str, column: int
) -> None:
    long = "python -m pytest -q --strict-markers tests/unit/test_parser.py tests/unit/test_reader.py"
    steps = [
        StepLine("shell", subject=text, time=time, remark="exit 1")
        for text in ("pytest -q", long)
    ]
    rows = laid_out(steps, 80).splitlines()
    assert [row.index("exit 1") for row in rows if "exit 1" in row] == [column, column]
