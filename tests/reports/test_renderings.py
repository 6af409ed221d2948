"""Screens of a terminal and texts of reports are what tests/reports/screens holds.

After an intended change, `pytest tests/reports --update-goldens` writes them, and their diff shows what the change does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner.reports.terminal_text import width
from tests import renderings
from tests.reports import pages

SCREENS = Path(__file__).with_name("screens")


def check(name: str, text: str, request: pytest.FixtureRequest) -> None:
    """Compare a text with its file, or write the file."""
    file = SCREENS / f"{name}.txt"
    if request.config.getoption("--update-goldens"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return renderings.drawn()


@pytest.mark.parametrize(
    "name", [*(moment.__name__ for moment in renderings.MOMENTS), "piped"]
)
def test_a_moment_looks_as_it_is_kept(
    drawn: dict[str, str], name: str, request: pytest.FixtureRequest
) -> None:
    check(name, drawn[name], request)


@pytest.mark.parametrize("page", pages.PAGES)
def test_a_report_reads_as_it_is_kept(
    page: Callable[[], pages.Sections], request: pytest.FixtureRequest
) -> None:
    check(page.__name__, pages.page_text(page()), request)


@pytest.mark.parametrize("moment", renderings.MOMENTS)
def test_a_moment_fits_its_terminal(
    drawn: dict[str, str], moment: Callable[[renderings.Screen], None]
) -> None:
    parts = re.split(r"(?m)^=+ \d+x\d+ =+\n", drawn[moment.__name__])[1:]
    for part, (columns, height) in zip(parts, renderings.SIZES, strict=True):
        assert len(part.rstrip().splitlines()) <= height
        assert max(map(width, part.splitlines())) <= columns
