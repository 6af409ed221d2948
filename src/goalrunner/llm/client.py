"""A model: one request to its reply, with retries, accounting and recording."""

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
from goalrunner.llm.call import Call, Manners
from goalrunner.llm.failure import PASSING, ProviderFailure, explain
from goalrunner.llm.provider import LiteLLMTransport
from goalrunner.llm.recording import Tape
from goalrunner.llm.scripted import ScriptedTransport, is_scripted
from goalrunner.llm.transport import Reply, Request, ToolSpec, Transport

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Backoff:
    """How often and how long. Waits grow twofold from `base` to `cap` (seconds); Retry-After counts up to its own cap.

    `jitter` gives a factor from 0 to 1; the wait is spread over its upper half so that many callers drift apart.
    """

    retries: int = 5
    base: float = 0.5
    cap: float = 30.0
    longest_retry_after: float = 120.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    def wait(self, retry: int, retry_after: float | None) -> float:
        """Seconds before the given retry, counted from 1."""
        grown = min(self.cap, self.base * 2.0 ** (retry - 1))
        spread = grown * (0.5 + 0.5 * self.jitter())
        if retry_after is None:
            return spread
        return max(0.0, min(retry_after, self.longest_retry_after)) + self.base * 0.5 * self.jitter()


async def persist(attempt: Callable[[], Awaitable[Answer]], backoff: Backoff, on_retry: Callable[[], None]) -> Answer:
    """Call `attempt` until it answers; `on_retry` is told of each repetition.

    Raises the last ProviderFailure when it is of a kind that time does not cure, or when the retries are used up.
    Cancellation passes straight through, in an attempt as in a wait.
    """
    retry = 0
    while True:
        try:
            return await attempt()
        except ProviderFailure as failure:
            if failure.kind not in PASSING or retry >= backoff.retries:
                raise
            retry += 1
            pause = backoff.wait(retry, failure.retry_after)
        on_retry()
        await backoff.sleep(pause)


DEFAULT_TIMEOUT = 600.0
"""Seconds that one call may take, from the request to the last piece; `params["timeout"]` sets another."""


class LLM:
    """One model with its own usage account. Independent instances share nothing but a tape.

    `model` is LiteLLM's naming (`openai/gpt-5-mini`) or `scripted/<file>`. `params` go to the provider as they stand; a
    temperature in them wins over the one that a caller asks for. For keys and addresses see `goalrunner.llm.credentials`.
    Raises GoalError for a recording that does not hold and AuthenticationFailed for a variable that is not set,
    UsageError for a timeout that is none.
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
        self._api_base = api_base
        self.api_key_env = api_key_env
        self._params = dict(params or {})
        self._tape = tape
        self._backoff = backoff or Backoff()
        self._timeout = _seconds(self._params.pop("timeout", DEFAULT_TIMEOUT), account)
        self._manners = Manners()
        self._transport = self._open()

    def _open(self) -> Transport:
        if is_scripted(self.model):
            return ScriptedTransport(self.model, self.account)
        return LiteLLMTransport(
            self.model,
            api_base=self._api_base,
            api_key_env=self.api_key_env,
            params=self._params,
            account=self.account,
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
        """Ask once and give the whole answer; `on_text` gets its text as it streams, a cut attempt's pieces included.

        Without `on_text` nothing streams: the answer is asked for whole, but from a model that only streams.
        `schema` (JSON schema) asks for structured output where the provider has it; the answer must be validated all the
        same. `temperature` is left out for models that refuse it. The reply's usage holds what its retries cost.
        Raises AuthenticationFailed (a variable that is not set included), ModelNotFound, ContextWindowExceeded,
        RequestRejected, or ProviderUnavailable after the last retry.
        """
        await self._transport.prepare()
        request = Request(
            messages, tools, temperature=temperature, streaming=on_text is not None, timeout=self._timeout
        )
        call = Call(self._transport, request, self._manners, schema, schema_name, on_text)
        try:
            reply = await persist(call.attempt, self._backoff, call.count_retry)
        except ProviderFailure as failure:
            raise explain(failure, self._transport.caller(), call.spent.retries) from failure
        finally:
            self.usage = self.usage + call.spent
        if self._tape is not None:
            self._tape.record(self.account, reply)
        return reply

    def context_window(self) -> int | None:
        """The most input tokens that the model takes; None for an unknown or scripted one. Never waits for an import:
        None, too, while LiteLLM is not imported, which it is after the first answer at the latest."""
        return self._transport.context_window()

    def has_price(self) -> bool:
        """Whether dollars can be counted for it. May wait seconds for an import: not to be asked in an event loop's work."""
        return self._transport.has_price()

    def cost_of(self, usage: Usage) -> float | None:
        """US dollars for that many tokens, None without a price. May wait seconds for an import, as `has_price`."""
        return self._transport.cost_of(usage)

    def separate(self, account: Account) -> LLM:
        """The same model as another instance with its own account, from the beginning: for `judge = "agent"`.

        The temperature in `params` was chosen for this account's work and does not go along.
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
        """See what can be seen without asking. Raises AuthenticationFailed for an `api_key_env` that is not set."""
        self._transport.check()

    async def foresee(self) -> None:
        """See before any work is done what makes every call fail; waits for LiteLLM's import, and asks nobody.

        Raises ModelNotFound for a provider that LiteLLM does not know, AuthenticationFailed for a key that is not there.
        """
        try:
            await self._transport.foresee()
        except ProviderFailure as failure:
            raise explain(failure, self._transport.caller()) from failure

    def skip(self, replies: int) -> None:
        """Let a recording begin after that many answered replies; a provider has nothing to skip."""
        self._transport.skip(replies)


def _seconds(value: object, account: Account) -> float:
    if isinstance(value, int | float) and value > 0:
        return float(value)
    raise UsageError(
        f"timeout in [{account}.params] is {value!r}", "Write the seconds that one call may take: timeout = 600"
    )
