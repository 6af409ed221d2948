"""A verdict must speak of every criterion and every constraint, in their words or under their labels."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.ports import AuditRequest
from goalrunner.core.verdict import CriterionVerdict
from goalrunner.judge.json_reader import UnreadableReplyError
from goalrunner.judge.requirements import Requirement, requirements_of
from goalrunner.judge.verdict_check import in_words_of_goal
from goalrunner.judge.verdict_parser import JudgeOutcome
from tests.support.trails import trail

GOAL = requirements_of(
    ["pytest passes", "parse('') returns an empty Document."],
    ["keep the signature of parse()"],
)


def outcome(*criteria: str, complete: bool = True) -> JudgeOutcome:
    """An answer with these entries, all satisfied."""
    entries = [
        CriterionVerdict(criterion=text, satisfied=True, evidence=(), missing="")
        for text in criteria
    ]
    return JudgeOutcome(criteria=entries, score=1.0, complete=complete, missing="")


def entries_of(
    answer: JudgeOutcome, requirements: Sequence[Requirement]
) -> list[CriterionVerdict]:
    """The entries of an answer about a goal with these criteria and constraints."""
    criteria, constraints = (
        tuple(one.text for one in requirements if one.constraint is constraint)
        for constraint in (False, True)
    )
    return in_words_of_goal(
        answer, AuditRequest("Do it.", criteria, constraints, "workspace", 1, trail())
    ).criteria


def test_labels_number_criteria_and_constraints() -> None:
    assert [requirement.label for requirement in GOAL] == ["c1", "c2", "k1"]


def test_a_constraint_among_the_criteria_is_a_criterion() -> None:
    assert requirements_of(["works", "Keep it small"], ["Keep it small"]) == (
        Requirement("c1", "works"),
        Requirement("c2", "Keep it small"),
    )
    assert requirements_of(["keep it small"], ["Keep it small."]) == (
        Requirement("c1", "keep it small"),
        Requirement("k1", "Keep it small.", constraint=True),
    )


@pytest.mark.parametrize(
    "entries",
    [
        (
            "pytest passes",
            "parse('') returns an empty Document.",
            "keep the signature of parse()",
        ),
        (
            "Pytest  passes.",
            "parse(‘’) returns an empty Document",
            "Keep the signature of parse()",
        ),
        (
            "1. pytest passes",
            "2) parse('') returns an empty Document.",
            "- keep the signature of parse()",
        ),
        ("c1: pytest passes", "[c2] the empty text is parsed", "k1"),
        ("K1", "C2", "C1"),
        (
            "Criterion c1",
            "Criterion 2: parse('') returns an empty Document",
            "Constraint: keep the signature of parse()",
        ),
    ],
)
def test_an_entry_is_known_by_its_words_or_its_label(entries: tuple[str, ...]) -> None:
    verdicts = entries_of(outcome(*entries), GOAL)
    assert {verdict.criterion for verdict in verdicts} == {
        requirement.text for requirement in GOAL
    }


def test_words_win_over_a_label_that_slipped() -> None:
    verdicts = entries_of(outcome("c2: pytest passes", "c2", "k1"), GOAL)
    assert next(verdict.criterion for verdict in verdicts) == "pytest passes"


def test_criteria_that_differ_in_case_alone_are_two() -> None:
    twins = requirements_of(["prints Yes", "prints YES"], [])
    assert [requirement.label for requirement in twins] == ["c1", "c2"]
    for entries in (
        ("prints YES", "prints Yes"),
        ("prints Yes.", "2. prints YES"),
        ("c1: prints Yes", "c2: prints YES"),
        ("c2", "c1"),
    ):
        verdicts = entries_of(outcome(*entries), twins)
        assert {verdict.criterion for verdict in verdicts} == {
            "prints Yes",
            "prints YES",
        }
    with pytest.raises(UnreadableReplyError, match="c1: prints Yes; c2: prints YES"):
        entries_of(outcome("prints yes"), twins)
    with pytest.raises(UnreadableReplyError, match=r"no entry for c2: prints YES\."):
        entries_of(outcome("prints Yes", "prints Yes"), twins)


def test_a_criterion_that_is_there_twice_is_required_once() -> None:
    twice = requirements_of(["It works", "It works "], ["keep it", "keep it"])
    assert twice == (
        Requirement("c1", "It works"),
        Requirement("k1", "keep it", constraint=True),
    )
    for entries in (("it works.", "keep it"), ("c1: It works", "c1: it works.", "k1")):
        assert {
            verdict.criterion for verdict in entries_of(outcome(*entries), twice)
        } == {"It works", "keep it"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("404: the body is JSON", "500: the body is JSON"),
        ("prints the area in m2", "prints the area in m²"),
        ("prints 'x'", "prints ‘x’"),
        ("It works", "it works."),
        ("1. It works", "2. It works"),
        ("-x is accepted", "x is accepted"),
    ],
)
def test_criteria_are_equal_only_if_their_text_is(first: str, second: str) -> None:
    for pair in (
        requirements_of([first, second], []),
        requirements_of([first], [second]),
    ):
        assert [one.text for one in pair] == [first, second]
        labels = [one.label for one in pair]
        for entries in ((first, second), (str(pair[0]), str(pair[1])), labels):
            assert [
                verdict.criterion for verdict in entries_of(outcome(*entries), pair)
            ] == [first, second]
        with pytest.raises(UnreadableReplyError, match="no entry for"):
            entries_of(outcome(first), pair)


def test_a_label_decides_between_texts_that_copying_makes_equal() -> None:
    pair = requirements_of(["prints m2", "prints m²"], [])
    entries = entries_of(outcome("c1: prints m2", "c2: Prints m2."), pair)
    assert [entry.criterion for entry in entries] == ["prints m2", "prints m²"]


def test_an_entry_with_another_number_is_about_something_else() -> None:
    only = requirements_of(["404: the body is JSON"], [])
    with pytest.raises(UnreadableReplyError, match="no entry for c1"):
        entries_of(outcome("500: the body is JSON"), only)


_TEXTS = (
    st.text(alphabet="aA2²45.:-'‘ \"c1", min_size=1, max_size=9)
    .map(str.strip)
    .filter(lambda text: text and not re.match(r"\W*[ck]\d", text))
)


@given(st.lists(_TEXTS, min_size=1, max_size=4), st.lists(_TEXTS, max_size=3))
def test_a_verdict_in_the_words_of_the_goal_covers_every_requirement(
    criteria: list[str], bounds: list[str]
) -> None:
    goal = requirements_of(criteria, bounds)
    assert [one.text for one in goal] == list(dict.fromkeys([*criteria, *bounds]))
    for entries in (
        [one.text for one in goal],
        list(map(str, goal)),
        [one.label for one in goal],
    ):
        verdict = outcome(*reversed(entries))
        request = AuditRequest(
            "Do it.", tuple(criteria), tuple(bounds), "workspace", 1, trail()
        )
        assert [
            entry.criterion for entry in in_words_of_goal(verdict, request).criteria
        ] == [one.text for one in reversed(goal)]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("filler", ["-", " ", "criterion ", "c", "1", "c1 "])
def test_time_grows_with_the_length_of_an_entry_alone(filler: str) -> None:
    long = filler * (200_000 // len(filler)) + "x"
    found = entries_of(outcome(long, complete=False), GOAL)
    assert len(found) == 1


def test_similar_words_are_not_enough() -> None:
    with pytest.raises(
        UnreadableReplyError, match=r"The verdict has no entry for c1: pytest passes\."
    ):
        entries_of(outcome("pytest does not pass", "c2", "k1"), GOAL)


def test_a_verdict_on_constraints_alone_says_nothing_of_the_objective() -> None:
    only = requirements_of([], ["keep it small"])
    with pytest.raises(UnreadableReplyError, match="no criterion of the objective"):
        entries_of(outcome("keep it small"), only)
    assert len(entries_of(outcome("keep it small", "it works"), only)) == 2


def test_a_verdict_that_says_not_complete_may_speak_of_what_is_open_alone() -> None:
    assert [
        entry.criterion for entry in entries_of(outcome("c2", complete=False), GOAL)
    ] == [GOAL[1].text]


def test_entries_beyond_the_goal_are_kept() -> None:
    assert (
        entries_of(outcome("c1", "c2", "k1", "it is documented"), GOAL)[3].criterion
        == "it is documented"
    )
