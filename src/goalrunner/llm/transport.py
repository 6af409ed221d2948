"""Requests, replies, and the base class of the ways to a model."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.outcome import Usage
from goalrunner.llm.failure import Endpoint

MALFORMED = "malformed_arguments"
"""The key under which arguments that are not a JSON object are sent."""


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
    stream_usage: bool = True
    """Whether to ask for token counts at the end of the stream."""
    timeout: float = 600.0
    """Seconds for the whole call."""


@dataclass
class Draft:
    """An answer while it comes in; `on_text` gets its text at once. Without a finish reason the answer was cut."""

    on_text: Callable[[str], None] | None = None
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    report: Usage | None = None
    """The tokens that the provider counted, and the dollars where the source knows them."""
    detail: Any = None
    """The report as LiteLLM gives it, for its prices."""
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


class Transport:
    """A way to a model. The defaults suit a model of which nothing is known."""

    adapts = False
    """Whether a refused request may be sent again in a plainer form."""
    endpoint = Endpoint()
    """What an error message names."""

    async def ask(self, request: Request, draft: Draft) -> None:
        """Send the request and add the answer to the draft. Raise ProviderFailure for everything that goes wrong."""
        raise NotImplementedError

    def account(self, request: Request, draft: Draft) -> Usage:
        """Return what the answer used, as reported or estimated. It counts no call."""
        return Usage.unknown()

    def check(self) -> None:
        """Check what needs no request. Raise AuthenticationFailed if the key is certainly missing."""

    async def foresee(self) -> str:
        """Check before the first request whether provider and model exist. Return a warning. Raise ProviderFailure."""
        return ""

    async def prepare(self) -> None:
        """Load what the first request needs; this does not count towards its timeout."""

    def context_window(self) -> int | None:
        """Return the most input tokens that the model takes; None if unknown."""
        return None

    def has_price(self) -> bool:
        """Return whether the cost can be counted. May wait for an import."""
        return False

    def cost_of(self, usage: Usage) -> float | None:
        """Return the US dollars for these tokens; None without a price. May wait for an import."""
        return None

    def skip(self, replies: int) -> None:
        """Skip so many recorded replies."""
