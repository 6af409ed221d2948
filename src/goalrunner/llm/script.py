"""The format of recorded replies: one JSON object a line. Owns reading and checking it; plays nothing.

    {"account": "agent", "text": "...", "tool_calls": [{"name": "shell", "arguments": {"command": "ls"}}],
     "usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.0}, "finish_reason": "stop", "delay": 0.5}
    {"error": {"status": 429, "message": "slow down", "retry_after": 1}}
    {"error": {"cut": true}, "text": "what came before the cut"}

Every key is optional. Without `account` a line is for any account. `arguments` is an object, or raw text as a model
wrote it. `delay` is in seconds. An `error` is consumed by one attempt; the next attempt plays the next line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from goalrunner.errors import GoalError
from goalrunner.events import Account
from goalrunner.model.base import Frozen

PREFIX = "scripted/"


def is_scripted(model: str) -> bool:
    """Whether a model's name means a recording: `scripted/<path>`."""
    return model.startswith(PREFIX)


class ScriptedCall(Frozen):
    """A tool call of a recorded reply. Without an id it is given one when it is played: call_1, call_2, ..."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    id: str = ""

    @property
    def text(self) -> str:
        """The arguments as the model wrote them."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


class ScriptedUsage(Frozen):
    """What a recorded reply counts for. `cost_usd` null means that the price was unknown."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cost_usd: Annotated[float, Field(ge=0)] | None = 0.0


class ScriptedError(Frozen):
    """A failure in place of an answer: an HTTP status, a timeout, a refused connection, or a stream that is cut."""

    status: int | None = Field(default=None, ge=400, le=599)
    message: str = ""
    retry_after: float | None = Field(default=None, ge=0, description="seconds")
    cut: bool = False
    timeout: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> ScriptedError:
        if (self.status is not None) + self.cut + self.timeout > 1:
            raise ValueError("an error has a status, or is cut, or is a timeout")
        return self


class ScriptedReply(Frozen):
    """One line of a recording."""

    account: Account | None = None
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    usage: ScriptedUsage = Field(default_factory=ScriptedUsage)
    finish_reason: str = ""
    delay: float = Field(default=0.0, ge=0, description="seconds before the answer begins")
    error: ScriptedError | None = None

    @property
    def reason(self) -> str:
        """Why the model stopped; where the line does not say, what its content means."""
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")


def read_script(path: Path) -> tuple[ScriptedReply, ...]:
    """Every line of a recording, checked. Raises GoalError that names the file, and the line that does not hold."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GoalError(
            f"the recording {path} cannot be read: {error.strerror or error}",
            f'A model "{PREFIX}<file>" plays the replies in that file; check the path.',
        ) from error
    lines = data.split(b"\n")
    return tuple(_parse(path, number, line) for number, line in enumerate(lines, start=1) if line.strip())


def _parse(path: Path, number: int, line: bytes) -> ScriptedReply:
    try:
        return ScriptedReply.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        said = _plain(str(first["type"]), str(first["msg"]))
        known = ", ".join(ScriptedReply.model_fields)
        raise GoalError(
            f"{path}:{number}: {f'{key}: ' if key else ''}{said}",
            f"Each line is one JSON object; its keys: {known}.",
        ) from error


def _plain(kind: str, message: str) -> str:
    match kind:
        case "extra_forbidden":
            return "unknown key"
        case "json_invalid":
            return f"not JSON ({message.removeprefix('Invalid JSON: ')})"
        case "value_error":
            return message.removeprefix("Value error, ")
        case _:
            return message[:1].lower() + message[1:]
