"""A model: from a request to its reply, with retries, accounting and recording."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from goalrunner.core.errors import UsageError
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Message
from goalrunner.llm.call import Call, ProviderQuirks
from goalrunner.llm.failure import TRANSIENT, ProviderFailure, explain
from goalrunner.llm.provider import LiteLLMTransport
from goalrunner.llm.scripted import ScriptedTransport, Tape, is_scripted
from goalrunner.llm.transport import Reply, Request, ToolSpec, Transport

Answer = TypeVar("Answer")

DEFAULT_TIMEOUT = 600.0
"""Seconds that one call may take; `params["timeout"]` sets another."""


@dataclass(frozen=True)
class Backoff:
    """How often a call is repeated, and after how long: twofold from `base` to `cap` seconds, spread by `jitter` (0 to 1)."""

    retries: int = 5
    base: float = 0.5
    cap: float = 30.0
    longest_retry_after: float = 120.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    def wait(self, retry: int, retry_after: float | None) -> float:
        """Return the seconds before the given retry, counted from 1."""
        if retry_after is None:
            return min(self.cap, self.base * 2.0 ** (retry - 1)) * (0.5 + 0.5 * self.jitter())
        return max(0.0, min(retry_after, self.longest_retry_after)) + self.base * 0.5 * self.jitter()


async def persist(attempt: Callable[[], Awaitable[Answer]], backoff: Backoff, on_retry: Callable[[], None]) -> Answer:
    """Call `attempt` until it answers; call `on_retry` before each repetition.

    Raise the last ProviderFailure if a repetition cannot help, or if the retries are used up. Cancellation passes through.
    """
    retry = 0
    while True:
        try:
            return await attempt()
        except ProviderFailure as failure:
            if failure.kind not in TRANSIENT or retry >= backoff.retries:
                raise
            retry += 1
            pause = backoff.wait(retry, failure.retry_after)
        on_retry()
        await backoff.sleep(pause)


class LLM:
    """One model with its own usage account. Instances share nothing but a recording.

    `model` is LiteLLM's name (`openai/gpt-5-mini`) or `scripted/<file>`. `params` are sent to the provider as they are; a
    temperature in them takes precedence over a caller's. For keys and addresses see `goalrunner.llm.credentials`.
    Raises GoalError for an invalid recording, AuthenticationFailed if the variable `api_key_env` is not set, and UsageError
    for an invalid timeout.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key_env: str | None = None,
        params: Mapping[str, Any] | None = None,
        account: Account = "agent",
        tape: Tape | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.model = model
        self.account: Account = account
        self.usage = Usage()
        self.api_key_env = api_key_env
        self._api_base = api_base
        self._params = dict(params or {})
        self._tape = tape
        self._backoff = backoff or Backoff()
        self._timeout = _seconds(self._params.pop("timeout", DEFAULT_TIMEOUT), account)
        self._quirks = ProviderQuirks()
        self._transport: Transport = (
            ScriptedTransport(model, account)
            if is_scripted(model)
            else LiteLLMTransport(
                model, api_base=api_base, api_key_env=api_key_env, params=self._params, account=account
            )
        )

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

        `schema` (JSON schema) asks for structured output where the provider supports it; validate the answer all the same.
        `temperature` is left out for models that refuse it. The usage of the reply includes its retries.
        Raises AuthenticationFailed, ModelNotFound, ContextWindowExceeded, RequestRejected, or ProviderUnavailable after the
        last retry.
        """
        await self._transport.prepare()
        request = Request(
            messages, tools, temperature=temperature, streaming=on_text is not None, timeout=self._timeout
        )
        call = Call(self._transport, request, self._quirks, schema, schema_name, on_text)

        def count_retry() -> None:
            call.spent = call.spent + Usage(retries=1)

        try:
            reply = await persist(call.attempt, self._backoff, count_retry)
        except ProviderFailure as failure:
            raise explain(failure, self._transport.caller(), call.spent.retries) from failure
        finally:
            self.usage = self.usage + call.spent
        self._quirks = call.quirks
        if self._tape is not None:
            self._tape.record(self.account, reply)
        return reply

    def context_window(self) -> int | None:
        """Return the most input tokens that the model takes; None if unknown, scripted, or before LiteLLM is imported."""
        return self._transport.context_window()

    def has_price(self) -> bool:
        """Return whether the cost can be counted. May wait seconds for an import: do not call it in an event loop."""
        return self._transport.has_price()

    def cost_of(self, usage: Usage) -> float | None:
        """Return the US dollars for these tokens, None without a price. May wait seconds, as `has_price`."""
        return self._transport.cost_of(usage)

    def separate(self, account: Account) -> LLM:
        """Return the same model with its own account, from its beginning: for `judge = "agent"`.

        The temperature in `params` was chosen for this account and is left out.
        """
        params = {name: value for name, value in self._params.items() if name != "temperature"}
        return LLM(
            self.model,
            api_base=self._api_base,
            api_key_env=self.api_key_env,
            params={**params, "timeout": self._timeout},
            account=account,
            tape=self._tape,
            backoff=self._backoff,
        )

    def check(self) -> None:
        """Check what needs no request. Raise AuthenticationFailed if the variable `api_key_env` is not set."""
        self._transport.check()

    async def foresee(self) -> str:
        """Look up provider, key and model before any work is done. Return a warning, empty if there is none.

        Wait for LiteLLM's import. A model that LiteLLM does not know is looked up in the provider's list, without using a token.
        Raise ModelNotFound if provider or model does not exist, AuthenticationFailed if the key is missing.
        """
        try:
            return await self._transport.foresee()
        except ProviderFailure as failure:
            raise explain(failure, self._transport.caller()) from failure

    def skip(self, replies: int) -> None:
        """Begin a recording after so many answered replies; a provider has nothing to skip."""
        self._transport.skip(replies)


def _seconds(value: object, account: Account) -> float:
    if isinstance(value, int | float) and value > 0:
        return float(value)
    raise UsageError(
        f"timeout in [{account}.params] is {value!r}", "Write the seconds that one call may take: timeout = 600"
    )
