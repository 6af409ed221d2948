"""What the text of a goal asks to change by its name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.checking.named_by_goal import named_by_goal


@pytest.mark.parametrize(
    ("objective", "path"),
    [
        ("Fix deploy.sh", "deploy.sh"),
        ("Fix deploy.sh.", "ci/deploy.sh"),
        ("Fix `ci/deploy.sh` so that it no longer fails.", "ci/deploy.sh"),
        ("Please update the script deploy.sh!", "deploy.sh"),
        ("Document the options in README.md", "README.md"),
        ("Add a section about errors to docs/errors.md.", "docs/errors.md"),
        ("Write the list of names into names.txt", "names.txt"),
        ("Update CHANGELOG.md, README.md and docs/a.md.", "docs/a.md"),
        ("Add a conftest.py with a fixture", "conftest.py"),
        ("The build is broken.\nRepair the Makefile", "Makefile"),
        ("Regenerate the file data/out.json", "data/out.json"),
    ],
)
def test_files_that_it_asks_to_change(objective: str, path: str) -> None:
    assert named_by_goal([objective]).names(path)
    assert named_by_goal(["Be careful", objective]).names(path)
    assert not named_by_goal([objective], [f"Do not change {path}."]).names(path)
    assert not named_by_goal([f"{objective}\nLeave {path} as it is"]).names(path)


@pytest.mark.parametrize(
    ("objective", "path"),
    [
        ("Fix deploy.sh", "other.sh"),
        ("Fix deploy.sh", "mydeploy.sh"),
        ("Fix parse() so that data/input.csv loads", "data/input.csv"),
        ("Make render() print what golden/out.txt says", "golden/out.txt"),
        ("sh check.sh must pass", "check.sh"),
        ("Fix the parser without changing deploy.sh", "deploy.sh"),
        ("Fix deploy.sh, but don't touch lib.sh", "lib.sh"),
        ("Never edit deploy.sh", "deploy.sh"),
        ("The tests in tests/test_a.py pass", "tests/test_a.py"),
    ],
)
def test_files_that_it_names_otherwise(objective: str, path: str) -> None:
    assert not named_by_goal([objective]).names(path)


@pytest.mark.parametrize(
    ("objective", "command", "expected"),
    [
        ("Add a make target lint", "lint", True),
        ("Add a make target `lint`.", "lint", True),
        ("`make lint` must work", "lint", True),
        ("Provide `npm run build`", "build", True),
        ('Add a script "build" to package.json', "build", True),
        ('Add a "build" script', "build", True),
        ("Add linting", "lint", False),
        ("Add a make target lint, do not add a target docs", "docs", False),
    ],
)
def test_commands_that_it_names(
    objective: str, command: str, *, expected: bool
) -> None:
    assert named_by_goal([objective]).names_command(command) is expected
    assert not named_by_goal([objective], [f"no target {command}"]).names_command(
        command
    )


@given(st.text(max_size=80), st.text(max_size=20))
def test_any_text_is_read(text: str, path: str) -> None:
    named = named_by_goal([text])
    assert not (
        named.names(path)
        and path.strip()
        and path not in text
        and path.rpartition("/")[2] not in text
    )
    assert not named_by_goal([text], [text]).names(path) or not path
