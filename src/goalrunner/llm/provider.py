"""The way to real models, through LiteLLM. Owns the request's arguments; how answers are read is in `reading`."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from goalrunner.events import Account
from goalrunner.llm import library as lazy
from goalrunner.llm.connections import close_with_loop
from goalrunner.llm.failure import Caller, FailureKind, ProviderFailure
from goalrunner.llm.keys import Endpoint, find_endpoint, named_key
from goalrunner.llm.mending import mend
from goalrunner.llm.outlook import refuse_hopeless, similar_model
from goalrunner.llm.pricing import PRICE_PARAMS, context_window, is_priced, measure, own_prices, price
from goalrunner.llm.reading import Raw, deltas, stream_reason, usage_is_reported
from goalrunner.llm.translation import failure_from
from goalrunner.llm.transport import Delta, Draft, Finish, Request, UsageReport
from goalrunner.model.usage import Usage


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
