"""Real models: the whole way through LiteLLM to a server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from goalrunner.core.errors import (
    AuthenticationFailed,
    ContextWindowExceeded,
    ModelError,
    ModelNotFound,
    ProviderUnavailable,
    RequestRejected,
)
from goalrunner.core.outcome import Usage
from goalrunner.llm import LLM, Reply, ToolCall, ToolSpec, client
from tests.support.clocks import deadlines
from tests.support.fake_provider import FakeProvider, WireName
from tests.support.model_server import (
    Answer,
    ModelServer,
    Seen,
    call,
    calls,
    cut,
    fail,
    hang,
    say,
)

ASK = [{"role": "user", "content": "hi"}]
KEY = "sk-test-0123456789"
SHELL = ToolSpec(
    "shell",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}},
)
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)


def _unheard(text: str) -> None:
    """A listener that the answer streams for."""


BOTH_WAYS = pytest.mark.parametrize(
    "on_text", [None, _unheard], ids=["whole", "streamed"]
)
Listener = Callable[[str], None] | None


@pytest.fixture(autouse=True)
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between two retries, which are only noted."""
    taken: list[float] = []

    async def sleep(seconds: float) -> None:
        taken.append(seconds)

    monkeypatch.setattr(client, "sleep", sleep)
    monkeypatch.setattr(client, "RETRIES", 2)
    return taken


def _model(server: ModelServer, model: str = "openai/x", **keys: Any) -> LLM:
    return LLM(
        model, **{"api_base": server.base_url, "api_key_env": "TEST_KEY", **keys}
    )


