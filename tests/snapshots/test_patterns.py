"""Patterns of paths, as in a .gitignore; and the table of caches."""

from __future__ import annotations

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.snapshots.patterns import CACHES, Patterns


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("tests/**", "tests/a.py", True),
        ("tests/**", "tests/deep/er/a.py", True),
        ("tests/**", "src/tests/a.py", False),
        ("tests/**", "Tests/a.py", False),
        ("build/", "sub/build/x", True),
        ("/build/", "sub/build/x", False),
        ("*.log", "a/b.log", True),
        ("**/x.py", "x.py", True),
        ("a[bc].py", "ac.py", True),
        ("with space.txt", "with space.txt", True),
    ],
)
def test_a_pattern_covers(pattern: str, path: str, covered: bool) -> None:
    assert Patterns([pattern]).match(path) is covered


def test_the_last_line_that_matches_decides_and_is_named() -> None:
    patterns = Patterns(["tests/**", "!tests/data/**", "*.json"])

    assert patterns.rule("tests/a.py") == "tests/**"
    assert patterns.rule("tests/data/a.py") is None
    assert patterns.rule("tests/data/a.json") == "*.json"
    assert patterns.rule("src/a.py") is None


def test_no_pattern_covers_nothing() -> None:
    assert Patterns([]).rule("a") is None


def test_a_pattern_that_cannot_be_read_is_named() -> None:
    with pytest.raises(UsageError, match="'!' is not a valid pattern"):
        Patterns(["ok", "!"])


@pytest.mark.parametrize(
    "path",
    [
        "a/__pycache__/b.cpython-311.pyc",
        ".coverage",
        "sub/.coverage.host.12",
        "htmlcov/index.html",
        ".DS_Store",
    ],
)
def test_what_checks_leave_behind_is_a_cache(path: str) -> None:
    assert Patterns(CACHES).match(path)


@pytest.mark.parametrize(
    "path", [".coveragerc", "b.pyc", "coverage.py", "src/cache.py", "tests/htmlcov.py"]
)
def test_what_steers_or_can_be_imported_is_no_cache(path: str) -> None:
    assert not Patterns(CACHES).match(path)
