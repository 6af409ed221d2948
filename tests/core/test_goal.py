"""A goal made in Python: the short forms of a goal file, and the same checks."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, JudgeConfig, ValidatorSpec
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.loading import load_goal_text


def test_the_short_forms_of_a_goal_file_work_in_python() -> None:
    goal = Goal(
        objective="x",
        validator="pytest -q",
        judge="a/b",
        model="c/d",
        timeout="30m",
        max_iterations=float("inf"),
    )
    assert goal.validators == (ValidatorSpec(name="pytest", run="pytest -q"),)
    assert (goal.judge, goal.agent) == (JudgeConfig("a/b"), AgentConfig(model="c/d"))
    assert (goal.timeout, goal.max_iterations) == (1800, None)
    assert Goal(objective="x", agent="claude", model="opus").agent == AgentConfig(
        use="claude", model="opus"
    )
    assert Goal(
        objective="x", agent=AgentConfig(max_steps=3), model="c/d"
    ).agent == AgentConfig(model="c/d", max_steps=3)


def test_a_goal_is_the_same_after_validation_of_its_own_values() -> None:
    goal = Goal(
        objective="x",
        validator=["a", "a"],
        agent={"use": "command", "command": "./work.sh < {prompt_file}"},
    )
    assert goal.agent.command == ("./work.sh < {prompt_file}",)
    assert [validator.name for validator in goal.validators] == ["a", "a-2"]
    assert Goal.model_validate(goal.model_dump()) == goal


def is_done() -> bool:
    return True


@pytest.mark.parametrize("key", ["validator", "validators"])
def test_validators_are_callables_commands_and_specifications(key: str) -> None:
    spec = ValidatorSpec(run="ruff check", timeout=60)
    for checks, commands, callables in (
        (is_done, [], (is_done,)),
        ("pytest -q", ["pytest -q"], ()),
        (spec, ["ruff check"], ()),
        ({"run": "make"}, ["make"], ()),
        (
            [is_done, "pytest -q", spec, is_done],
            ["pytest -q", "ruff check"],
            (is_done,) * 2,
        ),
        (iter(("a", is_done)), ["a"], (is_done,)),
    ):
        goal = Goal(objective="x", **{key: checks})  # type: ignore[arg-type]
        assert [validator.run for validator in goal.validators] == commands
        assert goal.callables == callables
        assert goal.model_copy(update={"owner": "ada"}).callables == callables
        assert Goal.model_validate(goal.model_dump()).callables == ()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"objective": " "}, "is empty"),
        ({"timeout": "soon"}, '"soon" is not a valid duration'),
        ({"validator": "a", "validators": [{"run": "b"}]}, "remove the others"),
        ({"model": "a/b", "agent": {"model": "c/d"}}, "remove one of the two"),
        ({"agent": {"params": {"api_key": "x"}}}, "api_key is not for params"),
        (
            {"workspace": {"setup": "make", "check": "checkout"}},
            'has no "checkout" any more',
        ),
        ({"validators": [{"run": "a", "cwd": "/tmp"}]}, "leaves the workspace"),
    ],
)
def test_wrong_values_are_refused_as_in_a_goal_file(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        Goal.model_validate({"objective": "x", **fields})


def test_the_message_of_a_wrong_value_does_not_show_the_value() -> None:
    with pytest.raises(ValidationError) as refused:
        AgentConfig(api_key_env="sk-secret-1")
    assert "sk-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"agent": "claude"}, 14_400.0),
        ({"agent": ["claude", "codex"]}, 14_400.0),
        ({"agent": {"use": "command", "command": ["sh", "-c", "true"]}}, 14_400.0),
        ({"agent": "claude", "max_iterations": 3}, 14_400.0),
        ({"agent": "claude", "timeout": "30m"}, 1_800.0),
        ({"agent": "claude", "timeout": math.inf}, None),
        ({"agent": "claude", "timeout": None}, None),
        ({"agent": "claude", "budget": {"tokens": 1_000}}, None),
        ({"agent": "claude", "budget": {"cost_usd": 1.0}}, None),
        ({"model": "openai/gpt-5"}, None),
    ],
)
def test_an_external_agent_without_timeout_and_budget_has_four_hours(
    fields: dict[str, Any], seconds: float | None
) -> None:
    goal = Goal(objective="Do it.", validator="true", **fields)
    assert goal.timeout == seconds
    again = load_goal_text(dump_goal(goal), "goal.toml", {}, {})
    assert again.timeout == seconds
