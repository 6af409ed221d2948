"""Every requirement has a test that shows it: `rows.txt` names one by the id of each."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NUMBERS = {"g": 51, "h": 45, "s": 45, "c": 16, "x": 19}


def rows() -> list[tuple[str, str, str]]:
    """Return id, file and test of each requirement."""
    text = (Path(__file__).parent / "rows.txt").read_text(encoding="utf-8")
    return re.findall(r"^(\w+) (\S+)::(\w+)$", text, re.MULTILINE)


def test_each_requirement_has_a_row() -> None:
    expected = [
        f"{letter}{number:02}"
        for letter, last in NUMBERS.items()
        for number in range(1, last + 1)
    ]
    assert [identifier for identifier, _, _ in rows()] == expected


def test_each_row_names_a_test_that_exists() -> None:
    missing = []
    for identifier, file, test in rows():
        path = TESTS / file
        if not path.exists() or f"def {test}(" not in path.read_text(encoding="utf-8"):
            missing.append(f"{identifier} {file}::{test}")
    assert missing == []
