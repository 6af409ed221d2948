"""Requests to models, and their replies."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from goalrunner.core.agent_ports import Message
from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import FailureKind, ProviderFailure

MALFORMED = "malformed_arguments"  # the key under which arguments that are not a JSON object are sent


def object_arguments(arguments: object) -> str:
    """Return the arguments of a tool call as the text of a JSON object."""
    if not isinstance(arguments, str):
        return json.dumps(arguments if isinstance(arguments, dict) else {})
    text = encodable(arguments) if arguments.strip() else "{}"
    try:
        is_object = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    return text if is_object else json.dumps({MALFORMED: text})


def encodable(text: str) -> str:
    """Return the text without lone surrogates, which no request can carry."""
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True)
class ToolSpec:
    """A tool that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    def offer(self) -> dict[str, Any]:
        """Return the tool as a request offers it, in OpenAI's format."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model wrote it. `arguments` is raw text: it should be JSON, and may be malformed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """A complete answer of a model and what it used, retries included."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    finish_reason: str

    def message(self) -> dict[str, Any]:
        """Return the assistant message in OpenAI's format.

        `content` is never None, because some servers answer 500 to that. Names and arguments of tool calls are valid, because
        providers check the whole history: an invalid call would make every later request fail.
        """
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64] or "unknown",
                        "arguments": object_arguments(call.arguments),
                    },
                }
                for call in self.tool_calls
            ]
        return message


@dataclass(frozen=True)
class Request:
    """One request. What is None is not sent."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    response_format: dict[str, Any] | None = None
    temperature: float | None = None
    streaming: bool = True
    """Whether the answer comes in pieces. A streamed answer takes longer, so this needs a reader of the pieces."""
    stream_usage: bool = True  # whether to ask for token counts at the end of the stream
    timeout: float = 600.0  # seconds for the whole call


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
    whole: bool = True  # whether answers that are not read piece by piece can come whole; some models only stream
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
class Draft:
    """An answer while it comes in; `on_text` gets its text at once. Without a finish reason the answer was cut."""

    on_text: Callable[[str], None] | None = None
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    report: Usage | None = None  # the tokens that the provider counted, and the dollars where the source knows them
    detail: Any = None  # the report as LiteLLM gives it, for its prices
    finish_reason: str = ""
    _places: dict[int, int] = field(default_factory=dict)

    @property
    def started(self) -> bool:
        """Whether anything has come: from then on the provider counts tokens."""
        return bool(self.text or self.calls or self.report)

    def add_text(self, text: str) -> None:
        """Append a piece of text."""
        if text:
            self.text += text
            if self.on_text is not None:
                self.on_text(text)

    def add_call(self, index: int, id: str = "", name: str = "", arguments: str = "") -> None:  # noqa: A002
        """Append a piece of a tool call. `index` numbers the call; id and name come once, the arguments in parts."""
        place = self._places.get(index)
        begun = None if place is None else self.calls[place]
        # Some servers number every call 0; a new id beside a name then begins another call.
        if place is None or begun is None or (name and begun.id and id not in ("", begun.id)):
            self._places[index] = len(self.calls)
            self.calls.append(ToolCall(id, name, arguments))
        else:  # some servers repeat the name in every piece
            self.calls[place] = ToolCall(begun.id or id, begun.name or name, begun.arguments + arguments)

    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tool calls in order. One without an id gets a random one, so that it is new after a resume too."""
        return tuple(
            replace(call, id=call.id or f"call_{secrets.token_hex(6)}_{number}")
            for number, call in enumerate(self.calls)
        )
