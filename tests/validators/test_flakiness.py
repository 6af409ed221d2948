"""Checks that contradict themselves."""

from __future__ import annotations

from goalrunner.model.validation import ValidatorResult
from goalrunner.validators.flakiness import flaky


def test_red_and_green_on_one_tree_is_flaky() -> None:
    def result(name: str, *, passed: bool) -> ValidatorResult:
        return ValidatorResult(name=name, passed=passed)

    seen = {
        "tree-1": [result("a", passed=False), result("b", passed=True), result("a", passed=True)],
        "tree-2": [result("b", passed=False), result("c", passed=False)],
        "tree-3": [result("c", passed=True)],
    }
    assert flaky(seen) == ("a",)
    assert flaky({}) == ()