async def test_text_streams_and_usage_is_counted() -> None:
    heard: list[str] = []
    with ModelServer([say("hello world", usage=(120, 7))], api_key=KEY) as server:
        llm = _model(server, params={"max_tokens": 50})
        reply = await llm.complete(ASK, temperature=0.0, on_text=heard.append)
    assert (reply.text, "".join(heard), reply.finish_reason) == (
        "hello world",
        "hello world",
        "stop",
    )
    assert len(heard) > 1
    assert reply.usage == Usage(
        input_tokens=120, output_tokens=7, cost_usd=None, calls=1
    )
    (body,) = server.bodies
    assert body == {
        "model": "x",
        "messages": ASK,
        "max_tokens": 50,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_an_answer_does_not_stream_without_a_listener() -> None:
    with ModelServer(
        [say("hello world", usage=(120, 7)), say("", finish_reason="length")],
        api_key=KEY,
    ) as server:
        llm = _model(server, params={"max_tokens": 50})
        reply = await llm.complete(ASK, temperature=0.0)
        cut_short = await llm.complete(ASK, temperature=0.0)
    assert (reply.text, reply.finish_reason) == ("hello world", "stop")
    assert reply.usage == Usage(
        input_tokens=120, output_tokens=7, cost_usd=None, calls=1
    )
    assert (cut_short.text, cut_short.finish_reason) == ("", "length")
    assert (
        server.bodies
        == [{"model": "x", "messages": ASK, "max_tokens": 50, "temperature": 0.0}] * 2
    )


@pytest.mark.parametrize(
    "refusal",
    [(400, "This model only supports stream mode."), (504, "upstream request timeout")],
)
async def test_an_answer_that_cannot_come_whole_is_streamed(
    refusal: tuple[int, str],
) -> None:
    def answer(seen: Seen) -> Answer:
        return say("x") if seen.body.get("stream") else fail(*refusal)

    with ModelServer(answer) as server:
        llm = _model(server)
        replies = [await llm.complete(ASK), await llm.complete(ASK)]
    assert [reply.text for reply in replies] == ["x", "x"]
    assert [body.get("stream", False) for body in server.bodies] == [False, True, True]
    assert llm.usage == Usage(input_tokens=20, output_tokens=10, cost_usd=None, calls=2)


async def test_an_answer_that_cannot_stream_comes_whole() -> None:
    heard: list[str] = []
    with ModelServer([say("x"), say("y")], refuses={"stream_options": 400}) as server:
        llm = _model(server)
        replies = [
            await llm.complete(ASK, on_text=heard.append),
            await llm.complete(ASK, on_text=heard.append),
        ]
    assert [reply.text for reply in replies] == heard == ["x", "y"]
    assert [body.get("stream", False) for body in server.bodies] == [True, False, False]


@BOTH_WAYS
async def test_tool_calls_come_whole_and_go_back(on_text: Listener) -> None:
    asked = calls(
        ("shell", {"command": "ls"}), ("shell", '{"comm'), text="Let me look."
    )
    with ModelServer([asked, say("Done.")]) as server:
        llm = _model(server)
        first = await llm.complete(ASK, tools=[SHELL], on_text=on_text)
        results = [
            {"role": "tool", "tool_call_id": made.id, "content": "a.py"}
            for made in first.tool_calls
        ]
        second = await llm.complete(
            [*ASK, first.message(), *results], tools=[SHELL], on_text=on_text
        )
    assert first.tool_calls == (
        ToolCall("call_1_1", "shell", '{"command": "ls"}'),
        ToolCall("call_1_2", "shell", '{"comm'),
    )
    assert (first.text, first.finish_reason, second.text) == (
        "Let me look.",
        "tool_calls",
        "Done.",
    )
    assert server.bodies[0]["tools"] == [SHELL.offer()]
    sent = server.bodies[1]["messages"][1]
    assert sent["content"] == "Let me look."
    assert [made["function"]["arguments"] for made in sent["tool_calls"]] == [
        '{"command": "ls"}',
        '{"malformed_arguments": "{\\"comm"}',
    ]
    assert llm.usage == Usage(input_tokens=20, output_tokens=10, cost_usd=None, calls=2)


@BOTH_WAYS
async def test_calls_without_ids_are_given_different_ones(on_text: Listener) -> None:
    with ModelServer([calls(("shell", {}), ("shell", {}), call_ids=False)]) as server:
        reply = await _model(server).complete(ASK, tools=[SHELL], on_text=on_text)
    first, second = reply.tool_calls
    assert first.id
    assert second.id
    assert first.id != second.id


@BOTH_WAYS
async def test_usage_is_estimated_where_none_is_reported(on_text: Listener) -> None:
    with ModelServer([say("some words of an answer", usage=None)]) as server:
        usage = (await _model(server).complete(ASK, on_text=on_text)).usage
    assert min(usage.input_tokens or 0, usage.output_tokens or 0) > 0
    assert usage.cost_usd is None


async def test_a_known_model_has_a_price_and_a_window() -> None:
    with ModelServer(
        [say("x", usage=(1_000_000, 0)), say("x", usage=(1000, 10))]
    ) as server:
        known_model = _model(server, "openai/gpt-4o")
        assert (known_model.has_price(), known_model.context_window()) == (
            True,
            128_000,
        )
        assert (await known_model.complete(ASK)).usage.cost_usd == pytest.approx(2.5)
        priced = _model(
            server,
            params={"input_cost_per_token": 0.001, "output_cost_per_token": 0.01},
        )
        assert (priced.has_price(), priced.context_window()) == (True, None)
        assert (await priced.complete(ASK)).usage.cost_usd == pytest.approx(1.1)
        unknown = _model(server)
        assert (unknown.has_price(), unknown.context_window()) == (False, None)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            fail(401, f"Incorrect API key provided: {KEY}"),
            AuthenticationFailed,
            "the key for openai/x was not accepted (401): Incorrect API key provided: [redacted:TEST_KEY]",
        ),
        (
            fail(404, "no model x"),
            ModelNotFound,
            "the model openai/x was not found (404): no model x",
        ),
        (
            fail(400, "bad"),
            RequestRejected,
            "the provider of openai/x refused the request (400): bad",
        ),
        (
            fail(400, "maximum context length is 5 tokens"),
            ContextWindowExceeded,
            "the request is too long for openai/x (400): maximum context length is 5 tokens",
        ),
        (
            fail(429, "insufficient_quota"),
            RequestRejected,
            "the provider of openai/x reports a quota or billing error (429): insufficient_quota",
        ),
    ],
)
async def test_what_time_does_not_cure_stops_at_once(
    answer: Answer, error: type[ModelError], message: str
) -> None:
    with ModelServer([answer]) as server:
        llm = _model(server)
        with pytest.raises(error) as raised:
            await llm.complete(ASK)
    assert type(raised.value) is error
    assert raised.value.message == message
    assert raised.value.hint
    assert len(server.requests) == 1
    assert llm.usage == Usage()


