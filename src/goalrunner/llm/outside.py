"""Models that the calling program brings: functions, objects and other frameworks."""

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
from goalrunner.core.outages import causes_of
from goalrunner.core.outcome import Usage
from goalrunner.llm.client import LLM
from goalrunner.llm.requests import Reply
from goalrunner.system.event_loop import in_thread

CUSTOM = "custom/"
"""The prefix of the names of functions and objects."""

Ask = Callable[[Sequence[Message]], Awaitable[tuple[str, Usage]]]
"""Sends system and user messages (OpenAI's format) to a model.

It returns the model's text and the usage of the call.
"""


def is_custom(model: str) -> bool:
    """Return whether the name is that of a function or object of the program."""
    return model.startswith(CUSTOM)


class OutsideModel(LLM):
    """A model that is not called through LiteLLM, with its own usage account.

    Context window and price are unknown.
    """

    def __init__(
        self,
        name: str,
        ask: Ask,
        account: Account = "agent",
        error_of: Callable[[Exception, str], GoalError] | None = None,
    ) -> None:
        """`error_of` converts an error of `ask`; the default is `goal_error_of`."""
        super().__init__(name, account=account)
        self._ask = ask
        self._error_of = error_of or goal_error_of

    async def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Ask once. Raise ModelError.

        Tools, schema, temperature and streaming are not used.
        """
        try:
            text, usage = await self._ask(messages)
        except Exception as error:
            raise self._error_of(error, self.model) from error
        self.usage = self.usage + usage
        return Reply(text, (), usage, "stop")


class CustomModel(OutsideModel):
    """Asks `complete(messages)` of an object, or calls a function with the messages.

    The answer is a text. A plain function runs in a thread, a coroutine function in the
    event loop. If it raises, the model did not answer. Tokens and dollars are unknown.
    """

    def __init__(self, source: Any, account: Account = "judge") -> None:
        name = getattr(source, "__name__", type(source).__name__).strip("<>")
        complete = getattr(source, "complete", None)
        function: Callable[..., Any] = complete if callable(complete) else source

        async def ask(messages: Sequence[Message]) -> tuple[str, Usage]:
            # Copies, because the function may change them.
            copies = [dict(message) for message in messages]
            if inspect.iscoroutinefunction(function):
                answer = function(copies)
            else:
                answer = await in_thread(function, copies)
            if inspect.isawaitable(answer):
                answer = await answer
            if not isinstance(answer, str):
                raise RequestRejected(
                    f"{self.model} returned {kind_of(answer)}, not a text",
                    "return the answer of the model as a str",
                )
            return answer, Usage.unknown()

        super().__init__(f"{CUSTOM}{name}", ask, account)


def as_model(value: object) -> LLM | None:
    """Return a function, or an object with `complete`, as a model.

    An LLM is returned as it is; for anything else, return None.
    """
    if isinstance(value, LLM):
        return value
    has_complete = callable(getattr(value, "complete", None))
    # A class is callable, but makes an object instead of an answer.
    if isinstance(value, type) or not (callable(value) or has_complete):
        return None
    return CustomModel(value)


def goal_error_of(error: BaseException, model: str = "") -> GoalError:
    """Return an exception of other code as a GoalError.

    `model` is the model that failed; empty if an agent failed.
    """
    chain = causes_of(error)
    for item in chain:
        if isinstance(item, GoalError):
            return item
    status = _status_of(chain)
    text = one_line(f"{type(error).__name__}: {error}", 500)
    if status in (401, 403):
        return AuthenticationFailed(
            f"the provider refused the key ({status}): {text}",
            "set the key of the model",
        )
    if status == 404:
        return ModelNotFound(
            f"the model was not found: {text}", "correct the name of the model"
        )
    if model:
        return ProviderUnavailable(f"{model} did not answer: {text}")
    return AgentError(f"the agent failed: {text}")


def _status_of(chain: list[BaseException]) -> int | None:
    """Return the HTTP status that clients of providers give their exceptions."""
    for item in chain:
        status = getattr(item, "status_code", None)
        if isinstance(status, int):
            return status
    return None
