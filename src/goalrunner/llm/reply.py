"""What is asked of a model and what it answers. Owns the shapes; calls nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from goalrunner.model.usage import Usage


@dataclass(frozen=True)
class ToolSpec:
    """A tool that the model may call; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    def offer(self) -> dict[str, Any]:
        """The tool as it is offered in a request, in OpenAI's shape."""
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
    """A model's whole answer, and what it cost: this call's tokens and dollars, its retries included."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    finish_reason: str

    def message(self) -> dict[str, Any]:
        """The assistant message in OpenAI's shape. `content` is never None: some servers answer 500 to that."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        return message
