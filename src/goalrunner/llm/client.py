"""The base class of models, which repeats calls and counts what they use."""

from __future__ import annotations

import asyncio
import copy
import inspect
from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from goalrunner.core.activity import RetryScheduled, report_activity
from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import ModelError, UsageError
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import (
    RETRIES,
    TRANSIENT,
    Endpoint,
    FailureKind,
    ProviderFailure,
    explain,
    pause_before,
)
from goalrunner.llm.requests import DEFAULT_TIMEOUT, Draft, Reply, Request, ToolSpec

Tape = Callable[[Account, Reply], None]
"""Records a reply."""


class LLM:
    """One model with its own usage account.

    `model` is LiteLLM's name (`openai/gpt-5-mini`) or `scripted/<file>`. `params` are
    sent to the provider as they are; a temperature in them takes precedence over a
    caller's. For keys and addresses see `goalrunner.llm.endpoints`. Raise GoalError for
    an invalid recording, and UsageError for an invalid timeout. Subclasses send the
    requests.

    >>> from goalrunner import LLM
    >>> llm = LLM("openai/gpt-5-mini", params={"temperature": 0.2})
    >>> llm.usage.calls
    0
    """

    endpoint = Endpoint()
    """What an error message names."""
    class_of: ClassVar[Callable[[str], type[LLM]]]
    """Returns the subclass for a model's name.

    The package sets it, because it imports the subclasses, which import this module.
    """

    def __new__(cls, model: str = "", *_: Any, **__: Any) -> Self:
        """Make a model of the class that the name asks for."""
        chosen_class = cls.class_of(model) if cls is LLM else cls
        return super().__new__(chosen_class)  # type: ignore[return-value]

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key_env: str | None = None,
        params: Mapping[str, Any] | None = None,
        account: Account = "agent",
        tape: Tape | None = None,
    ) -> None:
        self.model = model
        self.account: Account = account
        self.usage = Usage()
        self.api_key_env = api_key_env
        self._api_base = api_base
        self.params = dict(params or {})
        self._tape = tape
        timeout = self.params.pop("timeout", DEFAULT_TIMEOUT)
        if not isinstance(timeout, int | float) or not timeout > 0:
            raise UsageError(
                f"timeout in [{account}.params] is {timeout!r}",
                "Write the seconds that one call may take: timeout = 600",
            )
        self._timeout = timeout

    # Else `help` shows the parameters of `__new__`.
    _parameters = inspect.signature(__init__).parameters.values()
    __signature__ = inspect.Signature(list(_parameters)[1:])

    @property
    def address(self) -> tuple[str | None, ...]:
        """Name, server and variable of the key.

        A provider accepts or refuses models with the same ones together.
        """
        return (self.model, self._api_base, self.api_key_env)

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: dict[str, Any] | None = None,
        schema_name: str = "answer",
        temperature: float | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Ask once and return the whole answer, with the usage of its retries.

        With `on_text` the answer streams, and `on_text` gets each piece of text.
        `schema` (JSON schema) asks for structured output where the provider supports
        it; validate the answer all the same. `temperature` is left out for models that
        refuse it. Raise AuthenticationFailed, ModelNotFound, ContextWindowExceeded,
        RequestRejected, or ProviderUnavailable after the last retry.
        """
        await self.prepare()
        request = Request(
            messages, tools, schema, schema_name, temperature, on_text, self._timeout
        )
        try:
            reply = await self._attempt_until_answered(request)
        except ProviderFailure as failure:
            raise self.explained(failure, request.spent.retries) from failure
        finally:
            self.usage = self.usage + request.spent
        if self._tape is not None:
            self._tape(self.account, reply)
        return reply

    async def _attempt_until_answered(self, request: Request) -> Reply:
        """Send the request until it is answered.

        Raise the last ProviderFailure if a repetition cannot help.
        """
        while True:
            try:
                return await self.attempt(request)
            except ProviderFailure as failure:
                retry = request.spent.retries + 1
                if failure.kind not in TRANSIENT or retry > RETRIES or failure.is_long:
                    raise
                pause = pause_before(retry, failure.retry_after)
                reason = str(failure.kind)
                if failure.status:
                    reason = f"{failure.status} {reason}"
            request.spent = request.spent + Usage(retries=1)
            report_activity(RetryScheduled(reason, pause, retry, RETRIES))
            await sleep(pause)

    async def attempt(self, request: Request) -> Reply:
        """Send the request once, and count what it used. Raise ProviderFailure."""
        draft = Draft(request.on_text)
        deadline = asyncio.timeout(request.timeout)
        try:
            async with deadline:
                await self.send(request, draft)
        except (ProviderFailure, TimeoutError, asyncio.CancelledError) as error:
            # Providers charge for an interrupted answer, even if no part of it arrived.
            is_interrupted = not isinstance(error, ProviderFailure)
            if draft.started or (is_interrupted and not request.is_streamed):
                request.spent = request.spent + self.used(request, draft)
            if isinstance(error, TimeoutError) and deadline.expired():
                raise ProviderFailure(
                    f"no complete answer within {request.timeout:g} s",
                    kind=FailureKind.TIMEOUT,
                ) from error
            raise
        request.spent = request.spent + self.used(request, draft) + Usage(calls=1)
        return draft.reply(request.spent)

    async def prepare(self) -> None:
        """Load what the first request needs.

        This does not count towards its timeout.
        """

    async def send(self, request: Request, draft: Draft) -> None:
        """Send the request and add the answer to the draft.

        Raise ProviderFailure for everything that goes wrong.
        """
        raise NotImplementedError

    def used(self, request: Request, draft: Draft) -> Usage:
        """Return the usage of the answer, as reported or estimated, without a call."""
        return draft.report or Usage()

    def explained(self, failure: ProviderFailure, retries: int = 0) -> ModelError:
        """Return the error for users."""
        return explain(failure, self.model, self.account, self.endpoint, retries)

    def context_window(self) -> int | None:
        """Return the most input tokens that the model takes.

        None if unknown, scripted, or before LiteLLM is imported.
        """
        return None

    def has_price(self) -> bool:
        """Return whether the cost can be counted.

        It may wait seconds for an import: do not call it in an event loop.
        """
        return False

    def cost_of(self, usage: Usage) -> float | None:
        """Return the US dollars for these tokens, None without a price.

        It may wait seconds, as `has_price`.
        """
        return None

    def separate(self, account: Account) -> LLM:
        """Return the same model with its own account, for `judge = "agent"`.

        A recording begins again. The temperature in `params` was chosen for this
        account and is left out.
        """
        other = copy.copy(self)
        other.account, other.usage = account, Usage()
        other.params = dict(self.params)
        other.params.pop("temperature", None)
        return other

    def check(self) -> None:
        """Check what needs no request and no import.

        That is the provider's name, and whether a key is set. Raise ModelNotFound for
        an unknown provider, AuthenticationFailed if a variable for the key is known and
        not set.
        """

    async def probe(self) -> str:
        """Ask for one token, to learn before any work whether the provider answers.

        Return a warning if it does not. Raise AuthenticationFailed or ModelNotFound if
        it refuses the key or does not know the model, and RequestRejected if the quota
        is used up. Models without a provider have nothing to ask.
        """
        return ""

    def skip(self, replies: int) -> None:
        """Skip the first `replies` answered replies of a recording.

        Other models have nothing to skip.
        """
