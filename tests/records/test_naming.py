"""Ids of runs are short, readable, and unused."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.records.run_folder import RunFolder, RunIds, new_run_id


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("Make parse() accept empty input.", "make-parse"),
        ("Fix the bug in Grüße", "fix-bug-grusse"),
        ("the and of", ""),
        ("直してください", ""),
        ("Internationalisation", "internationa"),
        ("a/../../b", "b"),
        ("--help", "help"),
    ],
)
def test_words_of_the_objective_follow_four_signs(objective: str, words: str) -> None:
    identifier = new_run_id(objective, lambda taken: False, random.Random(7))

    assert identifier.partition("-")[2] == words
    assert re.fullmatch(r"[a-z][a-z0-9]{3}", identifier[:4])


def test_the_randomness_comes_from_outside() -> None:
    assert new_run_id("x", lambda taken: False, random.Random(1)) == new_run_id(
        "x", lambda taken: False, random.Random(1)
    )
    assert new_run_id("x", lambda taken: False) != new_run_id("x", lambda taken: False)


def test_a_taken_id_is_not_given_again() -> None:
    first = new_run_id("x", lambda taken: False, random.Random(1))

    assert new_run_id("x", lambda identifier: identifier == first, random.Random(1)) != first


def test_four_signs_alone_tell_the_runs_of_a_home_apart(tmp_path: Path) -> None:
    first = RunIds(tmp_path, random.Random(1)).run_id("one")
    RunFolder.create(tmp_path, first)

    assert RunIds(tmp_path, random.Random(1)).run_id("two")[:4] != first[:4]


@given(objective=st.text())
def test_any_objective_gives_a_name_for_a_folder(objective: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]{3}(-[a-z0-9]+)*", new_run_id(objective, lambda taken: False))
