"""The pictures in docs/ are what the present program prints."""

from __future__ import annotations

import pytest

from tests import picture


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("terminal", marks=pytest.mark.slow),
        pytest.param("terminal-agent", marks=pytest.mark.slow),
        "batch",
    ],
)
def test_the_picture_is_drawn_by_the_present_program(name: str) -> None:
    kept = picture.words(picture.path_of(name).read_text(encoding="utf-8"))
    assert picture.words(picture.draw(name)) == kept, (
        "draw it again: python -m tests.picture"
    )
