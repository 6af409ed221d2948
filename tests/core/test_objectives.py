"""Objectives that name a result, and objectives that only name an activity."""

from __future__ import annotations

import pytest

from goalrunner import Goal
from goalrunner.core.goal import activity_warning

ACTIVITIES = (
    "Work on the parser.",
    "work on issue tracker integration",
    "Improve the documentation",
    "Improve performance of the importer",
    "Look into the flaky build",
    "Please clean up the code base.",
    "Investigate the memory leak",
    "Explore a better cache",
    "Continue the migration",
    "Keep improving the parser",
    "Help me with the tests",
    "Optimize the query planner",
    "Refactor the storage layer",
    "Make progress on the release",
    "Try to speed up the importer",
    "Polish the user interface",
)
RESULTS = (
    "Make the tests pass.",
    "make parse() accept empty input",
    "parse('') returns an empty Document.",
    "Fix the crash in slugify().",
    "Add a --json option to the list command.",
    "Improve slugify() so that the tests in test_slugs.py pass.",
    "Refactor the storage layer without a change of its public API; all tests pass.",
    "Optimize load(): at most 2 s for the large file.",
    "Work on the parser until pytest is green",
    "Clean up imports: ruff check . reports nothing, and no module has an unused import; exit code 0.",
    "Translate README.md into German.",
    "Upgrade the project to Django 5.2.",
    "Write a changelog entry for version 1.4.",
    "Explain rainbows to a child.",
    "Remove the deprecated function old_parse.",
    "Improve the coverage of parser.py from 70 % to 90 %.",
    "Research which three libraries read TOML, and list each with its license.",
    "Workers restart after a crash.",
)


@pytest.mark.parametrize("objective", ACTIVITIES)
def test_an_activity_gets_a_warning_with_a_better_form(objective: str) -> None:
    warning = activity_warning(Goal(objective=objective))
    assert warning is not None
    assert "write what is true at the end" in warning
    assert (
        activity_warning(Goal(objective=objective, success_criteria=["pytest passes"]))
        is None
    )


@pytest.mark.parametrize("objective", RESULTS)
def test_a_result_gets_none(objective: str) -> None:
    assert activity_warning(Goal(objective=objective)) is None