@pytest.mark.parametrize("clean", [True, False])
async def test_a_cut_stream_is_tried_again_and_what_it_used_is_counted(
    clean: bool,
) -> None:
    heard: list[str] = []
    with ModelServer(
        [cut("half an", clean=clean), say("whole", usage=(10, 5))]
    ) as server:
        reply = await _model(server).complete(ASK, on_text=heard.append)
    assert (reply.text, "".join(heard), reply.usage.retries) == (
        "whole",
        "half anwhole",
        1,
    )
    assert (reply.usage.input_tokens or 0) > 10
    assert (reply.usage.output_tokens or 0) > 5


async def test_a_whole_answer_that_is_cut_is_tried_again() -> None:
    with ModelServer(
        [cut("half an", clean=False), say("whole", usage=(10, 5))]
    ) as server:
        reply = await _model(server).complete(ASK)
    assert (reply.text, reply.finish_reason, reply.usage.retries) == (
        "whole",
        "stop",
        1,
    )
    assert reply.usage.tokens == 15


async def test_a_streamed_answer_that_never_has_its_end_is_unavailable() -> None:
    with (
        ModelServer([cut("half an", clean=True)] * 3) as server,
        pytest.raises(ProviderUnavailable) as raised,
    ):
        await _model(server).complete(ASK, on_text=_unheard)
    # Newer versions of LiteLLM word the reason themselves.
    assert raised.value.message.startswith(
        f"openai/x at {server.base_url} did not answer after 2 retries: cut stream: "
    )


async def test_a_streamed_tool_call_that_is_cut_is_never_half_made() -> None:
    half = Answer(tool_calls=(("shell", '{"command": "rm -rf x"}'),), cut="clean")
    with ModelServer([half, call("shell", command="ls")]) as server:
        reply = await _model(server).complete(ASK, tools=[SHELL], on_text=_unheard)
    assert [made.arguments for made in reply.tool_calls] == ['{"command": "ls"}']


async def test_a_provider_that_stays_away_is_unavailable() -> None:
    with ModelServer([fail(503, "down")] * 3) as server:
        llm = _model(server)
        with pytest.raises(ProviderUnavailable) as raised:
            await llm.complete(ASK)
    assert raised.value.message == (
        f"openai/x at {server.base_url} did not answer after 2 retries: server error (503): down"
    )
    assert llm.usage == Usage(retries=2)


async def test_an_address_without_a_server_is_unavailable() -> None:
    llm = LLM("openai/x", api_base="http://127.0.0.1:9/v1")
    with pytest.raises(
        ProviderUnavailable,
        match="did not answer after 2 retries: connection: Connection error",
    ):
        await llm.complete(ASK)


@BOTH_WAYS
async def test_a_hanging_answer_is_cut_by_its_timeout(on_text: Listener) -> None:
    for seconds in deadlines():  # the second answer has to come within it
        with (
            ModelServer([hang(), *[say("in time")] * 2]) as server,
            contextlib.suppress(ProviderUnavailable),
        ):
            reply = await _model(server, params={"timeout": seconds}).complete(
                ASK, on_text=on_text
            )
            if reply.usage.retries == 1:
                break
    assert (reply.text, reply.usage.retries) == ("in time", 1)
    # What the provider had read is estimated, unless the answer streams and nothing came.
    assert (reply.usage.tokens > 15) is (on_text is None)


@BOTH_WAYS
async def test_cancellation_ends_a_hanging_call_at_once(on_text: Listener) -> None:
    with ModelServer([hang()]) as server:
        llm = _model(server)
        task = asyncio.create_task(llm.complete(ASK, on_text=on_text))
        while not server.requests:
            await asyncio.sleep(0.01)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - begun < 1
    assert llm.usage.calls == 0
    assert (llm.usage.tokens > 0) is (on_text is None)


async def test_cancellation_in_mid_stream_counts_what_had_come() -> None:
    with ModelServer([say("one two three four", pace=0.2)]) as server:
        heard: list[str] = []
        llm = _model(server)
        task = asyncio.create_task(llm.complete(ASK, on_text=heard.append))
        while not heard:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert llm.usage.calls == 0
    assert llm.usage.tokens > 0


async def test_a_schema_is_sent_where_it_is_taken() -> None:
    with ModelServer([say('{"ok": true}')]) as server:
        await _model(server).complete(ASK, schema=SCHEMA, schema_name="verdict")
    assert server.bodies[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "verdict", "schema": SCHEMA, "strict": True},
    }


