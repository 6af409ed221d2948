"""A verdict must speak of every criterion and every constraint, in their words or under their labels."""

from __future__ import annotations

import pytest

from goalrunner.judge.outcome import CriterionOutcome, JudgeOutcome
from goalrunner.judge.requirements import AbsentRequirementError, Requirement, matched, requirements_of

GOAL = requirements_of(["pytest passes", "parse('') returns an empty Document."], ["keep the signature of parse()"])


def outcome(*criteria: str, complete: bool = True) -> JudgeOutcome:
    """An answer with these entries, all satisfied."""
    entries = [CriterionOutcome(criterion=text, satisfied=True, evidence=[], missing="") for text in criteria]
    return JudgeOutcome(criteria=entries, score=1.0, complete=complete, missing="")


def test_labels_number_criteria_and_constraints() -> None:
    assert [requirement.label for requirement in GOAL] == ["c1", "c2", "k1"]


def test_a_constraint_among_the_criteria_is_required_once() -> None:
    assert requirements_of(["works", "Keep it small"], ["keep it small."]) == (
        Requirement("c1", "works"),
        Requirement("k1", "keep it small.", constraint=True),
    )


@pytest.mark.parametrize(
    "entries",
    [
        ("pytest passes", "parse('') returns an empty Document.", "keep the signature of parse()"),
        ("Pytest  passes.", "parse(‘’) returns an empty Document", "Keep the signature of parse()"),
        ("1. pytest passes", "2) parse('') returns an empty Document.", "- keep the signature of parse()"),
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
    verdicts = matched(outcome(*entries), GOAL)
    assert {verdict.criterion for verdict in verdicts} == {requirement.text for requirement in GOAL}


def test_words_win_over_a_label_that_slipped() -> None:
    verdicts = matched(outcome("c2: pytest passes", "c2", "k1"), GOAL)
    assert next(verdict.criterion for verdict in verdicts) == "pytest passes"


def test_similar_words_are_not_enough() -> None:
    with pytest.raises(AbsentRequirementError, match=r"The verdict has no entry for c1: pytest passes\."):
        matched(outcome("pytest does not pass", "c2", "k1"), GOAL)


def test_a_verdict_on_constraints_alone_says_nothing_of_the_objective() -> None:
    only = requirements_of([], ["keep it small"])
    with pytest.raises(AbsentRequirementError, match="no criterion of the objective"):
        matched(outcome("keep it small"), only)
    assert len(matched(outcome("keep it small", "it works"), only)) == 2


def test_a_verdict_that_says_not_complete_may_speak_of_what_is_open_alone() -> None:
    assert [entry.criterion for entry in matched(outcome("c2", complete=False), GOAL)] == [GOAL[1].text]


def test_entries_beyond_the_goal_are_kept() -> None:
    assert matched(outcome("c1", "c2", "k1", "it is documented"), GOAL)[3].criterion == "it is documented"
