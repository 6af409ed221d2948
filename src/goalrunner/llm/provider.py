"""Requests to real models through LiteLLM."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Message
from goalrunner.llm import library as lazy
from goalrunner.llm.credentials import Endpoint, find_endpoint, named_key, refuse_hopeless, similar_model
from goalrunner.llm.failure import Caller, FailureKind, ProviderFailure
from goalrunner.llm.pricing import PRICE_PARAMS, context_window, is_priced, measure, own_prices, price
from goalrunner.llm.provider_errors import Raw, deltas, failure_from, stream_reason, usage_is_reported
from goalrunner.llm.transport import Delta, Draft, Finish, Request, UsageReport

_watched: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None, None]] = weakref.WeakKeyDictionary()


async def close_with_loop(library: Any) -> None:
    """See to it that LiteLLM's clients of the running loop are closed when `asyncio.run` (or a Runner) ends it."""
    loop = asyncio.get_running_loop()
    if loop in _watched:
        return
    watcher = _close_at_end(library, id(loop))
    _watched[loop] = watcher
    await anext(watcher)


async def _close_at_end(library: Any, loop_id: int) -> AsyncGenerator[None, None]:
    # A loop ends its open async generators as its last act: the one hook that it has.
    try:
        yield
    finally:
        for client in _clients(library, loop_id):
            with contextlib.suppress(Exception):
                await _close(client)


def _clients(library: Any, loop_id: int) -> list[Any]:
    """The cached clients of one loop, taken out of the cache; the loop's id ends their keys."""
    cache = getattr(library, "in_memory_llm_clients_cache", None)
    entries: dict[str, Any] = getattr(cache, "cache_dict", None) or {}
    mine = [key for key in entries if str(key).endswith(f"-{loop_id}")]
    return [entries.pop(key) for key in mine]


async def _close(client: Any) -> None:
    for name in ("aclose", "close"):
        close = getattr(client, name, None)
        if callable(close):
            ended = close()
            if inspect.isawaitable(ended):
                await ended
            return


MALFORMED = "malformed_arguments"
"""The key under which arguments that are no JSON object are sent."""


def mend(messages: Sequence[Message], *, keep_empty: bool = True) -> list[dict[str, Any]]:
    """The messages as new dicts: content never None, arguments always a JSON object, text without lone surrogates.

    Without `keep_empty` an empty content beside tool calls is left out: LiteLLM would fill it with words of its own for
    providers that take none. Servers of OpenAI's kind want it there.
    """
    return [_mend_message(message, keep_empty) for message in messages]


def _mend_message(message: Message, keep_empty: bool) -> dict[str, Any]:
    mended = dict(message)
    if isinstance(mended.get("content"), str):
        mended["content"] = sound(mended["content"])
    elif mended.get("content") is None:
        mended["content"] = ""
    if mended.get("tool_calls"):
        mended["tool_calls"] = [_mend_call(call) for call in mended["tool_calls"]]
        if not keep_empty and not mended["content"]:
            del mended["content"]
    return mended


def _mend_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    return {**call, "function": {**function, "arguments": _mend_arguments(arguments)}}


def _mend_arguments(arguments: object) -> str:
    if not isinstance(arguments, str):
        return json.dumps(arguments if isinstance(arguments, dict) else {})
    if not arguments.strip():
        return "{}"
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        parsed = None
    return sound(arguments) if isinstance(parsed, dict) else json.dumps({MALFORMED: sound(arguments)})