async def test_a_refused_schema_falls_back_and_is_remembered() -> None:
    with ModelServer([say("{}"), say("{}")], refuses={"json_schema": 500}) as server:
        llm = _model(server)
        first = await llm.complete(ASK, schema=SCHEMA)
        await llm.complete(ASK, schema=SCHEMA)
    assert [body["response_format"]["type"] for body in server.bodies] == [
        "json_schema",
        "json_object",
        "json_object",
    ]
    assert server.bodies[1]["response_format"] == {
        "type": "json_object",
        "schema": SCHEMA,
    }
    assert first.usage.retries == 0


async def test_a_server_that_takes_nothing_special_is_asked_plainly() -> None:
    refuses = {"json_schema": 400, "json_object": 422, "temperature": 400}
    with ModelServer([say("{}"), say("{}")], refuses=refuses) as server:
        llm = _model(server)
        await llm.complete(ASK, schema=SCHEMA, temperature=0.0)
        await llm.complete(ASK, schema=SCHEMA, temperature=0.0)
    assert server.bodies[-1] == {"model": "x", "messages": ASK}
    assert len(server.bodies) == 5


async def test_temperature_is_left_out_for_a_model_known_to_refuse_it() -> None:
    with ModelServer([say("x")]) as server:
        await _model(server, "openai/gpt-5-mini").complete(ASK, temperature=0.0)
    assert "temperature" not in server.bodies[0]


async def test_a_parameter_that_the_user_set_is_sent_as_it_stands() -> None:
    with ModelServer([say("x"), say("x")]) as server:
        llm = _model(server, params={"temperature": 0.7})
        await llm.complete(ASK, temperature=0.0)
        await llm.separate("judge").complete(ASK, temperature=0.0)
    assert [body["temperature"] for body in server.bodies] == [0.7, 0.0]


async def test_a_separate_instance_has_its_own_account() -> None:
    with ModelServer([say("a"), say("b")]) as server:
        agent = _model(server)
        judge = agent.separate("judge")
        await agent.complete(ASK)
        await judge.complete(ASK)
    assert (agent.usage.calls, judge.usage.calls, judge.account) == (1, 1, "judge")
    assert [seen.key for seen in server.requests] == [KEY, KEY]


@pytest.mark.parametrize("model", ["nosuch", "nosuch/model"])
async def test_an_unknown_provider_is_a_model_not_found(model: str) -> None:
    with pytest.raises(ModelNotFound) as raised:
        await LLM(model).complete(ASK)
    assert "provider" in raised.value.message.removeprefix(
        f"the model {model} was not found: "
    )


async def test_a_named_variable_that_is_not_set_is_reported_before_the_request() -> (
    None
):
    with ModelServer([]) as server:
        llm = LLM("openai/x", api_base=server.base_url, api_key_env="NO_SUCH_KEY")
        with pytest.raises(AuthenticationFailed, match="NO_SUCH_KEY is not set"):
            llm.check()
        with pytest.raises(AuthenticationFailed, match="NO_SUCH_KEY is not set"):
            await llm.complete([{"role": "user", "content": "hello"}])
        assert server.requests == []


async def test_the_fallback_variables_lead_to_their_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ModelServer([say("x")], api_key="sk-fallback-1") as server:
        monkeypatch.setenv("LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("LLM_API_KEY", "sk-fallback-1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
        assert (await LLM("openai/x").complete(ASK)).text == "x"


@BOTH_WAYS
@pytest.mark.parametrize(
    ("model", "wire"), [("openai/x", "openai"), ("gemini/gemini-2.5-flash", "gemini")]
)
def test_loops_that_end_leave_no_connection_open(
    model: str, wire: WireName, on_text: Listener
) -> None:
    async def ask() -> Reply:
        return await LLM(model, api_base=address, api_key_env="TEST_KEY").complete(
            ASK, on_text=on_text
        )

    def connected() -> list[str]:
        connections = psutil.Process().net_connections("tcp")
        return [
            one.status
            for one in connections
            if one.raddr and f"127.0.0.1:{one.raddr.port}/" in f"{address}/"
        ]

    with FakeProvider([say("hi")] * 3, plain=True, fresh=True) as server:
        address = server.base_url(wire)
        # A connection of a loop that has ended would cost the third one a retry.
        replies = [asyncio.run(ask()) for _ in range(3)]
        assert psutil.CONN_ESTABLISHED not in connected()
    assert [(reply.text, reply.usage.retries) for reply in replies] == [("hi", 0)] * 3
    # An open socket would complain here, and warnings are errors.
    gc.collect()
