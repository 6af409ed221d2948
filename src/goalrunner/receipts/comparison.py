"""What single tests show about a change, by their endings on four sides.

Nothing is run or read in this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from goalrunner.checking.lost_tests import (
    ABSENT,
    RAN,
    SKIPPED,
    knows_tests,
    moved_tests,
)
from goalrunner.core.verdict import ValidatorResult

UNKNOWN = ""
"""The ending of a test where no runner gave the ids of tests."""
_FAILED = ("red", "timeout", "crashed")
"""The reasons of a validator that did run, and did not pass."""


@dataclass(frozen=True)
class Sides:
    """The results of the validators on the four sides of a change."""

    base: Sequence[ValidatorResult]
    source: Sequence[ValidatorResult]
    """The source of the head with the checks of the base."""
    checks: Sequence[ValidatorResult]
    """The checks of the head on the source of the base."""
    head: Sequence[ValidatorResult]
    lacks_on_base: frozenset[str] = frozenset()
    """The validators whose command names files that the base lacks."""
    lacks_on_checks: frozenset[str] = frozenset()
    """Those that lack such a file with the checks of the head as well."""


def fails_without_change(sides: Sides) -> bool:
    """Return whether a validator, as a whole, fails without the change.

    Without results of single tests, red counts only where all files exist that the
    command names: a shell that does not find its script is red as well.
    """
    green = {result.name for result in sides.source if result.passed}
    for result in sides.base:
        # A validator that is green only with other checks shows nothing by itself.
        is_fixed = result.reason in _FAILED and result.name in green
        could_run = _endings_in(result) or result.name not in sides.lacks_on_base
        if is_fixed and could_run:
            return True
    for result in sides.checks:
        could_run = result.name not in sides.lacks_on_checks
        if result.reason in _FAILED and result.tests is None and could_run:
            return True
    return False


class Proof(StrEnum):
    """What the endings of a test on the four sides prove."""

    FAIL_TO_PASS = "fail to pass"  # noqa: S105
    """It is red without the change, and green with it."""
    PASS_TO_PASS = "pass to pass"  # noqa: S105
    VACUOUS = "vacuous"
    """It is new, and green without the change as well."""
    UNPROVEN = "new"
    """It is new and green; whether it fails without the change is not known."""
    CHANGED = "changed"
    """It passes in the version of the head alone, which fails on the base."""
    WEAKENED = "weakened"
    """It passes in the version of the head alone, which passes on the base as well."""
    LOST = "lost"
    """The version of the base does not run on the source of the head."""
    DELETED = "deleted"
    SKIPPED = "skipped"
    PASS_TO_FAIL = "pass to fail"  # noqa: S105
    STILL_FAILS = "still fails"
    NEW_FAILS = "new, fails"
    NOT_RUN = "not run"
    NOT_KNOWN = "not known"
    """It is green; the version of the base did not run on the source of the head."""


SUSPECT = (
    Proof.WEAKENED,
    Proof.DELETED,
    Proof.SKIPPED,
    Proof.LOST,
    Proof.VACUOUS,
)
"""What a reviewer of the change should look at, the most serious one first."""
RED = (Proof.PASS_TO_FAIL, Proof.NEW_FAILS, Proof.STILL_FAILS)
"""What makes a change fail."""


@dataclass(frozen=True)
class Endings:
    """How one test ended on each side.

    It is `absent` where the test does not exist, and empty where no tests are known.
    """

    base: str
    source: str
    checks: str
    head: str


@dataclass(frozen=True)
class ComparedTest:
    """One test of a validator, and what it shows."""

    validator: str
    test: str
    endings: Endings
    proof: Proof
    moved_to: str = ""
    """Its id in the head, if the head has it in another file."""


def compared_tests(sides: Sides) -> tuple[ComparedTest, ...]:
    """Return a row for each test that a runner reported by its id."""
    rows: list[ComparedTest] = []
    for name in _validators(sides):
        results = _ResultsOfValidator(
            _named(sides.base, name),
            _named(sides.source, name),
            _named(sides.checks, name),
            _named(sides.head, name),
        )
        for test, moved_to in results.tests():
            endings = results.endings(test, moved_to)
            proof = proof_of(endings)
            rows.append(ComparedTest(name, test, endings, proof, moved_to))
    return tuple(rows)


def counts(rows: Iterable[ComparedTest]) -> dict[Proof, int]:
    """Return the number of tests by what they prove, without zeros."""
    numbers = Counter(row.proof for row in rows)
    return {proof: numbers[proof] for proof in Proof if numbers[proof]}


def proof_of(endings: Endings) -> Proof:
    """Return what the endings of a test mean."""
    if endings.head in SKIPPED:
        ran_before = endings.base in RAN
        return Proof.SKIPPED if ran_before else Proof.NOT_RUN
    # A test that did not run on the base proves no more than a new one.
    if endings.base not in RAN and endings.head not in (ABSENT, UNKNOWN):
        return _proof_of_new(endings)
    if endings.head == UNKNOWN:
        return Proof.NOT_RUN
    if endings.head == ABSENT:
        return Proof.DELETED
    if endings.head != "passed":
        was_green = endings.base == "passed"
        return Proof.PASS_TO_FAIL if was_green else Proof.STILL_FAILS
    if endings.source == UNKNOWN:
        return Proof.NOT_KNOWN
    if endings.source == "failed":
        is_red_on_base = endings.checks in ("failed", ABSENT)
        return Proof.CHANGED if is_red_on_base else Proof.WEAKENED
    if endings.source == ABSENT:
        return Proof.LOST
    # The test itself may have changed, so that the new version is red on the base.
    is_red_on_base = endings.base != "passed" or endings.checks == "failed"
    return Proof.FAIL_TO_PASS if is_red_on_base else Proof.PASS_TO_PASS


def _proof_of_new(endings: Endings) -> Proof:
    """Return what a test shows that the base does not have."""
    if endings.head != "passed":
        return Proof.NEW_FAILS
    if endings.checks == "passed":
        return Proof.VACUOUS
    # A test is absent where its file cannot be imported without the change.
    if endings.checks in ("failed", ABSENT):
        return Proof.FAIL_TO_PASS
    return Proof.UNPROVEN


def _validators(sides: Sides) -> list[str]:
    results = (*sides.head, *sides.base)
    return list(dict.fromkeys(result.name for result in results))


def _named(results: Sequence[ValidatorResult], name: str) -> ValidatorResult | None:
    return next((result for result in results if result.name == name), None)


@dataclass(frozen=True)
class _ResultsOfValidator:
    """The results of one validator on the four sides; None where it did not run."""

    base: ValidatorResult | None
    source: ValidatorResult | None
    checks: ValidatorResult | None
    head: ValidatorResult | None

    def tests(self) -> Iterator[tuple[str, str]]:
        """Yield each test of base and head, with its new id if it was moved."""
        moved: dict[str, str] = {}
        if self.head is not None:
            moved = moved_tests(self.base, self.head)
        new_ids = set(moved.values())
        base, head = _endings_in(self.base), _endings_in(self.head)
        all_tests = dict.fromkeys((*base, *head))
        files_with_tests: set[str] = set()
        for test in all_tests:
            file, separator, _ = test.partition("::")
            if separator:
                files_with_tests.add(file)
        for test in all_tests:
            # A file that could not be collected on one side has its tests on another.
            if test not in new_ids and test not in files_with_tests:
                yield test, moved.get(test, "")

    def endings(self, test: str, moved_to: str) -> Endings:
        """Return how a test ended on each side."""
        in_head = moved_to or test
        checks = _ending(self.checks, in_head)
        # A run that ended early does not show that the test fails.
        if checks == ABSENT and not knows_tests(self.checks):
            checks = UNKNOWN
        return Endings(
            base=_ending(self.base, test),
            source=_ending(self.source, test),
            checks=checks,
            head=_ending(self.head, in_head),
        )


def _endings_in(result: ValidatorResult | None) -> Mapping[str, str]:
    if result is None or result.tests is None:
        return {}
    return result.tests.endings


def _ending(result: ValidatorResult | None, test: str) -> str:
    """Return how a test ended.

    A test that was collected, and that did not end, has failed: its process died.
    """
    if result is None or result.tests is None:
        return UNKNOWN
    endings = result.tests.endings
    if test not in endings:
        file = test.partition("::")[0]
        # Its file could not be collected.
        return "failed" if endings.get(file) == "failed" else ABSENT
    if not endings[test] and _has_uncollected_file(endings):
        # Pytest runs no test at all then, so nothing is known of this one.
        return UNKNOWN
    return endings[test] or "failed"


def _has_uncollected_file(endings: Mapping[str, str]) -> bool:
    return any(
        ending == "failed" and "::" not in test for test, ending in endings.items()
    )
