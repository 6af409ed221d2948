"""The form of requests that a provider accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from goalrunner.core.agent_ports import Message
from goalrunner.llm.failure import FailureKind, ProviderFailure
from goalrunner.llm.requests import Request


def sendable(
    messages: Sequence[Message], *, keep_empty: bool = True
) -> list[dict[str, Any]]:
    """Return the messages with content that providers take.

    It is never None, and there is a text if there are no tool calls. Without
    `keep_empty`, empty content beside tool calls is left out: for providers that refuse
    it, LiteLLM would insert a text of its own. Servers with OpenAI's format need it.
    """
    sent = []
    for message in messages:
        valid_message = {**message, "content": message.get("content") or ""}
        is_empty = not valid_message["content"]
        if message.get("role") == "assistant" and is_empty:
            if not message.get("tool_calls"):
                valid_message["content"] = "[no text]"
            elif not keep_empty:
                del valid_message["content"]
        sent.append(valid_message)
    return sent


# Status codes of some servers for a schema that they do not support; 502, 503 and 529
# are about load.
_BROKEN = frozenset({500, 501})
# Status codes of gateways if nothing arrives for about a minute; a stream begins
# earlier.
_GATEWAY_TIMEOUTS = frozenset({504, 524})


@dataclass(frozen=True)
class RequestForm:
    """The form of a request. A model keeps the form that worked."""

    schema: Literal["json_schema", "json_object", "none"] = "json_schema"
    temperature: bool = True
    streamed: bool | None = None
    """Whether the answer streams; None: as the request asks."""
    schema_proved: bool = False
    """Whether a request with this schema form was answered.

    A later 500 is then about the server's health.
    """

    def is_streamed(self, request: Request) -> bool:
        """Return whether the answer to a request streams."""
        return request.is_streamed if self.streamed is None else self.streamed

    def fields(self, request: Request) -> dict[str, Any]:
        """Return the fields that depend on the form."""
        fields: dict[str, Any] = {"stream": self.is_streamed(request)}
        if self.is_streamed(request):
            fields["stream_options"] = {"include_usage": True}
        if request.schema is not None and self.schema != "none":
            fields["response_format"] = self._response_format(request)
        if request.temperature is not None and self.temperature:
            fields["temperature"] = request.temperature
        return fields

    def _response_format(self, request: Request) -> dict[str, Any]:
        if self.schema == "json_object":
            # llama.cpp reads the schema beside it; other servers take this as JSON
            # mode.
            return {"type": "json_object", "schema": request.schema}
        json_schema = {
            "name": request.schema_name,
            "schema": request.schema,
            "strict": True,
        }
        return {"type": "json_schema", "json_schema": json_schema}

    def after(self, failure: ProviderFailure, request: Request) -> RequestForm | None:
        """Return another form to try at once.

        None if the failure is not about the form.
        """
        fields = self.fields(request)
        message = failure.message.lower()
        is_refused = failure.kind is FailureKind.REJECTED
        if is_refused and "temperature" in fields and "temperature" in message:
            return replace(self, temperature=False)
        is_late = failure.status in _GATEWAY_TIMEOUTS and not request.is_streamed
        is_stream_refused = is_refused and "stream" in message
        if self.streamed is None and (is_late or is_stream_refused):
            return replace(self, streamed=not request.is_streamed)
        is_broken = (
            failure.kind is FailureKind.SERVER
            and failure.status in _BROKEN
            and not self.schema_proved
        )
        if "response_format" in fields and (is_refused or is_broken):
            is_first = self.schema == "json_schema"
            return replace(self, schema="json_object" if is_first else "none")
        return None
