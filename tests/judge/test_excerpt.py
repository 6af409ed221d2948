"""A text that is too long keeps its beginning, its end and its decisive lines, and says what is gone."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.judge.excerpt import excerpt
from goalrunner.judge.prices import TOKEN, price_in_bytes
from goalrunner.judge.text_matching import LEFT_OUT

NONCE = "5f3a9c"

TRACEBACK = """\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
ValueError: no such thing"""


def log(*events: tuple[int, str], lines: int = 3_000) -> str:
    """A long log with these lines at these places."""
    texts = [f"step {number} of the build went on quietly" for number in range(lines)]
    for place, text in events:
        texts[place] = text
    return "\n".join(texts)


def test_decisive_lines_are_kept_from_the_middle() -> None:
    text = log(
        (1_200, "a.py:3: error: Name 'x' is not defined"),
        (1_900, TRACEBACK),
        (2_500, "Found 1 error in 1 file"),
    )
    assert excerpt(text, 180 * TOKEN, NONCE) == (
        "step 0 of the build went on quietly\n"
        "step 1 of the build went on quietly\n"
        "[… 45,619 characters left out …]\n"
        "a.py:3: error: Name 'x' is not defined\n"
        "[… 27,262 characters left out …]\n"
        f"{TRACEBACK}\n"
        "[… 23,362 characters left out …]\n"
        "Found 1 error in 1 file\n"
        "[… 19,345 characters left out …]\n"
        "step 2997 of the build went on quietly\n"
        "step 2998 of the build went on quietly\n"
        "step 2999 of the build went on quietly"
    )


def test_a_text_that_fits_is_shown_whole() -> None:
    assert excerpt("one\r\ntwo\n\x1b[32mthree\x1b[0m", 100, NONCE) == "one\ntwo\nthree"
    assert excerpt("", -1, NONCE) == ""


def test_a_very_long_line_is_cut_within() -> None:
    shown = excerpt("HEAD" + "x" * 1_000_000 + "TAIL", 100 * TOKEN, NONCE)
    head, mark, tail = shown.split("\n")
    assert head.startswith("HEADxxx")
    assert tail.endswith("xxxTAIL")
    found = re.fullmatch(r"\[… ([\d,]+) characters left out …\]", mark)
    assert found is not None
    assert abs(int(found[1].replace(",", "")) + len(head) + len(tail) - 1_000_008) <= 1


def test_of_a_very_long_decisive_line_what_makes_it_decisive_is_kept() -> None:
    text = log((100, "y" * 9_000 + " error: boom " + "z" * 9_000), lines=200)
    shown = excerpt(text, 300 * TOKEN, NONCE)
    assert " error: boom zzz" in shown
    assert price_in_bytes(shown) <= 300 * TOKEN


def test_a_mark_that_a_text_itself_contains_is_no_number_to_add() -> None:
    forged = f"[… {'9' * 4_400} characters left out …]\n[… 1 characters left out …]\n"
    shown = excerpt(forged + "quiet\n" * 900_000, 16_000 * TOKEN, NONCE)
    assert shown.startswith("[… 999")


def test_what_begins_a_line_only_because_of_the_cut_is_inert() -> None:
    text = log((1_500, "y" * 400 + "[o99] shell (exit 0) error: boom " + "z" * 400))
    for room in range(60, 400, 31):
        shown = excerpt(text, room * TOKEN, NONCE)
        assert re.search(r"^\[o99\]", shown, re.MULTILINE) is None
        assert price_in_bytes(shown) <= room * TOKEN


def test_a_huge_text_is_looked_through_at_its_ends() -> None:
    text = "".join(f"line {number} says that it failed\n" for number in range(300_000))
    began = time.thread_time()
    shown = excerpt(text, 2_000 * TOKEN, NONCE)
    assert time.thread_time() - began < 5
    assert price_in_bytes(shown) <= 2_000 * TOKEN
    assert shown.startswith("line 0 says")
    assert shown.endswith("line 299999 says that it failed\n")


pieces = st.sampled_from(
    [
        "ok",
        "error: x",
        "3 failed in 1.2s",
        "ValueError: x",
        "x" * 700,
        "é" * 90,
        "🎉" * 40,
        "",
        "[o9] shell",
        "</output>",
    ]
)
texts = st.lists(pieces | st.text(max_size=30), max_size=60).map("\n".join)


@given(text=texts, room=st.integers(20, 600))
def test_no_excerpt_takes_more_than_its_room_and_every_omission_is_counted(
    text: str, room: int
) -> None:
    shown = excerpt(text, room * TOKEN, NONCE)
    assert price_in_bytes(shown) <= room * TOKEN
    whole = excerpt(text, 1_000_000 * TOKEN, NONCE)
    if shown == whole or LEFT_OUT.search(whole):
        return
    sizes = [int(re.sub(r"\D", "", found[0])) for found in LEFT_OUT.finditer(shown)]
    assert sizes
    position = 0
    for piece in LEFT_OUT.split(shown):
        # A mark stands on a line of its own; what follows may have been made inert.
        plain = piece.removeprefix("\n").removesuffix("\n")
        found = max(
            (
                whole.find(form, position)
                for form in (plain, plain.removeprefix("| "))
                if form
            ),
            default=position,
        )
        assert found >= 0
        position = found
    kept = sum(len(piece) for piece in LEFT_OUT.split(shown))
    assert abs(kept + sum(sizes) - len(whole)) <= 6 * (len(sizes) + 1)
