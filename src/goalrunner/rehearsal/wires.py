"""The wire formats by name, and which of them a path belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, cast
from urllib.parse import urlsplit

from goalrunner.rehearsal import anthropic, chat, gemini, responses
from goalrunner.rehearsal.answer import Answer
from goalrunner.rehearsal.request import Reply, Request, Tool

WireName = Literal["openai", "responses", "anthropic", "gemini"]
"""Chat completions, Responses, messages, generateContent."""


class Wire(Protocol):
    """What a module of a wire format has."""

    LAST: str

    def tools(self, request: Request) -> list[Tool]:
        """The tools that are offered."""
        ...

    def replies(self, request: Request) -> Sequence[Reply]:
        """The model's turns in the conversation."""
        ...

    def schema(self, request: Request) -> dict[str, Any] | None:
        """The JSON schema that the answer must have; None: it is free."""
        ...

    def streams(self, request: Request) -> bool:
        """Whether the answer is to come in pieces."""
        ...

    def failure(self, status: int, message: str) -> dict[str, Any]:
        """The body of a refusal."""
        ...

    def whole(self, request: Request, answer: Answer) -> dict[str, Any]:
        """The answer as one body."""
        ...

    def pieces(self, request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
        """The answer as what a stream carries."""
        ...


WIRES: dict[WireName, Wire] = {
    "openai": cast(Wire, chat),
    "responses": cast(Wire, responses),
    "anthropic": cast(Wire, anthropic),
    "gemini": cast(Wire, gemini),
}

PREFIX: dict[WireName, str] = {"openai": "/v1", "responses": "/v1", "anthropic": "", "gemini": ""}
"""What programs expect at the end of the address that they are given."""


def wire_of(path: str) -> WireName | None:
    """The format of requests to that path; None: no model is asked there."""
    bare = urlsplit(path).path.rstrip("/")
    if bare.endswith("/chat/completions"):
        return "openai"
    if bare.endswith("/responses"):
        return "responses"
    if bare.endswith("/messages"):
        return "anthropic"
    if bare.endswith((":generateContent", ":streamGenerateContent")):
        return "gemini"
    return None
