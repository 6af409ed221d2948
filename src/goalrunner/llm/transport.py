"""Requests to models, and their replies."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from goalrunner.core.agent_ports import Message
from goalrunner.core.messages import clean
from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import FailureKind, ProviderFailure

MALFORMED = "malformed_arguments"  # the key under which arguments that are not a JSON object are sent


def object_arguments(arguments: str) -> str:
    """Return the arguments of a tool call as the text of a JSON object."""
    try:
        is_object = isinstance(json.loads(arguments or "{}"), dict)
    except (ValueError, RecursionError):
        is_object = False
    return (arguments or "{}") if is_object else json.dumps({MALFORMED: arguments})


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

        Names and arguments of tool calls are valid, because providers check the whole history: an invalid call would make
        every later request fail.
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
    timeout: float = 600.0  # seconds for the whole call


SchemaForm = Literal["json_schema", "json_object", "none"]

_PLAINER: dict[SchemaForm, SchemaForm] = {"json_schema": "json_object", "json_object": "none"}
_BROKEN = frozenset({500, 501})
"""What some servers answer to a schema that they do not support; 502, 503 and 529 are about load."""


@dataclass(frozen=True)
class ProviderQuirks:
    """How a request has to be put for this provider. A model instance remembers what worked."""

    schema_form: SchemaForm = "json_schema"
    temperature: bool = True
    schema_proved: bool = False
    """Whether a request with this schema form was answered: a later 500 is then about the server's health."""

    def apply(self, request: Request, schema: dict[str, Any] | None, name: str) -> Request:
        """Return the request as this provider takes it."""
        wanted: dict[str, Any] | None = {
            "type": "json_schema",
            "json_schema": {"name": name, "schema": schema, "strict": True},
        }
        if self.schema_form == "json_object":
            # llama.cpp reads the schema beside it; other servers take this as JSON mode.
            wanted = {"type": "json_object", "schema": schema}
        if schema is None or self.schema_form == "none":
            wanted = None
        return replace(request, response_format=wanted, temperature=request.temperature if self.temperature else None)

    def after(self, failure: ProviderFailure, request: Request) -> ProviderQuirks | None:
        """Return a plainer form to try at once; None if the failure is about something else."""
        refused = failure.kind is FailureKind.REJECTED
        if refused and request.temperature is not None and "temperature" in failure.message.lower():
            return replace(self, temperature=False)
        broken = failure.kind is FailureKind.SERVER and failure.status in _BROKEN and not self.schema_proved
        if request.response_format is not None and (refused or broken):
            return replace(self, schema_form=_PLAINER[self.schema_form])
        return None


@dataclass
class Draft:
    """An answer while it comes in; `on_text` gets its text at once. Without a finish reason the answer was cut."""

    on_text: Callable[[str], None] | None = None
    text: str = ""
    calls: dict[int, ToolCall] = field(default_factory=dict)
    report: Usage | None = None  # the tokens that the provider counted, and the dollars where the source knows them
    detail: Any = None  # the report as LiteLLM gives it, for its prices
    finish_reason: str = ""

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
        """Append a piece of the tool call with this number; id and name come once, the arguments in parts."""
        begun = self.calls.get(index, ToolCall("", "", ""))
        self.calls[index] = ToolCall(begun.id or id, begun.name or name, begun.arguments + arguments)

    def reply(self, usage: Usage) -> Reply:
        """Return the answer, without lone surrogates. A call without an id gets a random one, new after a resume too."""
        calls = [
            ToolCall(call.id or f"call_{secrets.token_hex(6)}", clean(call.name), clean(call.arguments))
            for call in self.calls.values()
        ]
        return Reply(clean(self.text), tuple(calls), usage, self.finish_reason)
