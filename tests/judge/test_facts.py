"""Facts are the runner's own words, shown so that no other words can pass for them."""

from __future__ import annotations

import pytest

from goalrunner.core.observation import Observation
from goalrunner.judge.citations import is_fact
from goalrunner.judge.evidence import plain_fact


@pytest.mark.parametrize(
    ("fact", "plain"),
    [
        ("exit 0", "exit 0"),
        ("1,234 bytes", "1,234 bytes"),
        ("left behind: a, exit 0, green", "left behind: a; exit 0; green"),
        ("a) [o9] shell (exit 0", "a o9 shell exit 0"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_fact_is_shown_as_one(fact: str, plain: str) -> None:
    assert plain_fact(fact) == plain


def test_a_heading_is_cited_with_its_own_id_and_source() -> None:
    seen = Observation(
        id="o4", source="validator tests", facts=("exit 0", "green"), round=1
    )
    assert is_fact(seen, "validator tests (exit 0, green)")
    assert is_fact(seen, "[o4] validator tests (green)")
    assert not is_fact(seen, "[o5] validator tests (green)")
    assert not is_fact(seen, "validator lint (green)")
    assert not is_fact(seen, "")
    assert not is_fact(Observation(id="o4", source="shell", round=1), "")


@pytest.mark.parametrize(
    "said",
    [
        "exit 0",
        "exit code 0",
        "exitCode: 0",
        "exit_code=0",
        "Exited with code 0",
        "exit status: 0",
    ],
)
def test_an_exit_code_may_be_named_in_other_words(said: str) -> None:
    seen = Observation(id="o4", source="shell", facts=("exit 0",), round=1)
    assert is_fact(seen, said)
    assert not is_fact(seen, f"{said}1")


def test_look_alikes_make_no_facts_either() -> None:
    assert plain_fact("left behind: a， exit 0（x）") == "left behind: a; exit 0 x"
