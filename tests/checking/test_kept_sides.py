"""Results of single tests on the sides of a check, in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.checking.kept_sides import KeptSides
from goalrunner.checking.sides import Side
from goalrunner.core.errors import RecordError
from goalrunner.core.verdict import CollectedTests, ValidatorResult

RESULT = ValidatorResult(
    name="tests",
    passed=True,
    reason="passed",
    summary="1 passed with the key s3cret",
    tests=CollectedTests(endings={"t.py::new": "passed"}, whole=True),
)


def test_results_are_read_with_the_ids_of_tests_and_without_secrets(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sides.json"
    sides: dict[Side, tuple[ValidatorResult, ...]] = {"M": (RESULT,), "N": ()}

    def redact(text: str) -> str:
        return text.replace("s3cret", "***")

    KeptSides.of("a" * 40, sides, redact).write(file)
    kept = KeptSides.read(file)

    assert kept is not None
    assert kept.tree == "a" * 40
    assert kept.sides["M"][0].tests == RESULT.tests
    assert kept.sides["M"][0].summary == "1 passed with the key ***"
    assert "B" not in kept.sides


def test_a_missing_file_has_nothing_and_a_damaged_one_is_an_error(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sides.json"
    assert KeptSides.read(file) is None

    file.write_text("{")
    with pytest.raises(RecordError):
        KeptSides.read(file)
