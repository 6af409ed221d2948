"""A workplace for each run; what it leaves is measured when its test is over, and the rates are printed at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.course import Course
from tests.support.rates import Samples, measure
from tests.support.rates_table import note_samples, print_rates

Measured = Callable[[Course], Samples]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A workspace and a home."""
    return Course(tmp_path / "course")


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Measured:
    """Measure a run: its samples go into the table, and any that is not good fails the test."""

    def check(course: Course) -> Samples:
        samples = measure(course)
        note_samples(record_property, samples)
        wrong = {name: [sample for sample in found if sample] for name, found in samples.items()}
        assert {name: found[:5] for name, found in wrong.items() if found} == {}
        return samples

    return check


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the rates."""
    print_rates(terminalreporter)
