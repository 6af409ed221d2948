"""Models of the calling program: functions, objects, and errors of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from goalrunner.core.errors import (
    AgentError,
    AuthenticationFailed,
    GoalError,
    ModelNotFound,
    ProviderUnavailable,
    RequestRejected,
)
from goalrunner.core.outcome import Usage
from goalrunner.llm.outside import CustomModel, OutsideModel, as_model, goal_error_of

ASKED = [{"role": "user", "content": "Is it done?"}]


class StatusError(Exception):
    """An error of a client that has the HTTP status of its answer."""

    def __init__(self, status_code: int) -> None:
        super().__init__("no")
        self.status_code = status_code


@pytest.mark.parametrize(
    ("status", "expected"),
    [(401, AuthenticationFailed), (403, AuthenticationFailed), (404, ModelNotFound)],
)
async def test_a_status_of_a_function_names_the_key_or_the_model(
    status: int, expected: type[GoalError]
) -> None:
    def judge(messages: Any) -> str:
        raise RuntimeError("it failed") from StatusError(status)

    with pytest.raises(expected):
        await CustomModel(judge).complete(ASKED)


async def test_other_errors_of_a_function_mean_that_it_did_not_answer() -> None:
    def judge(messages: Any) -> str:
        raise KeyError("x")

    with pytest.raises(
        ProviderUnavailable, match="custom/judge did not answer: KeyError: 'x'"
    ):
        await CustomModel(judge).complete(ASKED)


async def test_what_is_no_text_is_refused_and_not_counted() -> None:
    model = CustomModel(lambda messages: 1)
    with pytest.raises(RequestRejected, match="not a text"):
        await model.complete(ASKED)
    assert model.usage == Usage()


async def test_the_same_model_with_another_account_counts_for_itself() -> None:
    async def ask(messages: Any) -> tuple[str, Usage]:
        return "yes", Usage(input_tokens=3, output_tokens=1, calls=1)

    first = OutsideModel("lab/one", ask)
    await first.complete(ASKED)
    second = first.separate("judge")
    assert (second.account, second.usage, type(second)) == (
        "judge",
        Usage(),
        OutsideModel,
    )
    assert (await second.complete(ASKED)).text == "yes"
    assert (first.usage.calls, second.usage.calls) == (1, 1)
    custom = as_model(lambda messages: "no")
    assert custom is not None
    assert isinstance(custom.separate("judge"), CustomModel)


def test_a_failing_agent_is_no_failing_model() -> None:
    assert isinstance(goal_error_of(ValueError("x")), AgentError)
    own_error = ModelNotFound("gone")
    wrapped = RuntimeError("outer")
    wrapped.__cause__ = own_error
    assert goal_error_of(wrapped, "lab/one") is own_error
