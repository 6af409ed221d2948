"""The words of a quote stand in an output: whole words, in their order, and not somewhere near."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.judge.text_matching import LONGEST, OutputText, forms_of

UNITTEST = "test_a (t.T) ... FAIL\ntest_b (t.T) ... ok\n"
PYTEST = "test_parse_empty FAILED\ntest_other PASSED\n"
TICKS = "test_a ✗\ntest_b ✓\n"


def holds(output: str | OutputText, quote: str, *, anywhere: bool = True) -> bool:
    """Return whether some form of the quote is in the output; a short one anywhere by default."""
    text = OutputText(output) if isinstance(output, str) else output
    return any(text.holds(form, anywhere=anywhere) for form in forms_of(quote))


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("schema invalid", "valid"),
        ("objective incomplete", "complete"),
        ("p99 latency 250ms", "50ms"),
        ("took 15s", "5s"),
        ("v10", "v1"),
        ("v1.0", "v1"),
        ("2 failed", "e"),
        ("token expired", "ok"),
        ("test_parse_empty passed", "test_parse"),
        ("0.5 failed", "5 failed"),
        (".5 failed", "5 failed"),
        ("0.5 failed", ".5 failed"),
        ("15 failed", "5 failed"),
        ("1,000 errors", "000 errors"),
        ("1,000 errors", "1"),
        ("1,000 errors", "1,"),
        ("3/5 passed", "5 passed"),
        ("-1", "1"),
        ("x = -1", "1"),
        ("-1", "- 1"),
        ("1e-5 lost", "5 lost"),
        ("2024-01-15", "01-15"),
        ("score 0.95", "score 0.9"),
        ("43 passed in 1.12s", "43 passed in 1"),
        ("15个文件", "5个文件"),
        ("été", "t"),
    ],
)
def test_a_word_or_a_number_is_not_cut(output: str, quote: str) -> None:
    assert not holds(output, quote)


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("schema invalid, data valid", "valid"),
        ("15 failed, 5 failed", "5 failed"),
        ("all (valid)", "valid"),
        ("x=5;", "5"),
        ("python-3.11 installed", "3.11 installed"),
        ("passed=3,failed=0", "failed=0"),
        ("done in 3.", "done in 3"),
        ("== 43 passed, 1 skipped ==", "43 passed"),
        ("測試通過了 43 個", "通過"),
        ("共15个", "15"),
        ("✓ it works", "it works"),
        ("95 % done", "% done"),
    ],
)
def test_what_stands_between_the_edges_of_words_counts(output: str, quote: str) -> None:
    assert holds(output, quote)


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        (UNITTEST, "test_a (t.T) ... ok"),
        (UNITTEST, "test_a ... ok"),
        (UNITTEST, "test_a (t.T) ... FAIL ... test_c"),
        ("test a ... FAILED\ntest b ... ok\n", "test a ... ok"),
        ("test a ...\nFAILED\ntest b ...\nok\n", "test a ... ok"),
        (PYTEST, "test_parse_empty ... PASSED"),
        (PYTEST, "test_parse_empty [...] PASSED"),
        (TICKS, "test_a ... ✓"),
        ("b then a b", "a b ... b then"),
        ("one two three", "one two ... two three"),
        ("collected\n143 passed", "collected ... 43 passed"),
    ],
)
def test_dots_do_not_join_what_does_not_belong_together(
    output: str, quote: str
) -> None:
    assert not holds(output, quote)


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        (UNITTEST, "test_b (t.T) ... ok"),
        (UNITTEST, "test_a (t.T) … FAIL"),
        ("test_a ......... ok\n", "test_a ... ok"),
        ("test_a ...\nok\n", "test_a ... ok"),
        ("Ran 43 tests in 1s\n\nOK\n", "Ran 43 tests ... OK"),
        ("Running tests\n.....\nOK\n", "Running tests ... OK"),
        ("collected 43 items\nlots\n43 passed\n", "collected ... 43 passed"),
        ("2 passed in 0.1s and more", "2 passed in..."),
        ("AssertionError: assert 3 == 4 for x", "AssertionError: assert 3 == 4 ..."),
        ("foo bar\n==== 43 passed in 1s ====", "...==== 43 passed in 1s ===="),
        ("==== 43 passed, 1 skipped in 1s ====", "==== ... 43 passed ... ===="),
        ("a\n43 passed\nb", "(...) 43 passed [...]"),
        (
            f"{UNITTEST}\nRan 2 tests in 0.1s\n",
            "test_a (t.T) ... FAIL\n...\nRan 2 tests in 0.1s",
        ),
        (
            "t.py ...F.. [100%]\nlots\n1 failed, 5 passed\n",
            "t.py ...F.. [100%]\n[…]\n1 failed, 5 passed",
        ),
    ],
)
def test_dots_stand_for_what_was_left_out(output: str, quote: str) -> None:
    assert holds(output, quote)


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("test_a ......... ok\n", "test_a ... ok"),
        ("a ... FAIL\na ........ ok\n", "a ... ok"),
        ("Running tests\n.....\nOK\n", "Running tests ... OK"),
        ("Ran 2\nlots\nOK\n", "Ran 2 ... OK"),
        ("==== 43 passed, 1 skipped in 1s ====", "==== ... 43 passed ... ===="),
    ],
)
def test_what_stands_in_one_piece_is_as_long_as_it_is(output: str, quote: str) -> None:
    assert holds(output, quote, anywhere=False)


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("x ok\nall is well done\n", "ok ... all is well"),
        ("3 failed\nlots\n5 ok\n", "3 ... 5 ok"),
        ("x a ... b\n", "a ... b"),
    ],
)
def test_a_short_piece_is_a_whole_line(output: str, quote: str) -> None:
    assert holds(output, quote)
    assert not holds(output, quote, anywhere=False)


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("404: page\n", "200: page"),
        ("  12 | failed\n", "3 | failed"),
        ("7\tFAILED tests\n", "1\tFAILED tests"),
        ("def f():\n    return 1\n", "12: def f():\n13:     return 1"),
        ("def f():\n", "7|def f():"),
    ],
)
def test_a_line_number_in_a_quote_must_be_the_outputs_own(
    output: str, quote: str
) -> None:
    assert not holds(output, quote)


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("a 43 passed b", "`43 passed`"),
        ("a 43 passed b", "```\n43 passed\n```"),
        ("a 43 passed b", '"43 passed"'),
        ("a 43 passed b", "“43 passed”"),
        ("line1\nline2\tend", "line1\\nline2\\tend"),
        ("line1\r\nline2", "line1\\r\\nline2"),
        ("C:\\x\\y", "C:\\\\x\\\\y"),
        ('{"a": "b"}', '`{\\"a\\": \\"b\\"}`'),
        ("│ a │ 1 │", "│ a │ 1 │"),
    ],
)
def test_a_quote_may_be_wrapped_or_escaped(output: str, quote: str) -> None:
    assert holds(output, quote)


words = st.text("ab1.,-\n _中é…", max_size=30)


@given(before=words, quote=words, after=words)
def test_a_match_is_a_stretch_of_whole_words(
    before: str, quote: str, after: str
) -> None:
    """Only by dots may anything else than a stretch of the output count."""
    if "…" not in quote and "..." not in quote and holds(before + after, quote):
        assert "".join(quote.split()) in "".join(
            (before + after).replace("…", "...").split()
        )


@pytest.mark.bench
@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("0", "0"),
        ("-0", "-0"),
        ("1,", "1"),
        ("0a ", "0"),
        ("0 ... 1 ", "0 ... 2"),
        (".", "0 ... 2"),
        ("word ", "word " * (LONGEST // 5 - 1) + "x"),
        ("word ", "word ... " * 2_000),
        ("0", "0" * (LONGEST - 1) + "1"),
    ],
)
def test_time_grows_with_length_alone(output: str, quote: str) -> None:
    text = OutputText("0" + output * (4_000_000 // len(output)))
    began = time.thread_time()
    assert not holds(text, quote)
    # Work that grows faster would take minutes here.
    assert time.thread_time() - began < 10
