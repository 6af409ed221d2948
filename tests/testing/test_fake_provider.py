"""The fake provider: the same script in every wire format."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from goalrunner.agents.external_agents import BUILT_IN
from tests.support.fake_provider import SETTINGS, FakeProvider, WireName, fail, run, say
from tests.support.fake_provider.client import PATHS, ask, body, tools

WIRES: tuple[WireName, ...] = ("openai", "responses", "anthropic", "gemini")

pytestmark = pytest.mark.parametrize("wire", WIRES)


def text_of(wire: WireName, answer: Any) -> str:
    """The text of a whole answer."""
    match wire:
        case "openai":
            return str(answer["choices"][0]["message"]["content"])
        case "responses":
            parts = [item["content"][0]["text"] for item in answer["output"] if item["type"] == "message"]
        case "anthropic":
            parts = [part["text"] for part in answer["content"] if part["type"] == "text"]
        case "gemini":
            parts = [part["text"] for part in answer["candidates"][0]["content"]["parts"] if "text" in part]
    return "".join(parts)


def call_of(wire: WireName, answer: Any) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the call in a whole answer."""
    match wire:
        case "openai":
            function = answer["choices"][0]["message"]["tool_calls"][0]["function"]
            return function["name"], json.loads(function["arguments"])
        case "responses":
            (item,) = [item for item in answer["output"] if item["type"] == "function_call"]
            return item["name"], json.loads(item["arguments"])
        case "anthropic":
            (part,) = [part for part in answer["content"] if part["type"] == "tool_use"]
            return part["name"], part["input"]
        case "gemini":
            (part,) = [one for one in answer["candidates"][0]["content"]["parts"] if "functionCall" in one]
            return part["functionCall"]["name"], part["functionCall"]["args"]


def streamed(wire: WireName, events: list[dict[str, Any]]) -> str:
    """The text of a streamed answer."""
    match wire:
        case "openai":
            return "".join(one["delta"].get("content") or "" for event in events for one in event["choices"])
        case "responses":
            return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        case "anthropic":
            return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
        case "gemini":
            return "".join(text_of(wire, event) for event in events)


def called(wire: WireName, events: list[dict[str, Any]]) -> dict[str, Any]:
    """The arguments of the call in a streamed answer."""
    match wire:
        case "openai":
            calls = [
                one for event in events for choice in event["choices"] for one in choice["delta"].get("tool_calls", [])
            ]
            found = "".join(one["function"]["arguments"] for one in calls)
        case "responses":
            (found,) = [event["arguments"] for event in events if event["type"].endswith("arguments.done")]
        case "anthropic":
            deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
            found = "".join(delta.get("partial_json", "") for delta in deltas)
        case "gemini":
            return call_of(wire, events[-1])[1]
    return dict(json.loads(found))


def test_a_command_goes_to_the_tool_that_runs_commands(wire: WireName) -> None:
    with FakeProvider([run("make it", text="I begin.")]) as server:
        status, answer = ask(server, wire, body(wire, ("user", "go"), tools=tools(wire)))
    assert status == 200
    assert text_of(wire, answer) == "I begin."
    assert call_of(wire, answer) == ("bash", {"command": "make it", "description": "fake"})
    assert (server.played, server.exhausted) == (1, False)


def test_a_command_may_be_wanted_as_a_list(wire: WireName) -> None:
    schema = {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}}
    with FakeProvider([run("make it")]) as server:
        _, answer = ask(server, wire, body(wire, ("user", "go"), tools=tools(wire, "shell", schema)))
    assert call_of(wire, answer) == ("shell", {"command": ["bash", "-c", "make it"]})


def test_the_place_in_the_script_is_that_of_the_conversation(wire: WireName) -> None:
    script = [run("one"), say("First."), say("Second.")]
    with FakeProvider(script) as server:
        once = body(wire, ("user", "go"), ("call", "one"), tools=tools(wire))
        again = [text_of(wire, ask(server, wire, once)[1]) for _ in range(2)]
        more = body(wire, ("user", "go"), ("call", "one"), ("model", "First."), ("user", "go on"), tools=tools(wire))
        after = text_of(wire, ask(server, wire, more)[1])
        put = body(wire, ("user", "x"), ("model", "Not of the script."), ("user", "go"), tools=tools(wire))
        begun = call_of(wire, ask(server, wire, put)[1])[1]["command"]
    assert (again, after, begun) == (["First.", "First."], "Second.", "one")


