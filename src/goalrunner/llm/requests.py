"""Requests to models and their answers."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.messages import clean
from goalrunner.core.outcome import Usage

DEFAULT_TIMEOUT = 600.0
"""Seconds that one call may take; `params["timeout"]` replaces it."""

# Signs and length of the names of tools that OpenAI accepts.
_NO_NAME_SIGN = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64


def object_arguments(arguments: str) -> str:
    """Return the arguments of a tool call as the text of a JSON object.

    An object contains them if they are none.
    """
    text = arguments or "{}"
    with suppress(ValueError, RecursionError):
        if isinstance(json.loads(text), dict):
            return text
    return json.dumps({"malformed_arguments": arguments})


@dataclass(frozen=True)
class ToolSpec:
    """A tool that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    def offer(self) -> dict[str, Any]:
        """Return the tool as a request offers it, in OpenAI's format."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model wrote it.

    `arguments` is raw text: it should be JSON, and may be malformed.
    """

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

        Names and arguments of tool calls are valid, because providers check the whole
        history: an invalid call would make every later request fail.
        """
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = list(map(_valid_call, self.tool_calls))
        return message


def _valid_call(call: ToolCall) -> dict[str, Any]:
    name = _NO_NAME_SIGN.sub("_", call.name)[:_LONGEST_NAME] or "unknown"
    function = {"name": name, "arguments": object_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


@dataclass
class Request:
    """One request, which may be sent several times."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    schema: dict[str, Any] | None = None
    schema_name: str = "answer"
    temperature: float | None = None
    on_text: Callable[[str], None] | None = None
    """Gets the text piece by piece.

    Without it, an answer streams only if the provider needs that: it takes longer.
    """
    timeout: float = DEFAULT_TIMEOUT
    """Seconds for the whole call."""
    most_tokens: int | None = None
    """Tokens of the answer; None: as the model's parameters say."""
    spent: Usage = field(default_factory=Usage)
    """The usage of all attempts."""

    @property
    def is_streamed(self) -> bool:
        """Whether the caller wants the answer in pieces."""
        return self.on_text is not None


@dataclass
class Draft:
    """An answer while it arrives; `on_text` gets its text at once.

    Without a finish reason the answer was cut.
    """

    on_text: Callable[[str], None] | None = None
    text: str = ""
    calls: dict[int, ToolCall] = field(default_factory=dict)
    report: Usage | None = None
    """The tokens that the provider counted, and dollars where the source has them."""
    detail: Any = None
    """The report as LiteLLM gives it, for its prices."""
    finish_reason: str = ""

    @property
    def started(self) -> bool:
        """Whether a part has arrived: from then on the provider counts tokens."""
        return bool(self.text or self.calls or self.report)

    def add_text(self, text: str) -> None:
        """Append a piece of text."""
        if text:
            self.text += text
            if self.on_text is not None:
                self.on_text(text)

    def add_call(
        self,
        index: int,
        id: str = "",  # noqa: A002
        name: str = "",
        arguments: str = "",
    ) -> None:
        """Append a piece of the tool call with this number.

        Id and name come once, the arguments in parts.
        """
        begun = self.calls.get(index, ToolCall("", "", ""))
        self.calls[index] = ToolCall(
            begun.id or id, begun.name or name, begun.arguments + arguments
        )

    def reply(self, usage: Usage) -> Reply:
        """Return the answer, without lone surrogates."""
        calls = []
        for call in self.calls.values():
            # A random id, because a counted one could come again after a resume.
            identifier = call.id or f"call_{secrets.token_hex(6)}"
            name, arguments = clean(call.name), clean(call.arguments)
            calls.append(ToolCall(identifier, name, arguments))
        return Reply(clean(self.text), tuple(calls), usage, self.finish_reason)
