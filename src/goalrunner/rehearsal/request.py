"""What a program asks of a model, whatever the wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit


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
        return bearer or self.headers.get("x-api-key", "") or self.headers.get("x-goog-api-key", "") or query


def merged(items: list[tuple[bool, Reply]]) -> list[Reply]:
    """The model's turns, where each item says whether it is the model's: neighbours are one turn."""
    turns: list[Reply] = []
    before = False
    for own, reply in items:
        if own and before:
            turns[-1] = Reply(turns[-1].text + reply.text, turns[-1].calls or reply.calls)
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
    return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