def test_a_fresh_conversation_may_go_on_with_the_script(wire: WireName) -> None:
    with FakeProvider([say("First."), fail(500, times=1), say("Second.")], fresh=True) as server:
        asked = body(wire, ("user", "go"), tools=tools(wire))
        answers = [ask(server, wire, asked) for _ in range(4)]
    assert [status for status, _ in answers] == [200, 500, 200, 400]
    assert [text_of(wire, answer) for status, answer in answers if status == 200] == ["First.", "Second."]
    assert server.exhausted


def test_a_failure_comes_as_often_as_it_is_told_to(wire: WireName) -> None:
    with FakeProvider([fail(429, "slow down", times=2, retry_after=1), say("At last.")]) as server:
        asked = body(wire, ("user", "go"), tools=tools(wire))
        answers = [ask(server, wire, asked) for _ in range(3)]
    assert [status for status, _ in answers] == [429, 429, 200]
    assert "slow down" in json.dumps(answers[0][1])


@pytest.mark.parametrize(("status", "advised"), [(401, "false"), (403, "false"), (429, "true"), (500, "true")])
def test_a_refusal_says_whether_another_try_helps_unless_it_is_a_gateways(
    wire: WireName, status: int, advised: str
) -> None:
    asked = json.dumps(body(wire, ("user", "go"), tools=tools(wire))).encode()
    for advises in (True, False):
        with FakeProvider([fail(status)], advises=advises) as server:
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(server.base_url(wire) + PATHS[wire], asked, timeout=5)
            with refused.value:
                assert refused.value.code == status
                assert refused.value.headers["x-should-retry"] == (advised if advises else None)


def test_a_question_on_the_side_uses_up_nothing(wire: WireName) -> None:
    with FakeProvider([say("Main.")]) as server:
        _, aside = ask(server, wire, body(wire, ("user", "a title, please")))
        _, main = ask(server, wire, body(wire, ("user", "go"), tools=tools(wire)))
    assert (text_of(wire, aside), text_of(wire, main), server.played) == ("Fake", "Main.", 1)


def test_a_question_on_the_side_gets_the_shape_that_it_wants(wire: WireName) -> None:
    schema = {
        "type": "object",
        "properties": {"speaker": {"type": "string", "enum": ["user"]}},
        "required": ["speaker"],
    }
    wanted: dict[str, dict[str, Any]] = {
        "openai": {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}},
        "responses": {"text": {"format": {"type": "json_schema", "schema": schema}}},
        "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
        "gemini": {"generationConfig": {"responseJsonSchema": schema}},
    }
    with FakeProvider() as server:
        _, aside = ask(server, wire, body(wire, ("user", "who speaks next?"), **wanted[wire]))
    assert json.loads(text_of(wire, aside)) == {"speaker": "user"}


def test_a_program_without_tools_plays_the_script_too(wire: WireName) -> None:
    with FakeProvider([say("Plain.")], plain=True) as server:
        _, answer = ask(server, wire, body(wire, ("user", "go")))
    assert (text_of(wire, answer), server.played) == ("Plain.", 1)


def test_an_answer_can_come_in_pieces(wire: WireName) -> None:
    path = "/v1beta/models/m:streamGenerateContent?alt=sse" if wire == "gemini" else ""
    more = {"stream_options": {"include_usage": True}} if wire == "openai" else {}
    with FakeProvider([run("make it", text="I begin to work.", usage=(1111, 777))]) as server:
        asked = body(wire, ("user", "go"), stream=True, tools=tools(wire), **more)
        _, events = ask(server, wire, asked, path=path)
    assert streamed(wire, events) == "I begin to work."
    assert called(wire, events)["command"] == "make it"
    raw = json.dumps(events)
    assert "1111" in raw
    assert "777" in raw


def test_another_key_is_refused(wire: WireName) -> None:
    with FakeProvider([say("never")], api_key="right") as server:
        asked = body(wire, ("user", "go"), tools=tools(wire))
        assert ask(server, wire, asked, key="wrong")[0] == 401
        assert ask(server, wire, asked, key="right")[0] == 200


def test_what_is_asked_besides_does_no_harm(wire: WireName) -> None:
    with FakeProvider() as server:
        with urllib.request.urlopen(f"{server.base_url('openai')}/models?limit=1", timeout=5) as response:
            assert json.load(response)["data"] == []
        status, counted = ask(server, wire, {"messages": []}, path="/v1/messages/count_tokens")
        assert (status, counted["input_tokens"] > 0) == (200, True)
        assert ask(server, wire, {}, path="/telemetry/events")[0] == 404
    assert [line.split("/")[-2:] for line in server.strange] == [["telemetry", "events"]]


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
