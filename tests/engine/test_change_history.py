"""What differs between any two snapshots, known from the steps between consecutive ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.engine.snapshot_tracker import SHOWN, ChangeHistory

Content = dict[str, str]

PATHS = ["a", "b", "c", "d", "e"]
CONTENTS = st.lists(st.dictionaries(st.sampled_from(PATHS), st.sampled_from("12")), min_size=1, max_size=12)


def name(content: Content) -> str:
    """The id of a snapshot: the same content, the same id."""
    return repr(sorted(content.items()))


def differing(one: Content, other: Content) -> tuple[str, ...]:
    return tuple(sorted(path for path in one.keys() | other.keys() if one.get(path, "") != other.get(path, "")))


def history(contents: list[Content]) -> ChangeHistory:
    made, before = ChangeHistory(), contents[0]
    for content in contents:
        made.add(
            name(content), {path: (before.get(path, ""), content.get(path, "")) for path in differing(before, content)}
        )
        before = content
    return made


@given(CONTENTS)
def test_any_two_snapshots_are_compared_by_their_contents(contents: list[Content]) -> None:
    made = history(contents)
    for one in contents:
        for other in contents:
            assert made.between(name(one), name(other)) == differing(one, other)


@given(CONTENTS)
def test_what_differs_from_the_newest_snapshot_is_known_of_each_earlier_one(contents: list[Content]) -> None:
    newest = contents[-1]
    before = history(contents).before(name(newest))
    for content in contents:
        expected = differing(content, newest)
        found = before[name(content)]
        assert (found.first, found.count) == (expected[:SHOWN], len(expected))
        assert [path for path in PATHS if found.has(path)] == list(expected)


def test_a_file_that_changed_and_changed_back_does_not_differ() -> None:
    made = history([{"a": "1"}, {"a": "2", "b": "1"}, {"a": "1", "b": "1"}, {"a": "1", "b": "1", "c": "1"}])
    found = made.before(name({"a": "1", "b": "1", "c": "1"}))
    assert found[name({"a": "1"})].first == ("b", "c")
    assert not found[name({"a": "1"})].has("a")
    assert found[name({"a": "2", "b": "1"})].first == ("a", "c")


def test_many_changes_at_once_are_compared_as_few_are() -> None:
    first: Content = {}
    second = {f"f{number:04}": "1" for number in range(1000)}
    third = {**second, "f0000": "2", "f0500": "2"}
    fourth = {**third, "f0000": "1"}
    found = history([first, second, third, fourth]).before(name(fourth))
    assert (found[name(first)].first, found[name(first)].count) == (("f0000", "f0001", "f0002"), 1000)
    assert found[name(second)].first == ("f0500",)
    assert found[name(third)].first == ("f0000",)