def sound(text: str) -> str:
    """The text without lone surrogates, which no request can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


class LiteLLMTransport:
    """One model at one address. Imports LiteLLM when it is first asked something."""

    adapts = True

    def __init__(
        self, model: str, *, account: Account, api_base: str | None, api_key_env: str | None, params: Mapping[str, Any]
    ) -> None:
        self._model = model
        self._account = account
        self._api_base = api_base
        self._prices = own_prices(params)
        # LiteLLM would keep prices for every later call to a model of that name, another account's too.
        self._params = {name: value for name, value in params.items() if name not in PRICE_PARAMS}
        self._api_key_env = api_key_env
        self._named: tuple[str, str] | None = None
        self._ready = False
        self._endpoint: Endpoint | None = None

    def check(self) -> None:
        """Look the named key up. Raises AuthenticationFailed."""
        if self._api_key_env:
            self._named = (self._api_key_env, named_key(self._api_key_env, self._account, os.environ))

    async def foresee(self) -> None:
        """Look provider and key up, once LiteLLM is imported. Raises ProviderFailure where a call would fail for certain."""
        self.check()
        await asyncio.to_thread(self._foresee)

    def _foresee(self) -> None:
        library = lazy.litellm()
        refuse_hopeless(library, self._model, self._params, self._found(library), os.environ)

    async def prepare(self) -> None:
        """Import LiteLLM, in a thread so that the loop goes on meanwhile. A key that is missing is said before that."""
        if not self._ready:
            self.check()
            await asyncio.to_thread(self._load)
            self._ready = True

    def _load(self) -> None:
        # What is known of the model is looked up here as well, and kept: for some models a server is asked for it.
        context_window(lazy.prepare(self._model), self._model)

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Ask the provider. Raises ProviderFailure, for an answer without a finish reason too."""
        library = lazy.litellm()
        lazy.hush()
        await close_with_loop(library)
        answer = self._streamed(library, request) if request.streaming else self._whole(library, request)
        async with contextlib.aclosing(answer):
            async for delta in answer:
                yield delta

    async def _whole(self, library: Any, request: Request) -> AsyncGenerator[Delta, None]:
        raw = Raw()
        try:
            # Its hook for loggers is the one way to the provider's own words: the response has "stop" for no reason at all.
            response = await library.acompletion(**self._arguments(library, request), logger_fn=raw.take)
            pieces = list(deltas(response))
        except Exception as error:
            raise failure_from(error, begun=False) from error
        for delta in pieces:
            yield delta
        reason = raw.reason(response)
        if not reason:
            raise ProviderFailure("the answer came without its end", kind=FailureKind.CUT)
        yield Finish(reason)

    async def _streamed(self, library: Any, request: Request) -> AsyncGenerator[Delta, None]:
        begun = False
        response: Any = None
        try:
            response = await library.acompletion(**self._arguments(library, request))
            async for chunk in response:
                for delta in deltas(chunk):
                    begun = True
                    if not isinstance(delta, UsageReport) or usage_is_reported(response):
                        yield delta
        except Exception as error:
            raise failure_from(error, begun=begun) from error
        finally:
            if response is not None:
                # An abandoned answer must not hold its connection.
                with contextlib.suppress(Exception):
                    await response.aclose()
        reason = stream_reason(response)
        if not reason:
            raise ProviderFailure("the stream ended before the answer did", kind=FailureKind.CUT)
        yield Finish(reason)

    def account(self, request: Request, draft: Draft) -> Usage:
        """Tokens as reported or estimated, dollars where the price is known."""
        return measure(lazy.litellm(), self._model, self._prices, request, draft)

    def context_window(self) -> int | None:
        """From LiteLLM's map; None while LiteLLM is not imported, for this is asked in the event loop."""
        library = lazy.imported()
        return None if library is None else context_window(library, self._model)

    def has_price(self) -> bool:
        """By prices in `params` or LiteLLM's map; waits for its import."""
        return self._prices is not None or is_priced(lazy.litellm(), self._model)

    def cost_of(self, usage: Usage) -> float | None:
        """By prices in `params` or LiteLLM's map; waits for its import."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        report = UsageReport(usage.input_tokens, usage.output_tokens)
        return price(lazy.litellm(), self._model, self._prices, report)

    def skip(self, replies: int) -> None:
        """Nothing: a provider does not play."""

    def caller(self) -> Caller:
        """What an error needs to name."""
        endpoint = self._endpoint
        if endpoint is None:
            return Caller(self._model, self._account)
        return Caller(
            model=self._model,
            account=self._account,
            key_variable=endpoint.variable,
            key_known=endpoint.key_known,
            api_base=endpoint.api_base or "",
            similar="" if endpoint.api_base else similar_model(lazy.imported(), self._model),
            secrets=(*endpoint.secrets, str(self._params.get("api_key", ""))),
        )

    def _found(self, library: Any) -> Endpoint:
        """Address and key, looked up once."""
        if self._endpoint is None:
            self._endpoint = find_endpoint(library, self._model, self._api_base, self._named, os.environ)
        return self._endpoint

    def _arguments(self, library: Any, request: Request) -> dict[str, Any]:
        endpoint = self._found(library)
        wanted = {
            "api_base": endpoint.api_base,
            "api_key": endpoint.api_key,
            "tools": [tool.offer() for tool in request.tools] or None,
            "response_format": request.response_format,
            "temperature": request.temperature,
            "stream_options": {"include_usage": True} if request.streaming and request.stream_usage else None,
        }
        return {
            **{name: value for name, value in wanted.items() if value is not None},
            **self._params,
            "model": self._model,
            "messages": mend(request.messages, keep_empty=not lazy.has_own_protocol(self._model)),
            "stream": request.streaming,
            "timeout": request.timeout,
            # Its hidden retries count nothing and mask errors; ours lie above.
            "max_retries": 0,
        }
