"""One call of a model: ask, count, and ask again in a plainer form if the provider refuses the request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import FailureKind, ProviderFailure
from goalrunner.llm.transport import Draft, Reply, Request, Transport

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
        return replace(
            request,
            response_format=_response_format(self.schema_form, schema, name),
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


def _response_format(form: SchemaForm, schema: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    if schema is None or form == "none":
        return None
    if form == "json_object":
        # llama.cpp reads the schema beside it; other servers take this as JSON mode.
        return {"type": "json_object", "schema": schema}
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


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
                await self._receive(request, draft)
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

    async def _receive(self, request: Request, draft: Draft) -> None:
        await self.transport.ask(request, draft)
        if not draft.finish_reason:
            raise ProviderFailure("the answer ended early", kind=FailureKind.CUT)
