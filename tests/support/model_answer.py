"""What the scripted model server is asked and what it answers: the shapes, and how they go over the wire."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Seen:
    """A request as it came: path, headers (lower-case names), and the parsed JSON body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def model(self) -> str:
        """The model that was asked for, without a provider."""
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat that was sent."""
        return list(self.body.get("messages", []))

    @property
    def key(self) -> str:
        """The bearer token that came along."""
        return self.headers.get("authorization", "").removeprefix("Bearer ")


@dataclass(frozen=True)
class Answer:
    """One answer. Make it with `say`, `call`, `calls`, `fail`, `cut` or `hang`; all keys can be given to them too."""

    text: str = ""
    tool_calls: tuple[tuple[str, str], ...] = ()
    """(name, raw JSON arguments) of each call."""
    usage: tuple[int, int] | None = (10, 5)
    """Input and output tokens; None: the server reports none."""
    finish_reason: str = ""
    status: int = 200
    message: str = ""
    retry_after: str | None = None
    delay: float = 0.0
    """Seconds before the first byte."""
    pace: float = 0.0
    """Seconds between the pieces of a stream."""
    pieces: int = 4
    """In how many pieces the text comes."""
    cut: Literal["", "abrupt", "clean"] = ""
    """Break the stream off in the middle: drop the connection, or end the body as if it were whole."""
    repeat_names: bool = False
    """Whether a tool's name stands in every piece of its call, as llama.cpp's server streams it, three letters a piece."""
    call_ids: bool = True
    """Whether tool calls carry an id; some servers give none."""

    @property
    def reason(self) -> str:
        """The finish reason that goes with the content."""
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")


def say(text: str, **keys: Any) -> Answer:
    """The model answers with text."""
    return Answer(text=text, **keys)


def calls(*tool_calls: tuple[str, Mapping[str, Any] | str], text: str = "", **keys: Any) -> Answer:
    """The model calls several tools: `calls(("shell", {"command": "ls"}), ("read_file", '{"path": '))`."""
    raw = tuple(
        (name, arguments if isinstance(arguments, str) else json.dumps(arguments)) for name, arguments in tool_calls
    )
    return Answer(text=text, tool_calls=raw, **keys)


def call(name: str, **arguments: Any) -> Answer:
    """The model calls one tool: `call("shell", command="ls")`."""
    return calls((name, arguments))


def fail(status: int, message: str = "", *, retry_after: float | str | None = None, **keys: Any) -> Answer:
    """The provider refuses: 401, 404, 429 with Retry-After, 500, ..."""
    wait = None if retry_after is None else str(retry_after)
    return Answer(status=status, message=message or f"scripted error {status}", retry_after=wait, **keys)


def cut(text: str = "It beg", *, clean: bool = False, **keys: Any) -> Answer:
    """The stream breaks off after `text`: the connection drops, or (clean) the body ends without a finish reason."""
    return Answer(text=text, cut="clean" if clean else "abrupt", **keys)


def hang(seconds: float = 30.0) -> Answer:
    """No byte comes for that long; leaving the server ends the wait."""
    return Answer(text="too late", delay=seconds)


def pieces(seen: Seen, answer: Answer) -> Iterable[dict[str, Any]]:
    """The answer as the chunks of a stream; a cut one has no end."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": int(time.time()), "model": seen.model}

    def piece(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield piece({"role": "assistant", "content": ""})
    size = max(1, -(-len(answer.text) // answer.pieces))
    for start in range(0, len(answer.text), size):
        yield piece({"content": answer.text[start : start + size]})
    for index, tool_call in enumerate(_tool_calls(seen, answer)):
        function = tool_call["function"]
        first = {**tool_call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        yield piece({"tool_calls": [first]})
        arguments = function["arguments"]
        size = 3 if answer.repeat_names else max(1, -(-len(arguments) // 2))
        name = {"name": function["name"]} if answer.repeat_names else {}
        for start in range(0, len(arguments), size):
            part = arguments[start : start + size]
            yield piece({"tool_calls": [{"index": index, "function": {**name, "arguments": part}}]})
    if answer.cut:
        return
    yield piece({}, answer.reason)
    wanted = (seen.body.get("stream_options") or {}).get("include_usage")
    if wanted and answer.usage is not None:
        yield {**head, "choices": [], "usage": _usage(answer.usage)}


def whole(seen: Seen, answer: Answer) -> dict[str, Any]:
    """The answer as one body; a cleanly cut one has no finish reason."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.tool_calls:
        message["tool_calls"] = _tool_calls(seen, answer)
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": seen.model,
    }
    body["choices"] = [{"index": 0, "message": message, "finish_reason": None if answer.cut else answer.reason}]
    if answer.usage is not None:
        body["usage"] = _usage(answer.usage)
    return body


def _tool_calls(seen: Seen, answer: Answer) -> list[dict[str, Any]]:
    # The number of messages makes ids unique through a conversation, and the same in every run.
    turn = len(seen.messages)
    made = [
        {"id": f"call_{turn}_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(answer.tool_calls, start=1)
    ]
    if not answer.call_ids:
        for tool_call in made:
            del tool_call["id"]
    return made


def _usage(usage: tuple[int, int]) -> dict[str, int]:
    return {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}


def read_answers(path: Path) -> dict[str, list[Answer]]:
    """Answers by model name from a file of recorded replies; lines without an account are under ""."""
    from goalrunner.llm.script import read_script

    answers: dict[str, list[Answer]] = {}
    for line in read_script(path):
        answers.setdefault(line.account or "", []).append(_answer(line))
    return answers


def _answer(line: Any) -> Answer:
    error = line.error
    if error is not None and not error.cut:
        return fail(error.status or 408, error.message, retry_after=error.retry_after, delay=line.delay)
    return Answer(
        text=line.text,
        tool_calls=tuple((tool_call.name, tool_call.text) for tool_call in line.tool_calls),
        usage=(line.usage.input_tokens, line.usage.output_tokens),
        finish_reason=line.reason,
        delay=line.delay,
        cut="abrupt" if error is not None else "",
    )
