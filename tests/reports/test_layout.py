from __future__ import annotations

import unicodedata
from textwrap import dedent

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goalrunner.core import events
from goalrunner.reports.layout import (
    Fact,
    Line,
    Quoted,
    Step,
    clean,
    cut,
    laid_out,
    one_line,
    output_lines,
    pad,
    width,
    wrap,
)
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.steps import event_lines
from tests.support import told_run


def drawn(columns: int | None) -> str:
    narrative = Narrative(lambda _: "git, clean")
    lines = [line for record in told_run.two_rounds() for line in narrative.lines_of(record)]
    return laid_out(lines, columns)


def test_a_terminal_of_80_columns_wraps_what_is_missing_under_its_column() -> None:
    assert drawn(80) == dedent("""\
        goal       Make parse() accept empty input.
        workspace  /src/parser · git, clean              run    k3f9-make-parse
        agent      anthropic/claude-sonnet-4-5           judge  openai/gpt-5-mini
        limits     10 rounds · 30 min · no budget
        round 1    · shell   pytest -q tests/test_parser.py   0.9 s   exit 1
                   · edit    src/parser.py              +4 −1
                   ✓ tests   pytest -q                  1.1 s   43 passed
                   ✗ judge   0.62
                     missing: no evidence that parse('') returns an empty Document
                   round 1 took 12.0 s · 21,000 tokens · $0.10
        round 2    · shell   python -c "import parser; parser.parse(str())"
                     0.1 s   exit 0
                   ✓ tests   pytest -q                  1.1 s   43 passed
                   ✓ judge   1.00
                     2 of 2 criteria, 3 citations checked
                   round 2 took 7.0 s · 20,210 tokens · $0.01
        """)


def test_a_wide_terminal_shows_more_of_a_command() -> None:
    assert drawn(120).splitlines()[4] == (
        "round 1    · shell   pytest -q tests/test_parser.py                 0.9 s   exit 1"
    )


def test_a_narrow_terminal_puts_the_remark_below() -> None:
    assert drawn(40).splitlines()[8:15] == [
        "round 1    · shell   pytest -q",
        "                     tests/test_parser.p",
        "                     y",
        "             0.9 s   exit 1",
        "           · edit    src/parser.py",
        "             +4 −1",
        "           ✓ tests   pytest -q",
    ]


def test_a_long_time_takes_room_from_the_gap_first() -> None:
    rows = laid_out([Step("shell", subject="make", time="12 min 34 s", remark="exit 0")])
    assert rows == "           · shell   make                 12 min 34 s   exit 0\n"


def test_two_texts_on_one_line_have_two_spaces_between_them() -> None:
    first = "x" * 36
    assert laid_out([Fact("agent", first, beside=("judge", "y"))]) == f"agent      {first}  judge  y\n"
    assert laid_out([Fact("agent", f"{first}x", beside=("judge", "y"))]).count("\n") == 2


def test_what_a_person_copies_is_never_wrapped() -> None:
    path = "/state/" + "long/" * 20
    assert laid_out([Fact("", path, whole=True)], 40) == f"           {path}\n"


def test_a_flood_of_text_is_cut_even_in_a_pipe() -> None:
    assert len(laid_out([Fact("goal", "x" * 100_000)])) < 2_100
    assert len(laid_out([Step("judge", remark="x" * 100_000)])) < 2_100


TEXT = st.text(max_size=120)
LINES = st.one_of(
    st.builds(Step, TEXT, subject=TEXT, time=st.sampled_from(["", "0.1 s", "12 min 34 s"]), remark=TEXT),
    st.builds(Fact, st.just("goal"), TEXT),
    st.builds(Fact, st.just("agent"), TEXT, beside=st.tuples(st.just("judge"), TEXT)),
)


@example(Step("", subject="", time="0.1 s"), 44)
@given(LINES, st.integers(40, 200))
def test_no_row_is_wider_than_the_terminal(line: Line, columns: int) -> None:
    for row in laid_out([line], columns).split("\n"):
        assert width(row) <= columns


@given(LINES)
def test_a_pipe_gets_one_row_a_line_or_two_for_a_pair(line: Line) -> None:
    assert 1 <= laid_out([line]).count("\n") <= 2


def test_a_quoted_line_keeps_its_indentation_and_is_wrapped_between_words() -> None:
    line = Quoted("\tif  x:\x1b]0;owned\x07" + " and the next" * 9)
    assert laid_out([line], 40).splitlines() == [
        "               if  x: and the next and",
        "                 the next and the next",
        "                 and the next and the",
        "                 next and the next…",
    ]


TAP = """\
TAP version 13
# Subtest: adds
not ok 1 - adds
  ---
  duration_ms: 17.7
  location: '/src/a.test.js:3:1'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be strictly equal:

    -1 !== 3

  code: 'ERR_ASSERTION'
  stack: |-
    TestContext.<anonymous> (/src/a.test.js:3:29)
  ...
1..1
# tests 1
# pass 0
# fail 1
"""


def test_the_assertion_of_a_tap_report_is_shown() -> None:
    assert laid_out(output_lines("output", TAP, 5)).splitlines() == [
        "output     TAP version 13",
        "           not ok 1 - adds",
        "             location: '/src/a.test.js:3:1'",
        "             error: |-",
        "               Expected values to be strictly equal:",
        "               -1 !== 3",
    ]


