"""Requests to models, their replies, and the recording of replies."""

from __future__ import annotations

import json
import re
import secrets
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import Account
from goalrunner.core.messages import clean
from goalrunner.core.outcome import Usage
from goalrunner.records.files import AppendFile

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


@dataclass
class Request:
    """One request, which may be sent several times; `spent` is the usage of all attempts."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    schema: dict[str, Any] | None = None
    schema_name: str = "answer"
    temperature: float | None = None
    on_text: Callable[[str], None] | None = None
    """Gets the text piece by piece. Without it, an answer streams only if the provider needs that: it takes longer."""
    timeout: float = 600.0  # seconds for the whole call
    spent: Usage = field(default_factory=Usage)

    @property
    def is_streamed(self) -> bool:
        """Whether the caller wants the answer in pieces."""
        return self.on_text is not None


@dataclass
class Draft:
    """An answer while it arrives; `on_text` gets its text at once. Without a finish reason the answer was cut."""

    on_text: Callable[[str], None] | None = None
    text: str = ""
    calls: dict[int, ToolCall] = field(default_factory=dict)
    report: Usage | None = None  # the tokens that the provider counted, and the dollars where the source knows them
    detail: Any = None  # the report as LiteLLM gives it, for its prices
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


class Tape:
    """A file to which the replies of agent and judge are appended. Each line is on disk when `record` returns.

    `redact` replaces secrets in every text before it is written. The file is opened once, so a link that replaces it
    later is not followed. Raise UsageError if the file cannot be created or is not empty.
    """

    def __init__(self, path: Path | str, *, redact: Callable[[str], str] = str) -> None:
        self.path = Path(path)
        self._redact = redact
        self._lock = threading.Lock()
        target = self.path.resolve()  # a link that the user gave is followed
        if target.exists() and not (target.is_file() and target.stat().st_size == 0):
            raise UsageError(f"{self.path} exists and is not an empty file", "Name another file for the recording.")
        try:
            self._file = AppendFile(target)
        except RecordError as error:
            hint = "Name a file in a folder that exists and is writable."
            raise UsageError(f"the recording cannot be written: {error.message}", hint) from error
        weakref.finalize(self, self._file.close)

    def record(self, account: Account, reply: Reply) -> None:
        """Append one reply. Raise RecordError if the line cannot be written whole."""
        line: dict[str, Any] = {"account": account, "text": self._clean(reply.text)}
        if reply.tool_calls:
            line["tool_calls"] = [
                {"id": call.id, "name": self._clean(call.name), "arguments": self._clean(call.arguments)}
                for call in reply.tool_calls
            ]
        line["usage"] = reply.usage.model_dump(include={"input_tokens", "output_tokens", "cost_usd"})
        line["finish_reason"] = reply.finish_reason
        with self._lock:
            self._file.append(json.dumps(line, allow_nan=False).encode())

    def _clean(self, text: str) -> str:
        return clean(self._redact(text))
