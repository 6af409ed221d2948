"""What a receipt says about a run: its result, its proof and its labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from goalrunner.core.events import ChangedChecks
from goalrunner.core.labels import Label
from goalrunner.core.observation import EvidenceRow
from goalrunner.core.outcome import GoalOutcome, GoalStatus
from goalrunner.core.verdict import CollectedTests, ValidatorResult
from goalrunner.receipts.comparison import Sides
from goalrunner.receipts.predicate import CheckedChange, VerifiedRun, predicate_of
from goalrunner.receipts.statement import (
    CheckedGoal,
    CheckedRevision,
    Predicate,
    RequiredProof,
)

_GREEN = {"t.py::old": "passed"}
_NEW = {**_GREEN, "t.py::new": "passed"}
_NEW_IS_RED = {**_GREEN, "t.py::new": "failed"}
_CRITERION = EvidenceRow(
    criterion="It is fast.", satisfied=True, observation="o1", fact="exit 0"
)


def result(endings: Mapping[str, str], *, passed: bool = True) -> ValidatorResult:
    return ValidatorResult(
        name="tests",
        command="pytest",
        passed=passed,
        reason="passed" if passed else "red",
        tests=CollectedTests(endings=dict(endings), whole=True),
    )


def without_ids(*, passed: bool = True) -> ValidatorResult:
    return result({}, passed=passed).model_copy(update={"tests": None})


def predicate(
    sides: Sides,
    *,
    required: RequiredProof = "",
    open_decision: ChangedChecks | None = None,
    **outcome: Any,
) -> Predicate:
    values = {
        "run_id": "r",
        "objective": "It parses.",
        "status": GoalStatus.COMPLETE,
        "iterations": 1,
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": "2026-01-01T00:00:01+00:00",
    }
    run = VerifiedRun(GoalOutcome(**{**values, **outcome}), sides, open_decision)
    change = CheckedChange(
        CheckedRevision(commit="a" * 40, tree="b" * 40),
        CheckedRevision(commit="c" * 40, tree="d" * 40),
        CheckedGoal(sha256="0" * 64, objective="It parses."),
        required,
    )
    return predicate_of(run, change)


def sides(
    base: ValidatorResult, head: ValidatorResult, checks: ValidatorResult | None = None
) -> Sides:
    """A change that leaves the base's tests green, or makes them green."""
    source = base if base.passed else head
    return Sides((base,), (source,), (checks or head,), (head,))


FIX = sides(result(_GREEN), result(_NEW), result(_NEW_IS_RED, passed=False))
RED_VALIDATOR = sides(result({}, passed=False), result({}))
MISSING = sides(
    result({}, passed=False).model_copy(update={"reason": "not_found"}), result({})
)
_RED = result({"t.py::old": "failed"}, passed=False)
WEAKENED = Sides((_RED,), (_RED,), (result(_GREEN),), (result(_GREEN),))
WITHOUT_IDS = sides(without_ids(), without_ids(), without_ids(passed=False))
REFACTORING = sides(result(_GREEN), result(_GREEN))


@pytest.mark.parametrize(
    ("compared", "outcome", "proof"),
    [
        (FIX, {}, "fail to pass"),
        (RED_VALIDATOR, {}, "fail to pass"),
        (WITHOUT_IDS, {}, "fail to pass"),
        # That the program of a validator is missing shows nothing.
        (MISSING, {}, "no regression"),
        # The head's version of the tests alone is green.
        (WEAKENED, {}, "no regression"),
        (REFACTORING, {}, "no regression"),
        (
            REFACTORING,
            {"evidence": (_CRITERION,), "models": {"judge": "m"}},
            "criteria",
        ),
        (FIX, {"status": GoalStatus.CAPPED}, "none"),
        (REFACTORING, {"labels": ("checks passed before the change",)}, "none"),
    ],
)
def test_a_receipt_names_its_strongest_proof(
    compared: Sides, outcome: dict[str, Any], proof: str
) -> None:
    assert predicate(compared, **outcome).proof == proof


def test_a_refactoring_is_complete_with_a_label() -> None:
    receipt = predicate(REFACTORING)

    assert receipt.result == "complete"
    assert receipt.labels == (Label.PASSED_BEFORE.value,)


@pytest.mark.parametrize("compared", [FIX, RED_VALIDATOR])
def test_a_fix_has_the_proof_that_is_required(compared: Sides) -> None:
    receipt = predicate(compared, required="fail to pass")

    assert receipt.result == "complete"
    assert receipt.required_proof == "fail to pass"


def test_a_refactoring_lacks_the_proof_that_is_required() -> None:
    receipt = predicate(REFACTORING, required="fail to pass")

    assert (receipt.result, receipt.proof) == ("not complete", "none")
    assert "--require-fail-to-pass" in receipt.reason


def test_vacuous_tests_have_a_label_with_their_number() -> None:
    receipt = predicate(sides(result(_GREEN), result(_NEW)))

    assert Label.VACUOUS_TESTS.about("1") in receipt.labels


def test_an_open_decision_says_how_the_change_is_accepted() -> None:
    changed = ChangedChecks(
        key="k",
        paths=("t.py",),
        results=(),
        why="the validators pass only with the agent's versions of these files",
        hint='allow = ["t.py"]',
    )

    receipt = predicate(FIX, open_decision=changed, status=GoalStatus.BLOCKED)

    assert (receipt.result, receipt.proof) == ("blocked", "none")
    # A person may have written the change.
    assert "the change's versions of these files: t.py" in receipt.reason
    assert "--allow t.py" in receipt.reason


def test_the_reason_of_a_red_head_names_its_tests() -> None:
    red = result({"t.py::old": "failed"}, passed=False)
    red = red.model_copy(update={"feedback": "=== FAILURES ===\nassert 1 == 2"})
    compared = Sides((result(_GREEN),), (), (), (red,))

    receipt = predicate(compared, status=GoalStatus.CAPPED, message="=== FAILURES")

    assert receipt.reason == f"validator tests: {red.summary}: t.py::old"


_ONE = {"t.py::old": "passed"}
_TWO = {**_ONE, "t.py::gone": "passed"}


@pytest.mark.parametrize(
    ("label", "is_kept"),
    [
        ("tests removed: 1", False),
        # A runner without ids counted more than the rows name.
        ("tests removed: 2", True),
        # Whoever accepted it is part of the label.
        ("tests removed: 1 (judge)", True),
    ],
)
def test_a_deleted_test_has_one_label(label: str, *, is_kept: bool) -> None:
    receipt = predicate(sides(result(_TWO), result(_ONE)), labels=(label,))

    assert "deleted tests: 1" in receipt.labels
    assert (label in receipt.labels) == is_kept
