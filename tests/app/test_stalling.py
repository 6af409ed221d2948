"""A run whose agent repeats itself and changes nothing stalls, whatever checks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal, GoalOutcome, run_goal
from goalrunner.testing import ScriptedConversation

ROUNDS = 6


def never(response: object, agent: object) -> bool:
    """A check of the response that always fails."""
    return False


PYTHON = {"validators": [{"name": "no", "python": "checks:no"}]}
RESPONSE = {"validators": [{"name": "no", "run": "false"}], "deliverable": "response"}
CASES = pytest.mark.parametrize(
    ("keys", "callables"),
    [(PYTHON, ()), (RESPONSE, ()), ({}, (never,))],
    ids=["python validator", "response", "callable"],
)


def run(
    folder: Path, keys: dict[str, Any], callables: tuple[Any, ...], *said: str
) -> GoalOutcome:
    (folder / "checks.py").write_text("def no(response, agent):\n    return False\n")
    goal = Goal.model_validate(
        {"objective": "Answer.", "max_iterations": ROUNDS, **keys}
    )
    return run_goal(
        ScriptedConversation(*said), goal, validators=callables, workspace=folder
    )


@CASES
@pytest.mark.slow
def test_an_agent_that_repeats_itself_stalls(
    tmp_path: Path, keys: dict[str, Any], callables: tuple[Any, ...]
) -> None:
    outcome = run(tmp_path, keys, callables, *["I cannot."] * ROUNDS)
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        "blocked",
        "stalled",
        4,
    )


@CASES
@pytest.mark.slow
def test_an_agent_with_another_answer_each_time_goes_on(
    tmp_path: Path, keys: dict[str, Any], callables: tuple[Any, ...]
) -> None:
    outcome = run(
        tmp_path,
        keys,
        callables,
        *[f"It takes {number} s." for number in range(ROUNDS)],
    )
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        "capped",
        "max_iterations",
        ROUNDS,
    )


def test_other_words_are_no_progress_where_a_command_checks_the_files(
    tmp_path: Path,
) -> None:
    keys = {"validators": [{"name": "no", "run": "false"}]}
    outcome = run(
        tmp_path, keys, (), *[f"Attempt {number}." for number in range(ROUNDS)]
    )
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        "blocked",
        "stalled",
        4,
    )
