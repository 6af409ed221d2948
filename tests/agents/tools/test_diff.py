"""Unified diffs: they can be applied, and are made in bounded time."""

from __future__ import annotations

import difflib
import time

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.agents.text_diff import unified

TEXT = st.lists(
    st.sampled_from(["a\n", "b\n", "c\n", "\n", "\u2028\n", "x\r\n"]), max_size=25
).map("".join)
ENDING = st.sampled_from(["", "end", "a"])


def applied(old: str, diff: str) -> str:
    """What a diff makes of a text; fails where its context does not fit."""
    before = list(old.split("\n"))
    result: list[str] = []
    at = 0
    lines = diff.replace("\n\\ No newline at end of file", "").split("\n")[2:-1]
    for line in lines:
        if line.startswith("@@"):
            start, _, length = line.split()[1][1:].partition(",")
            begin = int(start) if length == "0" else int(start) - 1
            result += before[at:begin]
            at = begin
        elif line[0] in " -":
            assert before[at] == line[1:]
            at += 1
            if line[0] == " ":
                result.append(line[1:])
        else:
            result.append(line[1:])
    return "\n".join([*result, *before[at:]])


@given(TEXT, TEXT)
def test_a_diff_leads_from_the_old_text_to_the_new(old: str, new: str) -> None:
    diff = unified(old, new, "a")
    assert applied(old, diff.text) == new
    assert (diff.summary == "+0 −0") == (old == new)


@given(TEXT, TEXT, ENDING, ENDING)
def test_added_and_removed_lines_are_counted(
    old: str, new: str, old_end: str, new_end: str
) -> None:
    diff = unified(old + old_end, new + new_end, "a")
    body = diff.text.split("\n")[2:]
    added, removed = (sum(line.startswith(sign) for line in body) for sign in "+-")
    assert diff.summary == f"+{added} −{removed}"


def test_a_simple_change_is_written_as_difflib_writes_it() -> None:
    old = "".join(f"{n}\n" for n in range(40))
    new = (
        old.replace("5\n", "five\n", 1)
        .replace("30\n", "")
        .replace("38\n", "38\nmore\n")
    )
    expected = "".join(
        difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), "a", "a"
        )
    )
    assert unified(old, new, "a").text == expected


def test_a_missing_last_line_end_is_said() -> None:
    assert unified("a", "b\n", "f").text == (
        "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
    )


def test_no_change_has_no_hunk() -> None:
    assert unified("a\nb\n", "a\nb\n", "f").text == "--- f\n+++ f\n"


def test_texts_that_are_too_long_are_only_counted() -> None:
    old, new = (
        "".join(f"line {n * step % 997}\n" for n in range(100_000)) for step in (7, 11)
    )
    began = time.thread_time()
    diff = unified(old, new, "f")
    assert time.thread_time() - began < 2
    assert (diff.text, diff.summary) == (
        "f: 100,000 lines became 100,000 lines\n",
        "+100000 −100000",
    )


def test_many_changes_in_a_large_file_are_not_compared() -> None:
    lines = [f"{number % 4_000}\n" for number in range(20_000)]
    one, many = (
        unified(
            "".join(lines),
            "".join(
                f"x{line}" if at in changed else line for at, line in enumerate(lines)
            ),
            "f",
        )
        for changed in ({10_000}, set(range(0, 20_000, 20)))
    )
    assert one.text.startswith(
        "--- f\n+++ f\n@@ -9998,7 +9998,7 @@\n 1997\n 1998\n 1999\n-2000\n+x2000\n"
    )
    assert many.text == "f: 20,000 lines became 20,000 lines\n"
