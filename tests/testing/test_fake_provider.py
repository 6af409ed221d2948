"""The fake provider: the same script in every wire format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from goalrunner.agents.external_agents import BUILT_IN
from tests.support.fake_provider import SETTINGS, FakeProvider, WireName, fail, run, say
from tests.support.fake_provider.client import ask, body, tools

WIRES: tuple[WireName, ...] = ("openai", "responses", "anthropic", "gemini")

pytestmark = pytest.mark.parametrize("wire", WIRES)


def text_of(wire: WireName, answer: Any) -> str:
    """The text of a whole answer."""
    match wire:
        case "openai":
            return str(answer["choices"][0]["message"]["content"])
        case "responses":
            parts = [
                item["content"][0]["text"]
                for item in answer["output"]
                if item["type"] == "message"
            ]
        case "anthropic":
            parts = [
                part["text"] for part in answer["content"] if part["type"] == "text"
            ]
        case "gemini":
            parts = [
                part["text"]
                for part in answer["candidates"][0]["content"]["parts"]
                if "text" in part
            ]
    return "".join(parts)


def call_of(wire: WireName, answer: Any) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the call in a whole answer."""
    match wire:
        case "openai":
            function = answer["choices"][0]["message"]["tool_calls"][0]["function"]
            return function["name"], json.loads(function["arguments"])
        case "responses":
            (item,) = [
                item for item in answer["output"] if item["type"] == "function_call"
            ]
            return item["name"], json.loads(item["arguments"])
        case "anthropic":
            (part,) = [part for part in answer["content"] if part["type"] == "tool_use"]
            return part["name"], part["input"]
        case "gemini":
            (part,) = [
                one
                for one in answer["candidates"][0]["content"]["parts"]
                if "functionCall" in one
            ]
            return part["functionCall"]["name"], part["functionCall"]["args"]


def streamed(wire: WireName, events: list[dict[str, Any]]) -> str:
    """The text of a streamed answer."""
    match wire:
        case "openai":
            return "".join(
                one["delta"].get("content") or ""
                for event in events
                for one in event["choices"]
            )
        case "responses":
            return "".join(
                event["delta"]
                for event in events
                if event["type"] == "response.output_text.delta"
            )
        case "anthropic":
            return "".join(
                event["delta"].get("text", "")
                for event in events
                if event["type"] == "content_block_delta"
            )
        case "gemini":
            return "".join(text_of(wire, event) for event in events)


def test_a_command_goes_to_the_tool_that_runs_commands(wire: WireName) -> None:
    with FakeProvider([run("make it", text="I begin.")]) as server:
        status, answer = ask(
            server, wire, body(wire, ("user", "go"), tools=tools(wire))
        )
    assert status == 200
    assert text_of(wire, answer) == "I begin."
    assert call_of(wire, answer) == (
        "bash",
        {"command": "make it", "description": "fake"},
    )
    assert (server.played, server.exhausted) == (1, False)


def test_the_place_in_the_script_is_that_of_the_conversation(wire: WireName) -> None:
    script = [run("one"), say("First."), say("Second.")]
    with FakeProvider(script) as server:
        once = body(wire, ("user", "go"), ("call", "one"), tools=tools(wire))
        again = [text_of(wire, ask(server, wire, once)[1]) for _ in range(2)]
        more = body(
            wire,
            ("user", "go"),
            ("call", "one"),
            ("model", "First."),
            ("user", "go on"),
            tools=tools(wire),
        )
        after = text_of(wire, ask(server, wire, more)[1])
        put = body(
            wire,
            ("user", "x"),
            ("model", "Not of the script."),
            ("user", "go"),
            tools=tools(wire),
        )
        begun = call_of(wire, ask(server, wire, put)[1])[1]["command"]
    assert (again, after, begun) == (["First.", "First."], "Second.", "one")


def test_a_failure_comes_as_often_as_it_is_told_to(wire: WireName) -> None:
    with FakeProvider(
        [fail(429, "slow down", times=2, retry_after=1), say("At last.")]
    ) as server:
        asked = body(wire, ("user", "go"), tools=tools(wire))
        answers = [ask(server, wire, asked) for _ in range(3)]
    assert [status for status, _ in answers] == [429, 429, 200]
    assert "slow down" in json.dumps(answers[0][1])


def test_an_answer_can_come_in_pieces(wire: WireName) -> None:
    path = "/v1beta/models/m:streamGenerateContent?alt=sse" if wire == "gemini" else ""
    more = {"stream_options": {"include_usage": True}} if wire == "openai" else {}
    with FakeProvider(
        [run("make it", text="I begin to work.", usage=(1111, 777))]
    ) as server:
        asked = body(wire, ("user", "go"), stream=True, tools=tools(wire), **more)
        _, events = ask(server, wire, asked, path=path)
    assert streamed(wire, events) == "I begin to work."
    raw = json.dumps(events)
    assert "1111" in raw
    assert "777" in raw


def test_the_agents_of_that_format_can_be_sent_to_it(wire: WireName) -> None:
    assert set(SETTINGS) == set(BUILT_IN)
    chosen = [settings for settings in SETTINGS.values() if settings.wire == wire]
    assert chosen
    with FakeProvider() as server:
        for settings in chosen:
            filled = settings.at(server)
            words = "\0".join((*filled.env.values(), *filled.args))
            assert server.base_url(wire) in words
            assert "{base_url}" not in words
