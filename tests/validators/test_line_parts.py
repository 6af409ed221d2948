"""Lines are split at their top-level `&&`."""

from __future__ import annotations

import pytest

from goalrunner.validators.line_parts import parts_of


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("pytest -q", [("pytest -q", "pytest")]),
        ("ruff check . && pytest -q", [("ruff check .", ""), ("pytest -q", "pytest")]),
        ("cd x && pytest", [("cd x && pytest", "pytest")]),
        (". ./env && set -e && export A=1 && npx jest", [(". ./env && set -e && export A=1 && npx jest", "jest")]),
        ("cd x && ruff check && pytest", [("cd x && ruff check", ""), ("pytest", "pytest")]),
        ("pytest && render | diff - golden", [("pytest", "pytest"), ("render | diff - golden", "")]),
        ("pytest | tee log && true", [("pytest | tee log", ""), ("true", "")]),
        ("! pytest && true", [("! pytest", ""), ("true", "")]),
        ("a && b || c", [("a && b || c", "")]),
        ("a; b && c", [("a; b && c", "")]),
        ("a & b && c", [("a & b && c", "")]),
        ("(a && b) && go test ./...", [("(a && b)", ""), ("go test ./...", "go test")]),
        ("echo 'a && b' && pytest", [("echo 'a && b'", ""), ("pytest", "pytest")]),
        ("pytest # a && b", [("pytest # a && b", "pytest")]),
        ("if a && b; then c; fi && d", [("if a && b; then c; fi", ""), ("d", "")]),
        ("a && 'unclosed", [("a && 'unclosed", "")]),
    ],
)
def test_a_line_is_split_where_programs_follow_each_other(line: str, parts: list[tuple[str, str]]) -> None:
    assert [(part.text, part.runner.name if part.runner else "") for part in parts_of(line)] == parts
