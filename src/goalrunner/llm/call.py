"""One call of a model: stream, assemble, count, and plainer forms that a provider may need."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import FailureKind, ProviderFailure
from goalrunner.llm.transport import (
    CallPiece,
    Delta,
    Draft,
    Finish,
    Reply,
    Request,
    TextPiece,
    ToolCall,
    Transport,
    UsageReport,
)


class Assembler:
    """Collects the pieces of one answer; `draft` is what has come so far."""

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self.draft = Draft()
        self._on_text = on_text
        self._places: dict[int, int] = {}

    def add(self, delta: Delta) -> None:
        """Take the next piece; text goes on to `on_text` at once."""
        match delta:
            case TextPiece(text):
                self._add_text(text)
            case CallPiece():
                self._add_call(delta)
            case UsageReport():
                self.draft.report = delta
            case Finish(reason):
                self.draft.finish_reason = reason
            case _:
                assert_never(delta)

    def calls(self, fallback_id: Callable[[int], str]) -> tuple[ToolCall, ...]:
        """The tool calls in their order; `fallback_id(n)` names the n-th where the model gave it no id."""
        return tuple(
            ToolCall(id=piece.id or fallback_id(number), name=piece.name, arguments=piece.arguments)
            for number, piece in enumerate(self.draft.calls)
        )

    def _add_text(self, text: str) -> None:
        if not text:
            return
        self.draft.text += text
        if self._on_text is not None:
            self._on_text(text)

    def _add_call(self, piece: CallPiece) -> None:
        place = self._places.get(piece.index)
        if place is None or self._is_another(self.draft.calls[place], piece):
            self._places[piece.index] = len(self.draft.calls)
            self.draft.calls.append(piece)
            return
        begun = self.draft.calls[place]
        self.draft.calls[place] = CallPiece(
            index=begun.index,
            id=begun.id or piece.id,
            # Names come whole, in the first piece or in every one; only arguments come in parts.
            name=begun.name or piece.name,
            arguments=begun.arguments + piece.arguments,
        )

    @staticmethod
    def _is_another(begun: CallPiece, piece: CallPiece) -> bool:
        """Some servers give every call of an answer the index 0; a new id beside a name tells them apart."""
        return bool(piece.id and piece.name and begun.id and piece.id != begun.id)


SchemaForm = Literal["json_schema", "json_object", "none"]

_PLAINER: dict[SchemaForm, SchemaForm] = {"json_schema": "json_object", "json_object": "none"}
_BROKEN = frozenset({500, 501})
"""What some servers answer to a form that they do not know; 502, 503, 529 are about load."""


@dataclass(frozen=True)
class Concessions:
    """How a request is put so that this provider takes it. A model instance remembers what worked."""

    schema_form: SchemaForm = "json_schema"
    temperature: bool = True
    stream_usage: bool = True
    whole: bool = True
    """Whether answers come whole where nobody listens to a stream; some models only stream."""

    def apply(self, request: Request, schema: dict[str, Any] | None, name: str) -> Request:
        """The request in the form that is conceded."""
        streaming = request.streaming or not self.whole
        return replace(
            request,
            response_format=_response_format(self.schema_form, schema, name),
            temperature=request.temperature if self.temperature else None,
            streaming=streaming,
            stream_usage=streaming and self.stream_usage,
        )

    def after(self, failure: ProviderFailure, request: Request, *, proved: bool) -> Concessions | None:
        """A plainer form to try at once after this refusal; None when the refusal is about something else.

        `proved` says that this provider has answered with this schema form before: then a 500 is about its health.
        """
        said = failure.message
        refused = failure.kind is FailureKind.REJECTED
        if refused and request.temperature is not None and re.search(r"temperature", said, re.IGNORECASE):
            return replace(self, temperature=False)
        if refused and request.stream_usage and re.search(r"stream_options|include_usage", said, re.IGNORECASE):
            return replace(self, stream_usage=False)
        if refused and not request.streaming and re.search(r"\bstream(ing|ed)?\b", said, re.IGNORECASE):
            return replace(self, whole=False)
        broken = failure.kind is FailureKind.SERVER and failure.status in _BROKEN and not proved
        if request.response_format is not None and (refused or broken):
            return replace(self, schema_form=_PLAINER[self.schema_form])
        return None


def _response_format(form: SchemaForm, schema: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    if schema is None or form == "none":
        return None
    if form == "json_object":
        # The schema beside it is llama.cpp's way; others take it as JSON mode.
        return {"type": "json_object", "schema": schema}
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


@dataclass
class Manners:
    """What a model instance has learned about its provider."""

    concessions: Concessions = field(default_factory=Concessions)
    schema_proved: bool = False
    """Whether an answer has come to a request with the schema form that is in use."""


@dataclass
class Call:
    """One call: `attempt` may be repeated, and `spent` adds up what every attempt used."""

    transport: Transport
    request: Request
    manners: Manners
    schema: dict[str, Any] | None = None
    schema_name: str = "answer"
    on_text: Callable[[str], None] | None = None
    spent: Usage = field(default_factory=Usage)

    async def attempt(self) -> Reply:
        """Ask; where the provider refuses the request's form, ask at once in a plainer one. Raises ProviderFailure."""
        concessions = self.manners.concessions
        while True:
            request = concessions.apply(self.request, self.schema, self.schema_name)
            try:
                reply = await self._ask(request)
            except ProviderFailure as failure:
                plainer = concessions.after(failure, request, proved=self.manners.schema_proved)
                if plainer is None or not self.transport.adapts:
                    raise
                concessions = plainer
            else:
                self.manners.concessions = concessions
                self.manners.schema_proved |= request.response_format is not None
                return reply

    def count_retry(self) -> None:
        """An attempt is about to be repeated."""
        self.spent = self.spent + Usage(retries=1)

    async def _ask(self, request: Request) -> Reply:
        assembler = Assembler(self.on_text)
        try:
            await self._listen(request, assembler)
        except (ProviderFailure, asyncio.CancelledError):
            # Providers charge for what they had read and said before the break.
            if assembler.draft.started:
                self.spent = self.spent + self.transport.account(request, assembler.draft)
            raise
        draft = assembler.draft
        self.spent = self.spent + self.transport.account(request, draft) + Usage(calls=1)
        return Reply(draft.text, assembler.calls(_fresh_id), self.spent, draft.finish_reason)

    async def _listen(self, request: Request, assembler: Assembler) -> None:
        deadline = asyncio.timeout(request.timeout)
        try:
            async with deadline, aclosing(self.transport.stream(request)) as stream:
                async for delta in stream:
                    assembler.add(delta)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise ProviderFailure(f"no whole answer within {request.timeout:g} s", kind=FailureKind.TIMEOUT) from error
        if not assembler.draft.finish_reason:
            raise ProviderFailure("the stream ended before the answer did", kind=FailureKind.CUT)


def _fresh_id(number: int) -> str:
    """An id for a call that came without one; random, so that it is new in a resumed conversation too."""
    return f"call_{secrets.token_hex(6)}_{number}"
