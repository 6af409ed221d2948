"""What a provider does not take, found out by its refusals. Owns the plainer forms of a request; sends nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from goalrunner.llm.failure import FailureKind, ProviderFailure
from goalrunner.llm.transport import Request

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
