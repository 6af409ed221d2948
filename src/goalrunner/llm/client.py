"""The base class of models: retries, timeouts, usage accounts, and the recording of replies."""

from __future__ import annotations

import asyncio
import copy
import random
from asyncio import sleep
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from goalrunner.core.activity import RetryScheduled, report
from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import ModelError, UsageError
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import TRANSIENT, Endpoint, FailureKind, ProviderFailure, explain
from goalrunner.llm.transport import Draft, Reply, Request, Tape, ToolSpec

Answer = TypeVar("Answer")

DEFAULT_TIMEOUT = 600.0
"""Seconds that one call may take; `params["timeout"]` replaces it."""

RETRIES = 5
"""How many times a failed call is repeated."""
LONGEST_RETRY_AFTER = 120.0
"""Seconds that a provider may ask to wait."""


def pause_before(retry: int, retry_after: float | None) -> float:
    """Return the seconds before a retry (1, 2, ...): those that the provider asks for, else 0.5 doubled up to 30."""
    spread = random.random()
    if retry_after is None:
        return min(30.0, 0.5 * 2.0 ** (retry - 1)) * (0.5 + 0.5 * spread)
    return max(0.0, min(retry_after, LONGEST_RETRY_AFTER)) + 0.25 * spread


async def persist(attempt: Callable[[], Awaitable[Answer]], on_retry: Callable[[], None]) -> Answer:
    """Call `attempt` until it answers; call `on_retry` before each repetition.

    Raise the last ProviderFailure if a repetition cannot help, or if the retries are used up. Cancellation passes through.
    """
    retry = 0
    while True:
        try:
            return await attempt()
        except ProviderFailure as failure:
            if failure.kind not in TRANSIENT or retry >= RETRIES:
                raise
            retry += 1
            pause = pause_before(retry, failure.retry_after)
            reason = f"{failure.status} {failure.kind}" if failure.status else str(failure.kind)
        on_retry()
        report(RetryScheduled(reason, pause, retry, RETRIES))
        await sleep(pause)


class LLM:
    """One model with its own usage account. Instances share nothing but a recording.

    `model` is LiteLLM's name (`openai/gpt-5-mini`) or `scripted/<file>`. `params` are sent to the provider as they are;
    a temperature in them takes precedence over a caller's. For keys and addresses see `goalrunner.llm.endpoints`. Raise
    GoalError for an invalid recording, and UsageError for an invalid timeout. Subclasses send the requests, and may
    know the price and the context window of the model.
    """

    endpoint = Endpoint()  # what an error message names
    class_of: ClassVar[Callable[[str], type[LLM]]]
    """Returns the subclass for a model's name. Set by the package, which imports the subclasses."""

    def __new__(cls, model: str = "", *_: Any, **__: Any) -> Self:
        """Make a model of the class that the name asks for."""
        return super().__new__(cls.class_of(model) if cls is LLM else cls)  # type: ignore[return-value]

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
        self._timeout = self.params.pop("timeout", DEFAULT_TIMEOUT)
        if not (isinstance(self._timeout, int | float) and self._timeout > 0):
            hint = "Write the seconds that one call may take: timeout = 600"
            raise UsageError(f"timeout in [{account}.params] is {self._timeout!r}", hint)

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
        """Ask once and return the whole answer. With `on_text` the answer streams, and `on_text` gets each piece of text.

        `schema` (JSON schema) asks for structured output where the provider supports it; validate the answer all the
        same. `temperature` is left out for models that refuse it. The usage of the reply includes its retries. Raise
        AuthenticationFailed, ModelNotFound, ContextWindowExceeded, RequestRejected, or ProviderUnavailable after the
        last retry.
        """
        await self.prepare()
        request = Request(messages, tools, schema, schema_name, temperature, on_text, self._timeout)

        def count_retry() -> None:
            request.spent = request.spent + Usage(retries=1)

        try:
            reply = await persist(lambda: self.attempt(request), count_retry)
        except ProviderFailure as failure:
            raise self.explained(failure, request.spent.retries) from failure
        finally:
            self.usage = self.usage + request.spent
        if self._tape is not None:
            self._tape.record(self.account, reply)
        return reply

    async def attempt(self, request: Request) -> Reply:
        """Send the request once, and count what it used. Raise ProviderFailure."""
        draft = Draft(request.on_text)
        deadline = asyncio.timeout(request.timeout)
        try:
            async with deadline:
                await self.send(request, draft)
        except (ProviderFailure, TimeoutError, asyncio.CancelledError) as error:
            # Providers charge for an interrupted answer, even if no part of it arrived.
            is_abandoned = not request.is_streamed and not isinstance(error, ProviderFailure)
            if draft.started or is_abandoned:
                request.spent = request.spent + self.used(request, draft)
            if isinstance(error, TimeoutError) and deadline.expired():
                words = f"no complete answer within {request.timeout:g} s"
                raise ProviderFailure(words, kind=FailureKind.TIMEOUT) from error
            raise
        request.spent = request.spent + self.used(request, draft) + Usage(calls=1)
        return draft.reply(request.spent)

    async def prepare(self) -> None:
        """Load what the first request needs; this does not count towards its timeout."""

    async def send(self, request: Request, draft: Draft) -> None:
        """Send the request and add the answer to the draft. Raise ProviderFailure for everything that goes wrong."""
        raise NotImplementedError

    def used(self, request: Request, draft: Draft) -> Usage:
        """Return the usage of the answer, as reported or estimated, without a call count."""
        return draft.report or Usage()

    def explained(self, failure: ProviderFailure, retries: int = 0) -> ModelError:
        """Return the error for users."""
        return explain(failure, self.model, self.account, self.endpoint, retries)

    def context_window(self) -> int | None:
        """Return the most input tokens that the model takes; None if unknown, scripted, or before LiteLLM is imported."""
        return None

    def has_price(self) -> bool:
        """Return whether the cost can be counted. May wait seconds for an import: do not call it in an event loop."""
        return False

    def cost_of(self, usage: Usage) -> float | None:
        """Return the US dollars for these tokens, None without a price. May wait seconds, as `has_price`."""
        return None

    def separate(self, account: Account) -> LLM:
        """Return the same model with its own account, for `judge = "agent"`. A recording begins again.

        The temperature in `params` was chosen for this account and is left out.
        """
        other = copy.copy(self)
        other.account, other.usage = account, Usage()
        other.params = {name: value for name, value in self.params.items() if name != "temperature"}
        return other

    def check(self) -> None:
        """Check what needs no request. Raise AuthenticationFailed if a variable for the key is known and not set."""

    async def foresee(self) -> str:
        """Look up provider, key and model before any work is done. Return a warning, empty if there is none.

        Wait for LiteLLM's import. A model that LiteLLM does not know is looked up in the provider's list, without using a token.
        Raise ModelNotFound if provider or model does not exist, AuthenticationFailed if the key is missing.
        """
        return ""

    def skip(self, replies: int) -> None:
        """Skip the first `replies` answered replies of a recording. Other models have nothing to skip."""
