"""The signatures of goals and their tables show the fields, with their real defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from goalrunner.core.critic import CriticConfig
from goalrunner.core.field_types import Frozen
from goalrunner.core.goal import SHORT_KEYS, Goal
from goalrunner.core.goal_tables import Budget, JudgeConfig, ValidatorSpec
from goalrunner.core.outcome import GoalOutcome, Usage

REQUIRED: dict[type[Frozen], dict[str, Any]] = {
    Goal: {"objective": "x"},
    ValidatorSpec: {"run": "true"},
    CriticConfig: {"run": "true"},
    JudgeConfig: {},
    Budget: {},
}


@pytest.mark.parametrize("model", REQUIRED, ids=lambda model: model.__name__)
def test_a_signature_has_all_fields_and_no_others(model: type[Frozen]) -> None:
    short = {key for key in SHORT_KEYS if model is Goal}
    assert inspect.signature(model).parameters.keys() - short == (
        model.model_fields.keys()
    )


@pytest.mark.parametrize("model", REQUIRED, ids=lambda model: model.__name__)
def test_a_default_of_a_signature_is_that_of_the_field(model: type[Frozen]) -> None:
    required = REQUIRED[model]
    plain = model(**required)
    for name, parameter in inspect.signature(model).parameters.items():
        if parameter.default is parameter.empty:
            assert model.model_fields[name].is_required(), name
        elif name not in required and name != "model":
            assert model(**required, **{name: parameter.default}) == plain, name


@pytest.mark.parametrize("model", [GoalOutcome, Usage])
def test_a_model_has_a_signature_before_it_is_used(model: type[Frozen]) -> None:
    parameters = inspect.signature(model).parameters
    assert parameters.keys() == model.model_fields.keys()


def test_positional_arguments_are_those_of_the_signature() -> None:
    assert JudgeConfig("a/b", "Be strict.").system_prompt == "Be strict."
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3"):
        JudgeConfig("a/b", "Be strict.", "more")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"name each one: Goal\(NAME=VALUE\)"):
        Goal("x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values for argument 'model'"):
        JudgeConfig("a/b", model="c/d")  # type: ignore[misc]
