"""Requests to real models through LiteLLM, and its replies."""

from __future__ import annotations

import asyncio
import inspect
import os
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from goalrunner.core.agent_ports import Message
from goalrunner.core.outcome import Usage
from goalrunner.llm import library as lazy
from goalrunner.llm.client import LLM, Draft, Reply, Request
from goalrunner.llm.endpoints import (
    FALLBACK_BASE,
    find_endpoint,
    refuse_empty_key,
    refuse_missing_key,
    refuse_unknown_provider,
)
from goalrunner.llm.failure import Endpoint, FailureKind, ProviderFailure, failure_from
from goalrunner.llm.library import (
    PRICE_PARAMS,
    context_window,
    is_priced,
    measure,
    own_prices,
    price_of,
)

_closers: weakref.WeakKeyDictionary[
    asyncio.AbstractEventLoop, AsyncGenerator[None, None]
] = weakref.WeakKeyDictionary()


async def close_with_loop(library: Any) -> None:
    """Close LiteLLM's clients of the running loop when `asyncio.run` (or a Runner) ends it."""
    loop = asyncio.get_running_loop()
    if loop not in _closers:
        # A loop closes its open async generators when it ends. It has no other hook for its end.
        _closers[loop] = _closer(library)
        await anext(_closers[loop])


async def _closer(library: Any) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        clients: list[Any] = []
        with suppress(Exception):  # a later version of LiteLLM may have other names
            cache = library.in_memory_llm_clients_cache
            # The key of a client ends with the number of its loop.
            ending = cache.update_cache_key_with_event_loop("")
            keys = [
                key for key in cache.cache_dict if ending and str(key).endswith(ending)
            ]
            clients = [cache.cache_dict.pop(key) for key in keys]
            if vars(library).get("module_level_aclient") in clients:
                # Streams of some providers use it in all loops, so the next loop must make its own.
                del library.module_level_aclient
        for client in clients:
            with suppress(Exception):
                closing = (getattr(client, "aclose", None) or client.close)()
                if inspect.isawaitable(closing):
                    await closing


def sendable(
    messages: Sequence[Message], *, keep_empty: bool = True
) -> list[dict[str, Any]]:
    """Return the messages with content that providers take: never None, and a text if there are no tool calls.

    Without `keep_empty`, empty content beside tool calls is left out: for providers that refuse it, LiteLLM would
    insert a text of its own. Servers with OpenAI's format need it.
    """
    sent = []
    for message in messages:
        clean = {**message, "content": message.get("content") or ""}
        if message.get("role") == "assistant" and not clean["content"]:
            if not message.get("tool_calls"):
                clean["content"] = "[no text]"
            elif not keep_empty:
                del clean["content"]
        sent.append(clean)
    return sent


_BROKEN = frozenset({500, 501})
"""Status codes of some servers for a schema that they do not support; 502, 503 and 529 are about load."""
_GATEWAY_TIMEOUTS = frozenset({504, 524})
"""Status codes of gateways if nothing arrives for about a minute; a stream begins earlier."""


@dataclass(frozen=True)
class RequestForm:
    """The form of a request that this provider accepts. A model keeps the form that worked."""

    schema: Literal["json_schema", "json_object", "none"] = "json_schema"
    temperature: bool = True
    streamed: bool | None = None
    """Whether the answer streams; None: as the request asks."""
    schema_proved: bool = False
    """Whether a request with this schema form was answered: a later 500 is then about the server's health."""

    def is_streamed(self, request: Request) -> bool:
        """Return whether the answer to a request streams."""
        return request.is_streamed if self.streamed is None else self.streamed

    def fields(self, request: Request) -> dict[str, Any]:
        """Return the fields that depend on the form."""
        fields: dict[str, Any] = {"stream": self.is_streamed(request)}
        if self.is_streamed(request):
            fields["stream_options"] = {"include_usage": True}
        if request.schema is not None and self.schema == "json_schema":
            wanted = {
                "name": request.schema_name,
                "schema": request.schema,
                "strict": True,
            }
            fields["response_format"] = {"type": "json_schema", "json_schema": wanted}
        elif request.schema is not None and self.schema == "json_object":
            # llama.cpp reads the schema beside it; other servers take this as JSON mode.
            fields["response_format"] = {
                "type": "json_object",
                "schema": request.schema,
            }
        if request.temperature is not None and self.temperature:
            fields["temperature"] = request.temperature
        return fields

    def after(self, failure: ProviderFailure, request: Request) -> RequestForm | None:
        """Return another form to try at once; None if the failure is not about the form."""
        sent, refused = self.fields(request), failure.kind is FailureKind.REJECTED
        if (
            refused
            and "temperature" in sent
            and "temperature" in failure.message.lower()
        ):
            return replace(self, temperature=False)
        late = failure.status in _GATEWAY_TIMEOUTS and not request.is_streamed
        if self.streamed is None and (
            late or (refused and "stream" in failure.message.lower())
        ):
            return replace(self, streamed=not request.is_streamed)
        broken = (
            failure.kind is FailureKind.SERVER
            and failure.status in _BROKEN
            and not self.schema_proved
        )
        if "response_format" in sent and (refused or broken):
            return replace(
                self, schema="json_object" if self.schema == "json_schema" else "none"
            )
        return None


