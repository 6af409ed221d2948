"""A workplace for each run; what it leaves is measured when its test is over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.course import Course
from tests.support.rates import measure

Measured = Callable[[Course], None]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A workspace and a home."""
    return Course(tmp_path / "course")


@pytest.fixture
def measured() -> Measured:
    """Measure a run: any sample that is not good fails the test."""

    def check(course: Course) -> None:
        wrong = {
            name: [sample for sample in samples if sample]
            for name, samples in measure(course).items()
        }
        assert {name: samples[:5] for name, samples in wrong.items() if samples} == {}

    return check