LONG = "for name in one two three; do echo compiling $name and what it depends on; done"


def test_a_long_command_is_whole_and_its_time_stands_below() -> None:
    step = Step("shell", subject=LONG, time="0.9 s", remark="exit 1")
    assert laid_out([step], 80) == (
        "           · shell   for name in one two three; do echo compiling $name and what\n"
        "                     it depends on; done\n"
        "             0.9 s   exit 1\n"
    )


def test_a_very_long_command_has_four_rows_and_its_time_stands_below() -> None:
    rows = laid_out([Step("shell", subject=LONG * 9, time="0.9 s")], 80).splitlines()
    assert len(rows) == 5
    assert rows[3].endswith("…")
    assert rows[4].strip() == "0.9 s"


def test_a_long_remark_stands_below_the_step_in_the_full_width() -> None:
    _, *below = laid_out([Step("judge", "✗", "0.62", remark="missing " * 25)], 80).splitlines()
    assert [len(row) - len(row.lstrip()) for row in below] == [13, 13, 13, 13]


PUSH = "git push origin main --force-with-lease --tags and more"


def asked(columns: int | None) -> str:
    event = events.ApprovalRequested(
        approval_id="a1", kind="shell", action=PUSH, rule='[approvals] commands = "git push*"'
    )
    return laid_out(event_lines(event), columns)


def test_what_a_person_is_asked_is_wrapped_on_a_narrow_terminal() -> None:
    assert asked(40) == (
        "           ? approval git push origin\n"
        "                      main\n"
        "                      --force-with-lease\n"
        "                      --tags and more\n"
        "             a1 waits for a person:\n"
        '             [approvals] commands = "git\n'
        '             push*"\n'
    )


@pytest.mark.parametrize("columns", [40, 53, 60, 80, 120, 200, None])
def test_what_a_person_is_asked_is_whole_at_any_width(columns: int | None) -> None:
    text = asked(columns)
    assert "…" not in text
    assert "".join(text.split()).removeprefix("?approval").startswith("".join(PUSH.split()))
    assert columns is None or all(width(row) <= columns for row in text.splitlines())


def test_a_name_that_is_one_column_longer_moves_no_remark_out_of_its_column() -> None:
    short, long = (laid_out([Step(name, "✓", "a1", remark="by ann")], 80) for name in ("shell", "approval"))
    assert short.index("by ann") == long.index("by ann")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdcs\x1b\\after", "after"),
        ("\x9b2Jwiped", "wiped"),
        ("\x1b]0;never ended", ""),
        ("\x1b[2J\x1b[Hhome", "home"),
        ("beep\x07 back\x08space", "beep backspace"),
        ("over\rwritten", "overwritten"),
        ("right\u202eto left", "rightto left"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("a\tb\x0bc", "a b c"),
        ("line\u2028break", "line break"),
        ("two\nlines", "two\nlines"),
        ("grüße 日本 👩\u200d🔧", "grüße 日本 👩\u200d🔧"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
    ],
)
def test_what_would_move_the_terminal_is_gone_and_the_rest_stays(text: str, safe: str) -> None:
    assert clean(text) == safe


@given(st.text(st.characters(codec=None)))
def test_clean_text_holds_no_control_character_and_stays_clean(text: str) -> None:
    safe = clean(text)
    assert all(
        character == "\n" or unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") for character in safe
    )
    assert clean(safe) == safe
    assert safe.encode("utf-8").decode("utf-8") == safe


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


def test_wide_and_combining_characters_are_measured() -> None:
    assert [width(text) for text in ("abc", "日本", "e\u0301", "é")] == [3, 4, 1, 1]


@given(st.text().map(one_line), st.integers(0, 40))
def test_a_cut_text_fits(text: str, columns: int) -> None:
    assert width(cut(text, columns)) <= columns
    assert cut(text, columns) == text or cut(text, columns) == "" or cut(text, columns).endswith("…")


def test_a_wide_character_is_never_halved() -> None:
    assert cut("日本語日本語", 6) == "日本…"
    assert pad("日本", 6) == "日本  "


@given(st.text().map(one_line), st.integers(1, 40), st.integers(1, 6))
def test_wrapped_text_fits_its_rows(text: str, columns: int, rows: int) -> None:
    parts = wrap(text, columns, rows)
    assert 1 <= len(parts) <= rows
    assert all(width(part) <= max(columns, 2) for part in parts)


@given(st.lists(st.text("abc", min_size=1, max_size=5), max_size=20).map(" ".join))
def test_wrapping_loses_nothing_where_there_are_rows_enough(text: str) -> None:
    assert " ".join(wrap(text, 7, 100)).split() == text.split()


def test_what_does_not_fit_is_marked() -> None:
    assert wrap("one two three four", 9, 2) == ["one two", "three…"]


def test_a_warning_is_shown_whole_on_a_narrow_terminal() -> None:
    remark = "validators ignore the agent's version: tests/test_parser.py (changed; existing test)"
    text = laid_out([Step("files", "!", remark=remark, tone="warn")], 40)
    assert "".join(text.split()) == "".join(f"! files {remark}".split())
