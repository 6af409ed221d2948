from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goalrunner.core import events
from goalrunner.reports.event_lines import event_lines
from goalrunner.reports.layout import Fact, ReportLine, StepLine, laid_out
from goalrunner.reports.steps import call_step
from goalrunner.reports.terminal_text import (
    cut,
    pad,
    printable,
    printable_line,
    width,
    wrap,
)


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


LONG = "for name in one two three; do echo compiling $name and what it depends on; done"


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
def test_what_would_move_the_terminal_is_gone_and_the_rest_stays(
    text: str, safe: str
) -> None:
    assert printable(text) == safe


@given(st.text(st.characters(codec=None)))
def test_clean_text_holds_no_control_character_and_stays_clean(text: str) -> None:
    safe = printable(text)
    assert all(
        character == "\n"
        or unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        for character in safe
    )
    assert printable(safe) == safe
    assert safe.encode("utf-8").decode("utf-8") == safe


@given(st.text())
def test_one_line_is_one_line(text: str) -> None:
    assert len(printable_line(text).splitlines()) <= 1


def test_wide_and_combining_characters_are_measured() -> None:
    assert [width(text) for text in ("abc", "日本", "e\u0301", "é")] == [3, 4, 1, 1]


@given(st.text().map(printable_line), st.integers(0, 40))
def test_a_cut_text_fits(text: str, columns: int) -> None:
    assert width(cut(text, columns)) <= columns
    assert (
        cut(text, columns) == text
        or cut(text, columns) == ""
        or cut(text, columns).endswith("…")
    )


def test_a_wide_character_is_never_halved() -> None:
    assert cut("日本語日本語", 6) == "日本…"
    assert pad("日本", 6) == "日本  "


@given(st.text().map(printable_line), st.integers(1, 40), st.integers(1, 6))
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
    remark = "checked without the agent's changes to: tests/test_parser.py (changed; existing test)"
    text = laid_out([StepLine("files", "!", remark=remark, tone="warn")], 40)
    assert "".join(text.split()) == "".join(f"! files {remark}".split())


@pytest.mark.parametrize(
    ("tool", "command", "name", "subject"),
    [
        (
            "Bash",
            "cd /src/parser && pytest -q /src/parser/tests",
            "shell",
            "pytest -q tests",
        ),
        (
            "Bash",
            "ls /src/parser-2/x /src/parser",
            "shell",
            "ls /src/parser-2/x /src/parser",
        ),
        (
            "command_execution",
            "/bin/bash -lc 'echo hi > \"a b.txt\"'",
            "shell",
            'echo hi > "a b.txt"',
        ),
        ("command_execution", "/bin/bash -lc ls", "shell", "ls"),
        ("command_execution", "bash -c 'a' 'b'", "shell", "bash -c 'a' 'b'"),
        (
            "command_execution",
            "bash -lc 'never closed",
            "shell",
            "bash -lc 'never closed",
        ),
        ("Edit", "/src/parser/a.py", "edit", "a.py"),
        ("file_change", "/src/parser/a.py, /src/parser/b.py", "edit", "a.py, b.py"),
        (
            "mcp__github__get_issue",
            '{"number": 3}',
            "mcp",
            'github get_issue {"number": 3}',
        ),
        ("mcp__github", "x", "mcp__github", "x"),
        (
            "WebFetch",
            "https://example.org/src/parser/a",
            "WebFetch",
            "https://example.org/src/parser/a",
        ),
    ],
)
def test_the_row_of_a_call_names_its_tool_and_has_paths_in_the_workspace(
    tool: str, command: str, name: str, subject: str
) -> None:
    step = call_step(tool, command, "/src/parser")
    assert (step.name, step.subject) == (name, subject)


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
