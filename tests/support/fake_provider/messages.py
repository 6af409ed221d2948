"""Scripted answers of a model, and what a program asked, in no particular wire format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Answer:
    """One answer. Make it with `say`, `run`, `call`, `calls`, `fail`, `cut` or `hang`; all keys can be given to them too."""

    text: str = ""
    commands: tuple[str, ...] = ()
    """Command lines to be run by whichever tool the program has for that; becomes `tool_calls` once it is known."""
    tool_calls: tuple[tuple[str, str], ...] = ()
    """(name, raw JSON arguments) of each call."""
    usage: tuple[int, int] | None = (10, 5)
    """Input and output tokens; None: the server reports none."""
    finish_reason: str = ""
    """Only of OpenAI chat; empty: what goes with the content."""
    status: int = 200
    message: str = ""
    retry_after: str | None = None
    resets_in: float | None = None
    """Seconds after which the usage limit of the account resets, as a subscription says; Gemini's quota says no time."""
    times: int = 0
    """How often a failure comes before the script goes on; 0: for ever."""
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
    """Whether tool calls carry an id; some servers give none. Only of OpenAI chat, as is `repeat_names`."""

    @property
    def reason(self) -> str:
        """The finish reason of OpenAI chat that goes with the content."""
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")

    @property
    def parts(self) -> list[str]:
        """The text in the pieces in which it is streamed."""
        size = max(1, -(-len(self.text) // self.pieces))
        return [
            self.text[start : start + size] for start in range(0, len(self.text), size)
        ]


def say(text: str, **keys: Any) -> Answer:
    """The model answers with text."""
    return Answer(text=text, **keys)


def run(*commands: str, text: str = "", **keys: Any) -> Answer:
    """The model has command lines run, by whichever tool the program declares for that."""
    return Answer(text=text, commands=commands, **keys)


def calls(
    *tool_calls: tuple[str, Mapping[str, Any] | str], text: str = "", **keys: Any
) -> Answer:
    """The model calls several tools: `calls(("shell", {"command": "ls"}), ("read_file", '{"path": '))`."""
    raw = tuple(
        (name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for name, arguments in tool_calls
    )
    return Answer(text=text, tool_calls=raw, **keys)


def call(name: str, **arguments: Any) -> Answer:
    """The model calls one tool: `call("shell", command="ls")`."""
    return calls((name, arguments))


def fail(
    status: int,
    message: str = "",
    *,
    retry_after: float | str | None = None,
    **keys: Any,
) -> Answer:
    """The provider refuses: 401, 404, 429 with Retry-After, 500, ..."""
    wait = None if retry_after is None else str(retry_after)
    return Answer(
        status=status,
        message=message or f"scripted error {status}",
        retry_after=wait,
        **keys,
    )


def cut(text: str = "It beg", *, clean: bool = False, **keys: Any) -> Answer:
    """The stream breaks off after `text`: the connection drops, or (clean) the body ends without a finish reason."""
    return Answer(text=text, cut="clean" if clean else "abrupt", **keys)


def hang(seconds: float = 30.0) -> Answer:
    """No byte comes for that long; leaving the server ends the wait."""
    return Answer(text="too late", delay=seconds)


@dataclass(frozen=True)
class Tool:
    """A tool that the program offers, with the JSON schema of its arguments."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    free: bool = False
    """Whether it takes any text instead of JSON."""


@dataclass(frozen=True)
class Reply:
    """What the model had said already, as the request gives it back: the text of one turn, and whether it called tools."""

    text: str = ""
    calls: bool = False


@dataclass(frozen=True)
class Request:
    """A request as it came: path with its query, headers (lower-case names), and the parsed JSON body."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def model(self) -> str:
        """The model that was asked for, without a provider."""
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat that was sent, where the format has one under that name."""
        return list(self.body.get("messages", []))

    @property
    def key(self) -> str:
        """The key that came along, in whichever header or query."""
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        query = parse_qs(urlsplit(self.path).query).get("key", [""])[0]
        return (
            bearer
            or self.headers.get("x-api-key", "")
            or self.headers.get("x-goog-api-key", "")
            or query
        )


def merged(items: list[tuple[bool, Reply]]) -> list[Reply]:
    """The model's turns, where each item says whether it is the model's: neighbours are one turn."""
    turns: list[Reply] = []
    before = False
    for own, reply in items:
        if own and before:
            turns[-1] = Reply(
                turns[-1].text + reply.text, turns[-1].calls or reply.calls
            )
        elif own:
            turns.append(reply)
        before = own
    return turns


def texts(content: Any) -> str:
    """The text of a content that is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        str(part.get("text") or "") for part in content if isinstance(part, dict)
    )
