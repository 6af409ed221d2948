"""Text in the columns of a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.reports.terminal_text import (
    cut,
    pad,
    printable,
    printable_line,
    width,
    wrap,
)


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
