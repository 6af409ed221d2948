"""A model that is a function or an object of the calling program; its tokens and dollars are unknown."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import GoalError, ProviderUnavailable, RequestRejected, kind_of
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.llm.client import LLM
from goalrunner.llm.transport import Reply
from goalrunner.system.launcher import in_thread

CUSTOM = "custom/"  # how the names of such models begin


def is_custom(model: str) -> bool:
    """Return whether only the calling program can make the model of this name."""
    return model.startswith(CUSTOM)


class OutsideModel(LLM):
    """A model that is not called through LiteLLM, with its own usage account. Its window and its price are unknown."""

    def __init__(self, name: str, account: Account) -> None:
        super().__init__(name, account=account)


class CustomModel(OutsideModel):
    """Asks `complete(messages)` of an object, or calls a function with the messages; the answer is a text.

    A function that is no coroutine function runs in a thread. An error in it means that the model did not answer.
    """

    def __init__(self, given: Any, account: Account = "judge") -> None:
        name = getattr(given, "__name__", type(given).__name__).strip("<>")
        super().__init__(f"{CUSTOM}{name}", account)
        self._given = given
        complete = getattr(given, "complete", None)
        self._ask: Callable[..., Any] = complete if callable(complete) else given

    async def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Ask once. Tools, schema, temperature and streaming are not used. Raise ModelError."""
        given = [dict(message) for message in messages]
        try:
            if inspect.iscoroutinefunction(self._ask):
                answer = await self._ask(given)
            else:
                answer = await in_thread(self._ask, given)
                answer = await answer if inspect.isawaitable(answer) else answer
        except GoalError:
            raise
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:500]
            raise ProviderUnavailable(f"{self.model} did not answer: {text}") from error
        if not isinstance(answer, str):
            raise RequestRejected(
                f"{self.model} returned {kind_of(answer)}, not a text",
                "return the answer of the model as a str",
            )
        used = Usage.unknown()
        self.usage = self.usage + used
        return Reply(answer, (), used, "stop")

    def separate(self, account: Account) -> LLM:
        """Return the same model with its own account."""
        return CustomModel(self._given, account)


def as_model(value: object, account: Account = "judge") -> LLM | None:
    """Return a function, or an object with `complete`, as a model; an LLM as it is; None for anything else."""
    if isinstance(value, LLM):
        return value
    if isinstance(value, type) or not (callable(value) or callable(getattr(value, "complete", None))):
        return None
    return CustomModel(value, account)
