"""What differs between two snapshots, known from the steps between consecutive ones."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.engine.snapshot_tracker import Difference, gone_or_reverted, joined

Content = dict[str, str]

PATHS = ["a", "b", "c", "d", "e"]
CONTENTS = st.lists(
    st.dictionaries(st.sampled_from(PATHS), st.sampled_from("12")),
    min_size=1,
    max_size=12,
)


def changed(one: Content, other: Content) -> tuple[str, ...]:
    return tuple(
        sorted(
            path
            for path in one.keys() | other.keys()
            if one.get(path, "") != other.get(path, "")
        )
    )


def steps(contents: list[Content]) -> list[Difference]:
    pairs = pairwise(contents)
    return [
        {path: (old.get(path, ""), new.get(path, "")) for path in changed(old, new)}
        for old, new in pairs
    ]


@given(CONTENTS)
def test_any_two_snapshots_are_compared_by_their_contents(
    contents: list[Content],
) -> None:
    made = steps(contents)
    for first, one in enumerate(contents):
        for last in range(first, len(contents)):
            assert tuple(sorted(joined(made[first:last]))) == changed(
                one, contents[last]
            )


def test_a_file_that_changed_and_changed_back_does_not_differ() -> None:
    made = steps(
        [
            {"a": "1"},
            {"a": "2", "b": "1"},
            {"a": "1", "b": "1"},
            {"a": "1", "b": "1", "c": "1"},
        ]
    )
    assert sorted(joined(made)) == ["b", "c"]
    assert joined(made[1:]) == {"a": ("2", "1"), "c": ("", "1")}


@pytest.mark.parametrize(
    ("then", "now", "committed", "is_named"),
    [
        ("mine", "", "", True),  # untracked and removed
        ("mine", "", "old", True),  # changed and removed
        ("mine", "old", "old", True),  # changed and reverted
        ("mine", "new", "old", False),  # changed further
        ("mine", "new", "", False),
        ("old", "", "old", False),  # git has it
        ("old", "new", "old", False),
        ("", "new", "", False),
        ("", "old", "old", False),  # removed at the start, and back
    ],
)
def test_what_git_does_not_have_is_named_when_it_is_gone_or_reverted(
    then: str, now: str, committed: str, is_named: bool
) -> None:
    found = gone_or_reverted({"a": (then, now)}, {"a": committed} if committed else {})
    assert found == (("a",) if is_named else ())


def test_a_moved_file_and_the_data_of_a_repository_are_not_gone() -> None:
    assert (
        gone_or_reverted(
            {"a": ("mine", ""), "b": ("", "mine"), "lib/.git": ("x", "")}, {}
        )
        == ()
    )
