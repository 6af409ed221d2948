"""Models of the calling program: a function, an object, or a model of another framework."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import (
    AgentError,
    AuthenticationFailed,
    GoalError,
    ModelNotFound,
    ProviderUnavailable,
    RequestRejected,
    kind_of,
    one_line,
)
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.llm.client import LLM
from goalrunner.llm.transport import Reply
from goalrunner.system.launcher import in_thread

CUSTOM = "custom/"  # how the names of functions and objects begin

Ask = Callable[[Sequence[Message]], Awaitable[tuple[str, Usage]]]
"""Sends system and user messages (OpenAI's shape) to a model; returns its text and the usage of the call."""


def is_custom(model: str) -> bool:
    """Return whether only the calling program can make the model of this name."""
    return model.startswith(CUSTOM)


class OutsideModel(LLM):
    """A model that is not called through LiteLLM, with its own usage account. Its window and its price are unknown."""

    def __init__(self, name: str, ask: Ask, account: Account = "agent") -> None:
        super().__init__(name, account=account)
        self._ask = ask

    async def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Ask once. Tools, schema, temperature and streaming are not used. Raise ModelError."""
        try:
            text, usage = await self._ask(messages)
        except Exception as error:
            raise failure_of(error, self.model) from error
        self.usage = self.usage + usage
        return Reply(text, (), usage, "stop")


class CustomModel(OutsideModel):
    """Asks `complete(messages)` of an object, or calls a function with the messages; the answer is a text.

    A function that is no coroutine function runs in a thread. An error in it means that the model did not answer. Tokens
    and dollars are unknown.
    """

    def __init__(self, given: Any, account: Account = "judge") -> None:
        name = getattr(given, "__name__", type(given).__name__).strip("<>")
        complete = getattr(given, "complete", None)
        function: Callable[..., Any] = complete if callable(complete) else given

        async def ask(messages: Sequence[Message]) -> tuple[str, Usage]:
            asked = [dict(message) for message in messages]
            answer = function(asked) if inspect.iscoroutinefunction(function) else await in_thread(function, asked)
            answer = await answer if inspect.isawaitable(answer) else answer
            if not isinstance(answer, str):
                said = f"{self.model} returned {kind_of(answer)}, not a text"
                raise RequestRejected(said, "return the answer of the model as a str")
            return answer, Usage.unknown()

        super().__init__(f"{CUSTOM}{name}", ask, account)


def as_model(value: object) -> LLM | None:
    """Return a function, or an object with `complete`, as a model; an LLM as it is; None for anything else."""
    if isinstance(value, LLM):
        return value
    if isinstance(value, type) or not (callable(value) or callable(getattr(value, "complete", None))):
        return None
    return CustomModel(value)


def failure_of(error: BaseException, model: str = "") -> GoalError:
    """Return an error of other code as one of ours. `model` is the name of a judge's model; empty: an agent failed."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    for item in chain:
        if isinstance(item, GoalError):
            return item
    status = next((code for item in chain if isinstance(code := getattr(item, "status_code", None), int)), None)
    text = one_line(f"{type(error).__name__}: {error}", 500)
    if status in (401, 403):
        return AuthenticationFailed(f"the provider refused the key ({status}): {text}", "set the key of the model")
    if status == 404:
        return ModelNotFound(f"the model was not found: {text}", "correct the name of the model")
    return ProviderUnavailable(f"{model} did not answer: {text}") if model else AgentError(f"the agent failed: {text}")
