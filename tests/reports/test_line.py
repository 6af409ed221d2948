from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goalrunner.core import events
from goalrunner.reports.line import Fact, Layout, Line, Quoted, Step, plain
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.steps import event_lines
from goalrunner.reports.text import width
from tests.support import told_run


def drawn(columns: int | None) -> str:
    narrative = Narrative(lambda _: "git, clean")
    lines = [line for record in told_run.two_rounds() for line in narrative.tell(record)]
    return "".join(plain(Layout(columns).rows(line)) for line in lines)


def test_a_terminal_of_80_columns_wraps_what_is_missing_under_its_column() -> None:
    assert drawn(80) == dedent("""\
        goal       Make parse() accept empty input.
        workspace  /src/parser · git, clean              run    k3f9-make-parse
        agent      anthropic/claude-sonnet-4-5           judge  openai/gpt-5-mini
        limits     10 rounds · 30 min · no budget
        round 1    · shell   pytest -q tests/test_p…    0.9 s   exit 1
                   · edit    src/parser.py              +4 −1
                   ✓ tests   pytest -q                  1.1 s   43 passed
                   ✗ judge   0.62                       missing: no evidence that
                                                        parse('') returns an empty
                                                        Document
        round 2    · shell   python -c "import pars…    0.1 s   exit 0
                   ✓ tests   pytest -q                  1.1 s   43 passed
                   ✓ judge   1.00                       2 of 2 criteria, 3 citations
                                                        checked
        """)


def test_a_wide_terminal_shows_more_of_a_command() -> None:
    assert drawn(120).splitlines()[4] == (
        "round 1    · shell   pytest -q tests/test_parser.py                 0.9 s   exit 1"
    )


def test_a_narrow_terminal_puts_the_remark_below() -> None:
    assert drawn(40).splitlines()[8:14] == [
        "round 1    · shell   pytest -q tests/te…",
        "  0.9 s  exit 1",
        "           · edit    src/parser.py",
        "  +4 −1",
        "           ✓ tests   pytest -q",
        "  1.1 s  43 passed",
    ]


def test_a_long_time_takes_room_from_the_gap_first() -> None:
    rows = Layout().rows(Step("shell", subject="make", time="12 min 34 s", remark="exit 0"))
    assert plain(rows) == "           · shell   make                 12 min 34 s   exit 0\n"


def test_what_a_person_copies_is_never_wrapped() -> None:
    path = "/state/" + "long/" * 20
    assert plain(Layout(40).rows(Fact("", path, whole=True))) == f"           {path}\n"


def test_a_flood_of_text_is_cut_even_in_a_pipe() -> None:
    assert len(plain(Layout().rows(Fact("goal", "x" * 100_000)))) < 2_100
    assert len(plain(Layout().rows(Step("judge", remark="x" * 100_000)))) < 2_100


TEXT = st.text(max_size=120)
LINES = st.one_of(
    st.builds(Step, TEXT, subject=TEXT, time=st.sampled_from(["", "0.1 s", "12 min 34 s"]), remark=TEXT),
    st.builds(Fact, st.just("goal"), TEXT),
    st.builds(Fact, st.just("agent"), TEXT, beside=st.tuples(st.just("judge"), TEXT)),
)


@example(Step("", subject="", time="0.1 s"), 44)
@example(Step("00000000", subject="0"), 22)
@example(Step("00000000", "?", subject="0 0", remark="0"), 20)
@given(LINES, st.integers(20, 200))
def test_no_row_is_wider_than_the_terminal(line: Line, columns: int) -> None:
    for row in plain(Layout(columns).rows(line)).split("\n"):
        assert width(row) <= columns


@given(LINES)
def test_a_pipe_gets_one_row_a_line_or_two_for_a_pair(line: Line) -> None:
    assert 1 <= plain(Layout().rows(line)).count("\n") <= 2


def test_a_quoted_line_keeps_its_blanks_and_is_cut_to_the_terminal() -> None:
    line = Quoted("\tif  x:\x1b]0;owned\x07" + "y" * 100)
    (row,) = Layout(40).rows(line)
    assert plain([row]) == " " * 11 + "    if  x:" + "y" * 18 + "…\n"


PUSH = "git push origin main --force-with-lease --tags and more"


def asked(columns: int | None) -> str:
    event = events.ApprovalRequested(
        approval_id="a1", kind="shell", action=PUSH, rule='[approvals] commands = "git push*"'
    )
    return "".join(plain(Layout(columns).rows(line)) for line in event_lines(event))


def test_what_a_person_is_asked_is_wrapped_on_a_narrow_terminal() -> None:
    assert asked(40) == (
        "           ? approval\n"
        "  git push origin main\n"
        "  --force-with-lease --tags and more\n"
        "  a1 waits for a person: [approvals]\n"
        '  commands = "git push*"\n'
    )


@pytest.mark.parametrize("columns", [16, 20, 40, 53, 60, 80, 120, 200, None])
def test_what_a_person_is_asked_is_whole_at_any_width(columns: int | None) -> None:
    text = asked(columns)
    assert "…" not in text
    assert "".join(text.split()).removeprefix("?approval").startswith("".join(PUSH.split()))
    assert columns is None or all(width(row) <= columns for row in text.splitlines())


def test_a_name_that_is_one_column_longer_moves_no_remark_out_of_its_column() -> None:
    layout = Layout(80)
    short, long = (plain(layout.rows(Step(name, "✓", "a1", remark="by ann"))) for name in ("shell", "approval"))
    assert short.index("by ann") == long.index("by ann")
