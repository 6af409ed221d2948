"""Models of providers, called through LiteLLM."""

from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from goalrunner.core.outcome import Usage
from goalrunner.llm import library as lazy
from goalrunner.llm.client import LLM
from goalrunner.llm.endpoints import (
    FALLBACK_BASE,
    find_endpoint,
    refuse_empty_key,
    refuse_missing_key,
    refuse_unknown_provider,
)
from goalrunner.llm.failure import FailureKind, ProviderFailure, failure_from
from goalrunner.llm.prices import (
    PRICE_PARAMS,
    context_window,
    is_priced,
    measure,
    own_prices,
    price_of,
)
from goalrunner.llm.request_form import RequestForm, sendable
from goalrunner.llm.requests import Draft, Reply, Request

_closers: weakref.WeakKeyDictionary[
    asyncio.AbstractEventLoop, AsyncGenerator[None, None]
] = weakref.WeakKeyDictionary()


async def close_with_loop(library: Any) -> None:
    """Close LiteLLM's clients of the running loop when `asyncio.run` ends it."""
    loop = asyncio.get_running_loop()
    if loop not in _closers:
        # A loop closes its open async generators when it ends. It has no other hook for
        # its end.
        _closers[loop] = _closer(library)
        await anext(_closers[loop])


async def _closer(library: Any) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        clients: list[Any] = []
        # A later version of LiteLLM may have other names.
        with suppress(Exception):
            clients = _take_clients(library)
        for client in clients:
            with suppress(Exception):
                close = getattr(client, "aclose", None) or client.close
                closing = close()
                if inspect.isawaitable(closing):
                    await closing


def _take_clients(library: Any) -> list[Any]:
    """Remove the clients of the running loop from LiteLLM and return them."""
    cache = library.in_memory_llm_clients_cache
    # The key of a client ends with the number of its loop.
    ending = cache.update_cache_key_with_event_loop("")
    if not ending:
        return []
    keys = [key for key in cache.cache_dict if str(key).endswith(ending)]
    clients = [cache.cache_dict.pop(key) for key in keys]
    if vars(library).get("module_level_aclient") in clients:
        # Streams of some providers use it in all loops, so the next loop must make its
        # own.
        del library.module_level_aclient
    return clients


_PROBE_TIMEOUT = 30.0
# A probe that fails for one of these shows that no call can succeed.
_DECISIVE = (FailureKind.AUTHENTICATION, FailureKind.MODEL, FailureKind.QUOTA)
_UNANSWERED = (
    FailureKind.RATE_LIMIT,
    FailureKind.SERVER,
    FailureKind.TIMEOUT,
    FailureKind.CONNECTION,
)


