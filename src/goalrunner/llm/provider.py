"""The way to real models, through LiteLLM. Owns the request's arguments and the reading of its stream."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any

from goalrunner.events import Account
from goalrunner.llm import library as lazy
from goalrunner.llm.connections import close_with_loop
from goalrunner.llm.failure import Caller, FailureKind, ProviderFailure
from goalrunner.llm.keys import Endpoint, find_endpoint, named_key
from goalrunner.llm.mending import mend
from goalrunner.llm.pricing import PRICE_PARAMS, context_window, is_priced, measure, own_prices
from goalrunner.llm.translation import failure_from
from goalrunner.llm.transport import CallPiece, Delta, Draft, Finish, Request, TextPiece, UsageReport
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
        self._named = (api_key_env, named_key(api_key_env, account, os.environ)) if api_key_env else None
        self._ready = False
        self._endpoint: Endpoint | None = None

    async def prepare(self) -> None:
        """Import LiteLLM, in a thread so that the loop goes on meanwhile."""
        if not self._ready:
            await asyncio.to_thread(lazy.prepare, self._model)
            self._ready = True

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Ask the provider, always streaming. Raises ProviderFailure, for a stream without a finish reason too."""
        library = lazy.litellm()
        lazy.hush()
        await close_with_loop(library)
        begun = False
        response: Any = None
        try:
            response = await library.acompletion(**self._arguments(library, request))
            async for chunk in response:
                for delta in _deltas(chunk):
                    begun = True
                    yield delta
        except Exception as error:
            raise failure_from(error, begun=begun) from error
        finally:
            if response is not None:
                # An abandoned answer must not hold its connection.
                with contextlib.suppress(Exception):
                    await response.aclose()
        reason = _finish_reason(response)
        if not reason:
            raise ProviderFailure("the stream ended before the answer did", kind=FailureKind.CUT)
        yield Finish(reason)

    def account(self, request: Request, draft: Draft) -> Usage:
        """Tokens as reported or estimated, dollars where the price is known."""
        return measure(lazy.litellm(), self._model, self._prices, request, draft)

    def context_window(self) -> int | None:
        """From LiteLLM's map; waits for its import."""
        return context_window(lazy.litellm(), self._model)

    def has_price(self) -> bool:
        """By prices in `params` or LiteLLM's map; waits for its import."""
        return self._prices is not None or is_priced(lazy.litellm(), self._model)

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
            secrets=(*endpoint.secrets, str(self._params.get("api_key", ""))),
        )

    def _arguments(self, library: Any, request: Request) -> dict[str, Any]:
        if self._endpoint is None:
            self._endpoint = find_endpoint(library, self._model, self._api_base, self._named, os.environ)
        wanted = {
            "api_base": self._endpoint.api_base,
            "api_key": self._endpoint.api_key,
            "tools": [tool.offer() for tool in request.tools] or None,
            "response_format": request.response_format,
            "temperature": request.temperature,
            "stream_options": {"include_usage": True} if request.stream_usage else None,
        }
        return {
            **{name: value for name, value in wanted.items() if value is not None},
            **self._params,
            "model": self._model,
            "messages": mend(request.messages, keep_empty=not lazy.has_own_protocol(self._model)),
            "stream": True,
            "timeout": request.timeout,
            # Its hidden retries count nothing and mask errors; ours lie above.
            "max_retries": 0,
        }


def _deltas(chunk: Any) -> Iterator[Delta]:
    for choice in getattr(chunk, "choices", None) or ():
        delta = getattr(choice, "delta", None)
        text = getattr(delta, "content", None)
        if text:
            yield TextPiece(text)
        for number, piece in enumerate(getattr(delta, "tool_calls", None) or ()):
            function = piece.function
            yield CallPiece(
                index=piece.index if isinstance(piece.index, int) else number,
                id=piece.id or "",
                name=getattr(function, "name", None) or "",
                arguments=getattr(function, "arguments", None) or "",
            )
    usage = getattr(chunk, "usage", None)
    if usage is not None:
        yield UsageReport(
            input_tokens=max(0, usage.prompt_tokens or 0),
            output_tokens=max(0, usage.completion_tokens or 0),
            detail=usage,
        )


def _finish_reason(response: Any) -> str:
    """What the provider said. LiteLLM's own last chunk says "stop" even where the provider said nothing at all."""
    said = getattr(response, "received_finish_reason", None) or getattr(response, "intermittent_finish_reason", None)
    return str(said or "")
