"""A quote proves something only where it says more than the command, and is long enough to mean one thing."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import Citation
from goalrunner.judge.citations import Evidence
from goalrunner.judge.plain_text import folded
from goalrunner.judge.text_matching import CommandText, OutputText, forms_of
from tests.support.trails import seen, trail


def objection(command: str, output: str, quote: str) -> str:
    """What there is against quoting these words from the output of this command."""
    events = trail(seen(1, output, command=command, facts=("exit 0",)))
    request = AuditRequest("Do it.", (), (), "workspace", 1, events)
    evidence = Evidence(request)
    return evidence.check(Citation(observation="o1", quote=quote)).objection


@pytest.mark.parametrize(
    ("command", "output", "quote"),
    [
        ('echo "43 passed in 1.1s"', "43 passed in 1.1s\n", "43 passed in 1.1s"),
        ("echo  43   passed", "43 passed\n", "43 passed"),
        ("echo 43' 'passed", "43 passed\n", "43 passed"),
        ('echo "43 "passed', "43 passed\n", "43 passed"),
        ("printf '43\\tpassed'", "43\tpassed", "43\tpassed"),
        ("printf '=== %s ===' '43 passed'", "=== 43 passed ===", "=== 43 passed ==="),
        (
            "echo 43 passed, all is well",
            "43 passed, all is well",
            "43 passed ... all is well",
        ),
        (
            "echo 43 passed; echo 0 failed",
            "43 passed\n0 failed\n",
            "43 passed\n0 failed",
        ),
        (
            "echo 43 passed; echo 0 failed",
            "43 passed\n0 failed\n",
            "43 passed ... 0 failed",
        ),
        (
            "cat <<E\n43 passed\nin 1.1s\nE",
            "43 passed\nin 1.1s\n",
            "43 passed\nin 1.1s",
        ),
        ("echo '43 passed' | cat -n", "     1\t43 passed\n", "43 passed"),
        ("echo 43 passed # “really”", "43 passed", "`43 passed`"),
        (
            "echo '43 passed'; echo '0 failed'",
            "43 passed\n0 failed",
            "43 passed\\n0 failed",
        ),
        ("set -x; : 43 passed", "+ : 43 passed\n", "+ : 43 passed"),
        ("frob 43 passed", "sh: 1: frob: not found\n43 passed", "43 passed"),
        (
            '{"text": "43 passed\\nand well"}',
            "43 passed\nand well",
            "43 passed and well",
        ),
        ("test -f a.txt && echo EXISTS", "EXISTS\n", "EXISTS"),
        ("echo ｏｋ 43 passed", "ok 43 passed", "ok 43 passed"),
    ],
)
def test_words_of_the_command_prove_nothing(
    command: str, output: str, quote: str
) -> None:
    assert objection(command, output, quote) == (
        f'"{folded(quote)}" is part of the command of o1, not of its output'
    )


@pytest.mark.parametrize(
    ("command", "output", "quote"),
    [
        ("python -c \"print(repr(slugify('')))\"", "'untitled'\n", "'untitled'"),
        (
            'grep -n "def slugify" slugs.py',
            "12:def slugify(title: str) -> str:\n",
            "def slugify(title: str) -> str:",
        ),
        (
            'grep -n "def slugify" slugs.py',
            "12:def slugify(title: str) -> str:\n",
            "12:def slugify(title: str) -> str:",
        ),
        ("pytest -q tests/test_slugs.py", "43 passed in 1.1s\n", "43 passed in 1.1s"),
        ("cat b3.txt | wc -l", "3\n", "3"),
        ("ls", "slugs.py\ntests\n", "slugs.py"),
        (
            "pytest tests/test_a.py",
            "tests/test_a.py .. [100%]\n2 passed",
            "tests/test_a.py .. [100%]",
        ),
        (
            "src/slugs.py",
            "def slugify(title: str) -> str:\n",
            "def slugify(title: str)",
        ),
        (
            "echo begin; pytest -q",
            "begin\n43 passed in 1.1s\n",
            "begin\n43 passed in 1.1s",
        ),
        ("", "43 passed in 1.1s", "43 passed in 1.1s"),
    ],
)
def test_an_honest_quote_says_more_than_the_command(
    command: str, output: str, quote: str
) -> None:
    assert objection(command, output, quote) == ""


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("ok\n", "ok"),
        ("a\n  3 \nb", "3"),
        ("0", "0"),
        ("one\n\n  two\n", "one two"),
        ("1: yes\n", "yes"),
        ("3\r4\n", "4"),
    ],
)
def test_a_short_quote_counts_as_a_whole_line(output: str, quote: str) -> None:
    assert objection("make", output, quote) == ""


@pytest.mark.parametrize(
    ("output", "quote"),
    [
        ("not ok\n", "ok"),
        ("3 failed\n", "3"),
        ("b0rk 0 z", "0"),
        ("one two three", "one two"),
    ],
)
def test_a_short_quote_out_of_a_line_does_not_count(output: str, quote: str) -> None:
    assert objection("make", output, quote) == (
        f'"{quote}" is not a whole line of the output of o1; a quote of fewer than 8 characters must be a whole line'
    )


def test_short_parts_between_dots_must_be_whole_lines_too() -> None:
    assert objection("make", "0 tests\n12 have failed\n", "0 ... failed") != ""
    assert objection("make", "head\nmiddle\ntail\n", "head ... tail") == ""


def test_the_fact_still_proves_what_the_words_do_not() -> None:
    events = trail(
        seen(1, "EXISTS\n", command="test -f a.txt && echo EXISTS", facts=("exit 0",))
    )
    evidence = Evidence(AuditRequest("Do it.", (), (), "workspace", 1, events))
    assert evidence.check(Citation(observation="o1", fact="exit 0")).objection == ""


words = st.text("ab 12.\n", min_size=1, max_size=30)


@given(before=words, said=words, after=words)
def test_any_part_of_a_command_proves_nothing(
    before: str, said: str, after: str
) -> None:
    command = f"echo {before} {said} {after}"
    for form in forms_of(said):
        if len(folded(form)) >= 8:
            assert CommandText(command).says(form)


@given(
    output=st.text("ab \n", max_size=60),
    quote=st.text("ab \n", min_size=1, max_size=20),
)
def test_without_a_command_nothing_is_an_echo(output: str, quote: str) -> None:
    for form in forms_of(quote):
        assert not CommandText("").says(form)
        assert OutputText(output).holds(form, anywhere=True) >= OutputText(
            output
        ).holds(form)


@pytest.mark.parametrize("quote", ["0", "00 00 00 0", "0 ... 0", "never there"])
def test_time_grows_with_length_alone(quote: str) -> None:
    output = OutputText("00 " * 300_000)
    began = time.thread_time()
    for form in forms_of(quote):
        output.holds(form)
    assert time.thread_time() - began < 5