class ProviderModel(LLM):
    """A model at one address; LiteLLM is imported at the first request."""

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, **options)
        self._prices = own_prices(self.params)
        self._form = RequestForm()
        self._is_ready = False

    def check(self) -> None:
        if not (self._api_base or os.environ.get(FALLBACK_BASE, "").strip()):
            try:
                refuse_unknown_provider(self.model, self.params)
            except ProviderFailure as failure:
                raise self.explained(failure) from failure
        if self.api_key_env:
            refuse_empty_key(self.api_key_env, self.account, os.environ)
        elif not self._api_base:
            refuse_missing_key(self.model, self.params, self.account, os.environ)

    async def probe(self) -> str:
        await self.prepare()
        question = {"role": "user", "content": "Answer with one word: ready?"}
        timeout = min(_PROBE_TIMEOUT, self._timeout)
        request = Request([question], timeout=timeout, most_tokens=1)
        try:
            await super().attempt(request)
        except ProviderFailure as failure:
            if failure.kind in _DECISIVE:
                raise self.explained(failure) from failure
            if failure.kind in _UNANSWERED:
                return self.explained(failure).message
            # A refusal of the request's form, as by models that think before they
            # answer, shows that the key is valid.
            return ""
        finally:
            self.usage = self.usage + request.spent
        return ""

    async def prepare(self) -> None:
        if self._is_ready:
            return
        self.check()
        await asyncio.to_thread(self._prepare_library)
        self.endpoint = find_endpoint(
            lazy.litellm(), self.model, self._api_base, self.api_key_env, os.environ
        )
        self._is_ready = True

    def _prepare_library(self) -> None:
        library = lazy.prepare_for(self.model)
        # Looked up in this thread and cached: for some models LiteLLM asks a server.
        context_window(library, self.model)

    async def attempt(self, request: Request) -> Reply:
        """Send the request, and at once again in other forms if its form is refused."""
        first_form = self._form
        while True:
            try:
                reply = await super().attempt(request)
            except ProviderFailure as failure:
                other_form = self._form.after(failure, request)
                if other_form is None:
                    # No form helped, so the forms were not the cause.
                    self._form = first_form
                    raise
                self._form = other_form
            else:
                if "response_format" in self._form.fields(request):
                    self._form = replace(self._form, schema_proved=True)
                return reply

    async def send(self, request: Request, draft: Draft) -> None:
        library = lazy.litellm()
        response = None
        is_streamed = self._form.is_streamed(request)
        lazy.silence_warnings()
        await close_with_loop(library)
        try:
            response = await library.acompletion(**self._arguments(request))
            if is_streamed:
                async for chunk in response:
                    _add_answer(chunk, draft)
                draft.finish_reason = _finish_reason_of_stream(response)
            else:
                _add_answer(response, draft)
                if response.choices:
                    draft.finish_reason = str(response.choices[0].finish_reason or "")
        except Exception as error:
            raise failure_from(error, begun=draft.started) from error
        finally:
            if is_streamed and response is not None:
                # An abandoned answer must not hold its connection.
                with suppress(Exception):
                    await response.aclose()
        if not draft.finish_reason:
            raise ProviderFailure("the answer ended early", kind=FailureKind.CUT)

    def used(self, request: Request, draft: Draft) -> Usage:
        return measure(lazy.litellm(), self.model, self._prices, request, draft)

    def context_window(self) -> int | None:
        # Called in the event loop, so it must not wait for the import.
        library = lazy.imported_litellm()
        return None if library is None else context_window(library, self.model)

    def has_price(self) -> bool:
        return self._prices is not None or is_priced(lazy.litellm(), self.model)

    def cost_of(self, usage: Usage) -> float | None:
        return price_of(lazy.litellm(), self.model, self._prices, usage)

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self.endpoint.api_base is not None:
            arguments["api_base"] = self.endpoint.api_base
        if self.endpoint.api_key is not None:
            arguments["api_key"] = self.endpoint.api_key
        if request.tools:
            arguments["tools"] = [tool.offer() for tool in request.tools]
        arguments.update(self._form.fields(request))
        arguments.update(self.params)
        # LiteLLM would keep the prices for all later calls of this model, also those of
        # other accounts.
        for name in PRICE_PARAMS:
            arguments.pop(name, None)
        if request.most_tokens is not None:
            arguments.pop("max_completion_tokens", None)
            arguments["max_tokens"] = request.most_tokens
        keep_empty = not lazy.has_own_protocol(self.model)
        arguments["model"] = self.model
        arguments["messages"] = sendable(request.messages, keep_empty=keep_empty)
        arguments["timeout"] = request.timeout
        # LiteLLM's own retries are not counted, and they hide errors.
        arguments["max_retries"] = 0
        return arguments


def _finish_reason_of_stream(response: Any) -> str:
    # LiteLLM's own last chunk always says "stop".
    for name in ("received_finish_reason", "intermittent_finish_reason"):
        reason = getattr(response, name, None)
        if reason:
            return str(reason)
    return ""


def _add_answer(answer: Any, draft: Draft) -> None:
    """Add a chunk of a stream, or a whole response, to the draft."""
    for choice in getattr(answer, "choices", None) or ():
        content = getattr(choice, "delta", None) or getattr(choice, "message", None)
        draft.add_text(getattr(content, "content", None) or "")
        for number, call in enumerate(getattr(content, "tool_calls", None) or ()):
            # Only the calls in chunks are numbered.
            index = getattr(call, "index", None)
            draft.add_call(
                index if isinstance(index, int) else number,
                call.id or "",
                getattr(call.function, "name", None) or "",
                getattr(call.function, "arguments", None) or "",
            )
    usage = getattr(answer, "usage", None)
    if usage is not None:
        draft.report = Usage(
            input_tokens=max(0, usage.prompt_tokens or 0),
            output_tokens=max(0, usage.completion_tokens or 0),
        )
        draft.detail = usage
