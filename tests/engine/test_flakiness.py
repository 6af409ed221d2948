"""Validators that contradict themselves on one content."""

from __future__ import annotations

from typing import Any

import pytest

from goalrunner.core.events import Colour, Content
from goalrunner.core.verdict import ValidatorResult
from goalrunner.engine.flakiness import Flakiness


def result(*, passed: bool, **more: Any) -> ValidatorResult:
    return ValidatorResult.model_validate(
        {"name": "t", "passed": passed, "steady": True, **more}, strict=False
    )


def seen(
    flakiness: Flakiness, key: str, when: str, *, passed: bool, **more: Any
) -> str:
    """One run of the validator on a content; when it had the other colour there before."""
    flakiness.begin(key, when)
    found = result(passed=passed, **more)
    earlier = flakiness.contradicted(found)
    flakiness.note(found)
    return earlier


@pytest.mark.parametrize("first", [True, False])
def test_the_other_colour_on_the_same_content_is_a_contradiction(first: bool) -> None:
    flakiness = Flakiness()
    assert seen(flakiness, "a", "the baseline", passed=first) == ""
    assert seen(flakiness, "a", "round 1", passed=not first) == "the baseline"


def test_one_colour_contradicts_nothing() -> None:
    flakiness = Flakiness()
    assert [
        seen(flakiness, "a", f"round {number}", passed=True) for number in range(3)
    ] == ["", "", ""]


def test_each_environment_has_results_of_its_own() -> None:
    flakiness = Flakiness()
    flakiness.begin("a", "round 1")
    flakiness.note(result(passed=False))
    assert flakiness.contradicted(result(passed=True), " in place") == ""
    flakiness.note(result(passed=True), " in place")
    resumed = Flakiness()
    resumed.recall([flakiness.content()])
    resumed.begin("a", "round 2")
    assert resumed.contradicted(result(passed=False)) == ""
    assert resumed.contradicted(result(passed=True)) == "round 1"
    assert resumed.contradicted(result(passed=False), " in place") == "round 1"


def test_another_content_may_have_another_colour_and_one_that_comes_back_is_known() -> (
    None
):
    flakiness = Flakiness()
    assert seen(flakiness, "a", "round 1", passed=False) == ""
    assert seen(flakiness, "b", "round 2", passed=True) == ""
    assert seen(flakiness, "a", "round 3", passed=True) == "round 1"


def test_the_first_time_is_named() -> None:
    flakiness = Flakiness()
    seen(flakiness, "a", "round 1", passed=False)
    seen(flakiness, "a", "round 2", passed=False)
    assert seen(flakiness, "a", "round 3", passed=True) == "round 1"


def test_validators_are_told_apart() -> None:
    flakiness = Flakiness()
    seen(flakiness, "a", "round 1", passed=False)
    assert seen(flakiness, "a", "round 2", passed=True, name="other") == ""


@pytest.mark.parametrize("more", [{"steady": False}, {"reason": "not_found"}])
def test_what_may_differ_and_what_did_not_run_say_nothing_about_the_content(
    more: dict[str, Any],
) -> None:
    flakiness = Flakiness()
    assert seen(flakiness, "a", "round 1", passed=False, **more) == ""
    assert flakiness.content().said == ()
    assert seen(flakiness, "a", "round 2", passed=True) == ""
    assert seen(flakiness, "a", "round 3", passed=False, **more) == ""


def test_a_result_that_is_red_for_being_flaky_is_not_remembered() -> None:
    flakiness = Flakiness()
    seen(flakiness, "a", "round 1", passed=True)
    seen(flakiness, "a", "round 2", passed=False, reason="flaky")
    assert seen(flakiness, "a", "round 3", passed=True) == ""


def test_the_content_for_the_log_holds_what_was_noted_since_the_check_began() -> None:
    flakiness = Flakiness()
    seen(flakiness, "a", "round 1", passed=False)
    seen(flakiness, "b", "round 2", passed=True)
    flakiness.note(result(passed=False, name="u"))
    said = (Colour(name="t", passed=True), Colour(name="u", passed=False))
    assert flakiness.content() == Content(key="b", when="round 2", said=said)


def test_another_process_goes_on_with_what_the_log_says() -> None:
    before = Flakiness()
    seen(before, "a", "round 1", passed=False)
    line = before.content().model_dump_json()
    after = Flakiness()
    after.recall([Content.model_validate_json(line)])
    assert seen(after, "b", "round 2", passed=True) == ""
    assert seen(after, "a", "round 3", passed=True) == "round 1"


def test_what_was_recalled_keeps_its_first_time() -> None:
    after = Flakiness()
    contents = [
        Content(key="a", when=f"round {number}", said=(Colour(name="t", passed=False),))
        for number in (1, 2)
    ]
    after.recall(contents)
    assert seen(after, "a", "round 3", passed=True) == "round 1"
