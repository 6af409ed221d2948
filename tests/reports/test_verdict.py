from __future__ import annotations

from textwrap import dedent

from goalrunner.core.verdict import CriterionVerdict, GoalVerdict
from goalrunner.reports.audit import verdict_text
from tests.support.told_run import green_verdict, red_verdict


def test_a_complete_verdict_lists_its_criteria() -> None:
    assert verdict_text(green_verdict()) == dedent("""\
        verdict    complete · 1.00
        criteria   ✓ pytest passes
                   ✓ parse('') returns an empty Document
        """)


def test_a_red_verdict_says_what_is_missing() -> None:
    assert verdict_text(red_verdict("no \x1b[31mevidence")) == dedent("""\
        verdict    not complete · 0.62
        criteria   ✗ parse('') works: no evidence
        """)


def test_answers_that_could_not_be_read_are_no_verdict() -> None:
    fallback = GoalVerdict(score=0.0, complete=False, source="fallback")
    assert verdict_text(fallback) == "verdict    none; the judge's answers could not be read\n"


def test_what_a_criterion_says_already_is_not_said_again() -> None:
    criteria = (CriterionVerdict(criterion="a", satisfied=False, missing="show it"),)
    for missing in ("show it", "a: show it", "a:  show it\n"):
        verdict = GoalVerdict(score=1.0, complete=False, missing=missing, criteria=criteria)
        assert verdict_text(verdict) == "verdict    not complete · 1.00\ncriteria   ✗ a: show it\n"
    more = GoalVerdict(score=1.0, complete=False, missing="a: show it\nand more", criteria=criteria)
    assert verdict_text(more).endswith("missing    and more\n")
