"""A model: from a request to its reply, with retries, plainer forms of a refused request, accounting and recording."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from goalrunner.core.activity import RetryScheduled, report
from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import ModelError, UsageError
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import TRANSIENT, FailureKind, ProviderFailure, explain
from goalrunner.llm.provider import LiteLLMTransport
from goalrunner.llm.scripted import ScriptedTransport, Tape, is_scripted
from goalrunner.llm.transport import Draft, Reply, Request, ToolSpec, Transport

SchemaForm = Literal["json_schema", "json_object", "none"]

_PLAINER: dict[SchemaForm, SchemaForm] = {"json_schema": "json_object", "json_object": "none"}
_BROKEN = frozenset({500, 501})
"""What some servers answer to a schema that they do not support; 502, 503 and 529 are about load."""
_GATEWAY_TIMEOUTS = frozenset({504, 524})
"""What a proxy answers if a model thinks for longer than the proxy waits for the first byte."""


@dataclass(frozen=True)
class ProviderQuirks:
    """How a request has to be put for this provider. A model instance remembers what worked."""

    schema_form: SchemaForm = "json_schema"
    temperature: bool = True
    stream_usage: bool = True
    whole: bool = True
    """Whether answers that are not read piece by piece can come whole; some models only stream."""
    schema_proved: bool = False
    """Whether a request with this schema form was answered: a later 500 is then about the server's health."""

    def apply(self, request: Request, schema: dict[str, Any] | None, name: str) -> Request:
        """Return the request as this provider takes it."""
        streaming = request.streaming or not self.whole
        wanted: dict[str, Any] = {
            "type": "json_schema",
            "json_schema": {"name": name, "schema": schema, "strict": True},
        }
        if self.schema_form == "json_object":
            # llama.cpp reads the schema beside it; other servers take this as JSON mode.
            wanted = {"type": "json_object", "schema": schema}
        return replace(
            request,
            response_format=None if schema is None or self.schema_form == "none" else wanted,
            temperature=request.temperature if self.temperature else None,
            streaming=streaming,
            stream_usage=streaming and self.stream_usage,
        )

    def after(self, failure: ProviderFailure, request: Request) -> ProviderQuirks | None:
        """Return a plainer form to try at once; None if the failure is about something else."""
        words = failure.message.lower()
        refused = failure.kind is FailureKind.REJECTED
        if refused and request.temperature is not None and "temperature" in words:
            return replace(self, temperature=False)
        if refused and request.stream_usage and ("stream_options" in words or "include_usage" in words):
            return replace(self, stream_usage=False)
        must_stream = refused and re.search(r"\bstream(ing|ed)?\b", words)
        if not request.streaming and (must_stream or failure.status in _GATEWAY_TIMEOUTS):
            return replace(self, whole=False)
        broken = failure.kind is FailureKind.SERVER and failure.status in _BROKEN and not self.schema_proved
        if request.response_format is not None and (refused or broken):
            return replace(self, schema_form=_PLAINER[self.schema_form])
        return None


@dataclass
class Call:
    """One call. `attempt` may be repeated; `spent` is the usage of all attempts."""

    transport: Transport
    request: Request
    quirks: ProviderQuirks
    schema: dict[str, Any] | None = None
    schema_name: str = "answer"
    on_text: Callable[[str], None] | None = None
    spent: Usage = field(default_factory=Usage)

    async def attempt(self) -> Reply:
        """Ask, and ask again at once in a plainer form if the provider refuses the request. Raise ProviderFailure."""
        quirks = self.quirks
        while True:
            request = quirks.apply(self.request, self.schema, self.schema_name)
            try:
                reply = await self._ask(request)
            except ProviderFailure as failure:
                plainer = quirks.after(failure, request)
                if plainer is None or not self.transport.adapts:
                    raise
                quirks = plainer
            else:
                proved = quirks.schema_proved or request.response_format is not None
                self.quirks = replace(quirks, schema_proved=proved)
                return reply

    async def _ask(self, request: Request) -> Reply:
        draft = Draft(self.on_text)
        deadline = asyncio.timeout(request.timeout)
        try:
            async with deadline:
                await self.transport.ask(request, draft)
        except (ProviderFailure, TimeoutError, asyncio.CancelledError) as error:
            # Providers charge for what they had read and written before the break, whether it came or not.
            is_abandoned = not request.streaming and not isinstance(error, ProviderFailure)
            if draft.started or is_abandoned:
                self.spent = self.spent + self.transport.account(request, draft)
            if isinstance(error, TimeoutError) and deadline.expired():
                words = f"no complete answer within {request.timeout:g} s"
                raise ProviderFailure(words, kind=FailureKind.TIMEOUT) from error
            raise
        self.spent = self.spent + self.transport.account(request, draft) + Usage(calls=1)
        return Reply(draft.text, draft.tool_calls(), self.spent, draft.finish_reason)


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
            reason = f"{failure.status} {failure.kind}" if failure.status else str(failure.kind)
        on_retry()
        report(RetryScheduled(reason, pause, retry, backoff.retries))
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
        transport: Transport | None = None,
    ) -> None:
        self.model = model
        self.account: Account = account
        self.usage = Usage()
        self.api_key_env = api_key_env
        self._api_base = api_base
        self._params = dict(params or {})
        self._tape = tape
        self._backoff = backoff or Backoff()
        self._timeout = self._params.pop("timeout", DEFAULT_TIMEOUT)
        if not (isinstance(self._timeout, int | float) and self._timeout > 0):
            hint = "Write the seconds that one call may take: timeout = 600"
            raise UsageError(f"timeout in [{account}.params] is {self._timeout!r}", hint)
        self._quirks = ProviderQuirks()
        if transport is None and is_scripted(model):
            transport = ScriptedTransport(model, account)
        self._transport = transport or LiteLLMTransport(model, api_base, api_key_env, self._params, account)

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
            raise self._explained(failure, call.spent.retries) from failure
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
        """Check what needs no request. Raise AuthenticationFailed if a variable for the key is known and not set."""
        self._transport.check()

    async def foresee(self) -> str:
        """Look up provider, key and model before any work is done. Return a warning, empty if there is none.

        Wait for LiteLLM's import. A model that LiteLLM does not know is looked up in the provider's list, without using a token.
        Raise ModelNotFound if provider or model does not exist, AuthenticationFailed if the key is missing.
        """
        try:
            return await self._transport.foresee()
        except ProviderFailure as failure:
            raise self._explained(failure) from failure

    def skip(self, replies: int) -> None:
        """Begin a recording after so many answered replies; a provider has nothing to skip."""
        self._transport.skip(replies)

    def _explained(self, failure: ProviderFailure, retries: int = 0) -> ModelError:
        return explain(failure, self.model, self.account, self._transport.endpoint, retries)
