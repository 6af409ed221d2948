"""The verdict on a transcript as lines."""

from __future__ import annotations

from textwrap import dedent

from goalrunner.audits.pages import verdict_facts
from goalrunner.core.verdict import CriterionVerdict, GoalVerdict
from goalrunner.reports.layout import laid_out
from tests.support.told_run import green_verdict, red_verdict


def test_a_complete_verdict_lists_its_criteria() -> None:
    assert laid_out(verdict_facts(green_verdict())) == dedent("""\
        verdict    complete · 1.00
        criteria   ✓ pytest passes
                   ✓ parse('') returns an empty Document
        """)


def test_a_red_verdict_says_what_is_missing() -> None:
    assert laid_out(verdict_facts(red_verdict("no \x1b[31mevidence"))) == dedent("""\
        verdict    not complete · 0.62
        criteria   ✗ parse('') works: no evidence
        """)


def test_what_a_criterion_says_already_is_not_said_again() -> None:
    criteria = (CriterionVerdict(criterion="a", satisfied=False, missing="show it"),)
    for missing in ("show it", "a: show it", "a:  show it\n"):
        verdict = GoalVerdict(
            score=1.0, complete=False, missing=missing, criteria=criteria
        )
        assert (
            laid_out(verdict_facts(verdict))
            == "verdict    not complete · 1.00\ncriteria   ✗ a: show it\n"
        )
    more = GoalVerdict(
        score=1.0, complete=False, missing="a: show it\nand more", criteria=criteria
    )
    assert laid_out(verdict_facts(more)).endswith("missing    and more\n")
