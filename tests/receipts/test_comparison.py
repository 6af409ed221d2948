"""What the endings of a test on four sides prove, as a table."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from goalrunner.core.verdict import CollectedTests, ValidatorResult
from goalrunner.receipts.comparison import (
    Endings,
    Proof,
    Sides,
    compared_tests,
    counts,
    fails_without_change,
    proof_of,
)


@pytest.mark.parametrize(
    ("base", "source", "checks", "head", "proof"),
    [
        # Tests that both have.
        ("failed", "passed", "failed", "passed", Proof.FAIL_TO_PASS),
        ("passed", "passed", "passed", "passed", Proof.PASS_TO_PASS),
        ("passed", "passed", "failed", "passed", Proof.FAIL_TO_PASS),
        ("passed", "failed", "failed", "passed", Proof.CHANGED),
        ("failed", "failed", "failed", "passed", Proof.CHANGED),
        ("passed", "failed", "passed", "passed", Proof.WEAKENED),
        ("failed", "failed", "passed", "passed", Proof.WEAKENED),
        ("passed", "absent", "passed", "passed", Proof.LOST),
        ("passed", "passed", "", "passed", Proof.PASS_TO_PASS),
        ("passed", "passed", "passed", "absent", Proof.DELETED),
        ("passed", "", "", "", Proof.NOT_RUN),
        ("passed", "passed", "passed", "skipped", Proof.SKIPPED),
        ("passed", "passed", "passed", "xfailed", Proof.SKIPPED),
        ("skipped", "skipped", "skipped", "skipped", Proof.NOT_RUN),
        ("passed", "", "", "failed", Proof.PASS_TO_FAIL),
        ("passed", "", "", "passed", Proof.NOT_KNOWN),
        ("failed", "", "", "passed", Proof.NOT_KNOWN),
        ("failed", "passed", "", "passed", Proof.FAIL_TO_PASS),
        ("failed", "", "", "failed", Proof.STILL_FAILS),
        ("skipped", "skipped", "passed", "passed", Proof.VACUOUS),
        ("skipped", "skipped", "failed", "passed", Proof.FAIL_TO_PASS),
        # New tests.
        ("absent", "absent", "failed", "passed", Proof.FAIL_TO_PASS),
        ("absent", "absent", "absent", "passed", Proof.FAIL_TO_PASS),
        ("absent", "absent", "passed", "passed", Proof.VACUOUS),
        ("absent", "absent", "skipped", "passed", Proof.UNPROVEN),
        ("absent", "absent", "", "passed", Proof.UNPROVEN),
        ("absent", "absent", "failed", "failed", Proof.NEW_FAILS),
        ("absent", "absent", "passed", "skipped", Proof.NOT_RUN),
        # No ids are known of the base.
        ("", "", "", "passed", Proof.UNPROVEN),
    ],
)
def test_the_endings_on_four_sides_say_what_a_test_proves(
    base: str, source: str, checks: str, head: str, proof: Proof
) -> None:
    assert proof_of(Endings(base, source, checks, head)) is proof


def result(**endings: str) -> tuple[ValidatorResult, ...]:
    """The result of one validator with these tests of the file `t.py`."""
    return results({f"t.py::{name}": ending for name, ending in endings.items()})


def results(endings: Mapping[str, str]) -> tuple[ValidatorResult, ...]:
    tests = CollectedTests.model_validate({"endings": endings})
    return (ValidatorResult(name="tests", passed=True, tests=tests),)


def test_each_test_has_one_row_and_the_kinds_are_counted() -> None:
    sides = Sides(
        base=result(old="passed", gone="passed"),
        source=result(old="passed", gone="passed"),
        checks=result(old="passed", new="failed", empty="passed"),
        head=result(old="passed", new="passed", empty="passed"),
    )

    rows = compared_tests(sides)

    assert {row.test: row.proof for row in rows} == {
        "t.py::old": Proof.PASS_TO_PASS,
        "t.py::gone": Proof.DELETED,
        "t.py::new": Proof.FAIL_TO_PASS,
        "t.py::empty": Proof.VACUOUS,
    }
    assert counts(rows) == {
        Proof.FAIL_TO_PASS: 1,
        Proof.PASS_TO_PASS: 1,
        Proof.VACUOUS: 1,
        Proof.DELETED: 1,
    }


def test_a_test_in_another_file_is_the_same_test() -> None:
    sides = Sides(
        base=results({"a.py::test": "passed"}),
        source=results({"a.py::test": "passed"}),
        checks=results({"b.py::test": "passed"}),
        head=results({"b.py::test": "passed"}),
    )

    (row,) = compared_tests(sides)

    assert (row.test, row.moved_to, row.proof) == (
        "a.py::test",
        "b.py::test",
        Proof.PASS_TO_PASS,
    )


def test_a_file_that_cannot_be_imported_on_the_base_fails_there() -> None:
    sides = Sides(
        base=results({}),
        source=results({}),
        checks=results({"new.py": "failed"}),
        head=results({"new.py::test": "passed"}),
    )

    (row,) = compared_tests(sides)

    assert row.endings.checks == "failed"
    assert row.proof is Proof.FAIL_TO_PASS


def test_a_run_that_ended_early_does_not_prove_that_a_new_test_fails() -> None:
    early = CollectedTests.model_validate({"endings": {}, "whole": False})
    checks = (ValidatorResult(name="tests", passed=False, tests=early),)

    (row,) = compared_tests(Sides(result(), result(), checks, result(new="passed")))

    assert row.proof is Proof.UNPROVEN


def test_a_test_that_did_not_end_has_failed() -> None:
    sides = Sides(result(t=""), result(t=""), result(t=""), result(t="passed"))

    (row,) = compared_tests(sides)

    assert row.endings.base == "failed"


def test_a_file_that_cannot_be_imported_says_nothing_of_the_tests_of_other_files() -> (
    None
):
    sides = Sides(
        base=results({"a.py::test": "passed"}),
        source=results({"a.py::test": "passed"}),
        checks=results({"a.py::test": "", "a.py::more": "", "new.py": "failed"}),
        head=results(
            {"a.py::test": "passed", "a.py::more": "passed", "new.py::test": "passed"}
        ),
    )

    rows = compared_tests(sides)

    assert {row.test: row.proof for row in rows} == {
        "a.py::test": Proof.PASS_TO_PASS,
        "a.py::more": Proof.UNPROVEN,
        "new.py::test": Proof.FAIL_TO_PASS,
    }


def test_without_ids_there_are_no_rows() -> None:
    plain = (ValidatorResult(name="lint", passed=True),)

    assert compared_tests(Sides(plain, plain, plain, plain)) == ()


def outcome(reason: str, *, with_tests: bool = False) -> tuple[ValidatorResult, ...]:
    """The result of one validator, with the id of a test or without."""
    tests = CollectedTests(endings={"t.py::test": "failed"}) if with_tests else None
    values = {"name": "v", "passed": reason == "passed", "reason": reason}
    return (ValidatorResult.model_validate(values | {"tests": tests}),)


GREEN, RED = outcome("passed"), outcome("red")
LACKING = frozenset({"v"})


@pytest.mark.parametrize(
    ("sides", "fails"),
    [
        (Sides(RED, GREEN, GREEN, GREEN), True),
        # The base is red because it lacks the script that the command names.
        (Sides(RED, GREEN, GREEN, GREEN, lacks_on_base=LACKING), False),
        # It is not known what the script says without the change.
        (Sides(RED, GREEN, (), GREEN, lacks_on_base=LACKING), False),
        # The script of the head is red on the source of the base.
        (Sides(RED, GREEN, RED, GREEN, lacks_on_base=LACKING), True),
        (Sides(GREEN, GREEN, RED, GREEN), True),
        # Tests that ran on the base show that the command could run there.
        (
            Sides(
                outcome("red", with_tests=True), GREEN, (), GREEN, lacks_on_base=LACKING
            ),
            True,
        ),
        (
            Sides(
                RED, GREEN, RED, GREEN, lacks_on_base=LACKING, lacks_on_checks=LACKING
            ),
            False,
        ),
        (Sides(outcome("not_found"), GREEN, GREEN, GREEN), False),
        (Sides(RED, RED, GREEN, GREEN), False),
    ],
)
def test_a_red_validator_counts_only_where_its_command_could_run(
    sides: Sides, *, fails: bool
) -> None:
    assert fails_without_change(sides) == fails