_PROBE_TIMEOUT = 30.0
_DECISIVE = (FailureKind.AUTHENTICATION, FailureKind.MODEL, FailureKind.QUOTA)
_UNANSWERED = (
    FailureKind.RATE_LIMIT,
    FailureKind.SERVER,
    FailureKind.TIMEOUT,
    FailureKind.CONNECTION,
)


class ProviderModel(LLM):
    """A model at one address, called through LiteLLM, which is imported at the first request."""

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
        request = Request(
            [question], timeout=min(_PROBE_TIMEOUT, self._timeout), most_tokens=1
        )
        try:
            await super().attempt(request)
        except ProviderFailure as failure:
            if failure.kind in _DECISIVE:
                raise self.explained(failure) from failure
            # A refusal of the request's form, as by models that think before they answer, shows that the key is valid.
            return (
                self.explained(failure).message if failure.kind in _UNANSWERED else ""
            )
        finally:
            self.usage = self.usage + request.spent
        return ""

    async def prepare(self) -> None:
        if not self._is_ready:
            self.check()
            # The thread also looks up the context window, which is cached: for some models LiteLLM asks a server.
            await asyncio.to_thread(
                lambda: context_window(lazy.prepare_for(self.model), self.model)
            )
            self._find(lazy.litellm())
            self._is_ready = True

    async def attempt(self, request: Request) -> Reply:
        """Send the request, and at once again in other forms while the provider refuses the form."""
        before = self._form
        while True:
            try:
                reply = await super().attempt(request)
            except ProviderFailure as failure:
                other = self._form.after(failure, request)
                self._form = other or before
                if other is None:
                    raise
            else:
                proved = (
                    self._form.schema_proved
                    or "response_format" in self._form.fields(request)
                )
                self._form = replace(self._form, schema_proved=proved)
                return reply

    async def send(self, request: Request, draft: Draft) -> None:
        library, response, is_streamed = (
            lazy.litellm(),
            None,
            self._form.is_streamed(request),
        )
        lazy.silence_warnings()
        await close_with_loop(library)
        try:
            response = await library.acompletion(**self._arguments(request))
            if is_streamed:
                async for chunk in response:
                    _add(chunk, draft)
                # LiteLLM's own last chunk always says "stop".
                names = ("received_finish_reason", "intermittent_finish_reason")
                draft.finish_reason = str(
                    next(
                        filter(None, (getattr(response, name, None) for name in names)),
                        "",
                    )
                )
            else:
                _add(response, draft)
                draft.finish_reason = (
                    str(response.choices[0].finish_reason or "")
                    if response.choices
                    else ""
                )
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

    def _find(self, library: Any) -> Endpoint:
        self.endpoint = find_endpoint(
            library, self.model, self._api_base, self.api_key_env, os.environ
        )
        return self.endpoint

    def _arguments(self, request: Request) -> dict[str, Any]:
        wanted = {
            "api_base": self.endpoint.api_base,
            "api_key": self.endpoint.api_key,
            "tools": [tool.offer() for tool in request.tools] or None,
        }
        # LiteLLM would keep the prices for all later calls of this model, also those of other accounts.
        params = {
            name: value
            for name, value in self.params.items()
            if name not in PRICE_PARAMS
        }
        if request.most_tokens is not None:
            params.pop("max_completion_tokens", None)
            params["max_tokens"] = request.most_tokens
        return {
            **{name: value for name, value in wanted.items() if value is not None},
            **self._form.fields(request),
            **params,
            "model": self.model,
            "messages": sendable(
                request.messages, keep_empty=not lazy.has_own_protocol(self.model)
            ),
            "timeout": request.timeout,
            # LiteLLM's own retries are not counted, and they hide errors.
            "max_retries": 0,
        }


def _add(answer: Any, draft: Draft) -> None:
    """Add a chunk of a stream, or a whole response, to the draft."""
    for choice in getattr(answer, "choices", None) or ():
        content = getattr(choice, "delta", None) or getattr(choice, "message", None)
        draft.add_text(getattr(content, "content", None) or "")
        for number, call in enumerate(getattr(content, "tool_calls", None) or ()):
            index = getattr(call, "index", None)
            name, arguments = (
                getattr(call.function, key, None) or "" for key in ("name", "arguments")
            )
            draft.add_call(
                index if isinstance(index, int) else number,
                call.id or "",
                name,
                arguments,
            )
    usage = getattr(answer, "usage", None)
    if usage is not None:
        counts = (
            max(0, usage.prompt_tokens or 0),
            max(0, usage.completion_tokens or 0),
        )
        draft.report, draft.detail = (
            Usage(input_tokens=counts[0], output_tokens=counts[1]),
            usage,
        )
