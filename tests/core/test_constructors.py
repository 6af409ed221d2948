"""Errors of goals that a program makes show the value that was given, and never a secret."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from goalrunner.core.constructors import shown_argument
from goalrunner.core.critic import CriticConfig
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget, JudgeConfig, ValidatorSpec

KEY = "sk-proj-0123456789abcdef"


def message_of(model: type[Frozen], fields: dict[str, Any]) -> str:
    """Return the only problem of a call, after its place."""
    with pytest.raises(ValidationError) as refused:
        model(**fields)
    (problem,) = refused.value.errors()
    place = ".".join(map(str, problem["loc"]))
    return f"{place}: {problem['msg']}" if place else problem["msg"]


@pytest.mark.parametrize(
    ("model", "fields", "message"),
    [
        (
            Goal,
            {"max_iterations": 0},
            "max_iterations: must be greater than or equal to 1, not 0; write inf to lift the limit",
        ),
        (
            Goal,
            {"deliverable": "file"},
            "deliverable: must be 'workspace' or 'response', not \"file\"",
        ),
        (
            Goal,
            {"preserve_context": "no"},
            'preserve_context: must be true or false, not the string "no"',
        ),
        (
            Goal,
            {"validators": [5]},
            "validators.0: must be a command, a ValidatorSpec or a callable, not the number 5",
        ),
        (
            Goal,
            {"max_iteration": 3},
            "max_iteration: is not a field of Goal; did you mean max_iterations?",
        ),
        (
            Goal,
            {"judge": {"minimum": 0.5}},
            "judge.minimum: is not a field of JudgeConfig; did you mean minimum_score?",
        ),
        (
            Goal,
            {"judge": {"minimum_score": 3}},
            "judge.minimum_score: must be less than or equal to 1, not 3",
        ),
        (
            Goal,
            {"timeout": -1},
            'timeout: -1 is not above zero; write seconds, or "90s", "30m", "2h", or inf to lift the limit',
        ),
        (
            Budget,
            {"tokens": "inf"},
            'tokens: must be a whole number, not the string "inf"; write inf without the quotes',
        ),
        (
            CriticConfig,
            {"run": "x", "threshold": 2},
            "threshold: must be less than or equal to 1, not 2",
        ),
        (
            ValidatorSpec,
            {"python": "a.b:c", "tests": "optional"},
            "tests: is for run alone, whose test runner names its tests",
        ),
        (
            ValidatorSpec,
            {},
            'a validator needs run = "command" or python = "package.module:function"',
        ),
    ],
)
def test_an_error_shows_the_value(
    model: type[Frozen], fields: dict[str, Any], message: str
) -> None:
    required = {"objective": "x"} if model is Goal else {}
    assert message_of(model, {**required, **fields}) == message


def test_an_objective_is_required() -> None:
    assert message_of(Goal, {}) == "objective: is missing"


@pytest.mark.parametrize(
    "fields",
    [
        {"deliverable": KEY},
        {"max_iterations": KEY},
        {"api_key": KEY},
        {"judge": {"api_key_env": KEY}},
        {"judge": {"api_key": KEY}},
        {"judge": {"params": "secret"}},
        {"agent": {"env": "secret"}},
        {"agent": {"params": {"api_key": "secret"}}},
        {"validators": [{"run": "x", "env": {"TOKEN": 9876543210}}]},
        {"redact": {"extra": ["secret"]}},
        {"redact": {"extra": "secret"}},
    ],
)
def test_no_error_shows_a_secret(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        Goal(**{"objective": "x", **fields})
    text = f"{refused.value}{refused.value.errors()}{refused.value.__cause__}"
    for secret in (KEY, '"secret"', "'secret'", "9876543210"):
        assert secret not in text


def test_several_problems_are_reported_together() -> None:
    with pytest.raises(ValidationError, match="3 validation errors for Goal"):
        Goal(objective="", max_iterations=0, budget=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "the number 0"),
        ("x", 'the string "x"'),
        (KEY, "this text"),
        (None, "None"),
        ([1], "a list"),
        (JudgeConfig(), "a JudgeConfig"),
    ],
)
def test_a_wrong_argument_is_shown(value: object, shown: str) -> None:
    assert shown_argument(value) == shown
