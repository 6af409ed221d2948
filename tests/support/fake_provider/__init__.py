"""A model provider that answers from a script, behind an HTTP server on loopback, for programs with a client of their own.

    with FakeProvider([run("touch done.txt"), say("Done.")]) as server:
        ...  # start a program whose provider is at server.base_url("anthropic")
        assert server.played == 2

It speaks the wire formats of OpenAI (chat and Responses), Anthropic and Gemini, streamed or not.
"""

from __future__ import annotations

from tests.support.fake_provider.agents import SETTINGS, ProviderSettings
from tests.support.fake_provider.messages import (
    Answer,
    Reply,
    Request,
    Tool,
    call,
    calls,
    cut,
    fail,
    hang,
    run,
    say,
    texts,
)
from tests.support.fake_provider.server import FakeProvider, Wire, WireName
from tests.support.fake_provider.tools import command_tool

__all__ = [
    "SETTINGS",
    "Answer",
    "FakeProvider",
    "ProviderSettings",
    "Reply",
    "Request",
    "Tool",
    "Wire",
    "WireName",
    "call",
    "calls",
    "command_tool",
    "cut",
    "fail",
    "hang",
    "run",
    "say",
    "texts",
]
