"""Scripted models behave like models of a provider: stream, errors, retries, accounts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.errors import ModelError, UsageError
from goalrunner.core.events import Account
from goalrunner.core.outcome import Usage
from goalrunner.llm import LLM, Reply, ToolCall, client, new_tape

ASK = [{"role": "user", "content": "go on"}]


class Script:
    """Writes recordings and makes models of them that never really wait."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "replies.jsonl"
        self.slept: list[float] = []

    def model(
        self, *lines: dict[str, Any], account: Account = "agent", **keys: Any
    ) -> LLM:
        self.path.write_text(
            "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
        )
        return LLM(f"scripted/{self.path}", account=account, **keys)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    made = Script(tmp_path)
    monkeypatch.setattr(client, "sleep", made.sleep)
    monkeypatch.setattr(client, "RETRIES", 2)
    return made


async def test_text_comes_in_pieces_and_whole(script: Script) -> None:
    heard: list[str] = []
    llm = script.model(
        {
            "text": "hello world",
            "usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25},
        }
    )
    reply = await llm.complete(ASK, on_text=heard.append)
    assert heard == ["hel", "lo ", "wor", "ld"]
    assert reply == Reply(
        "hello world",
        (),
        Usage(input_tokens=10, output_tokens=5, cost_usd=0.25, calls=1),
        "stop",
    )
    assert llm.usage == reply.usage


async def test_tool_calls_are_numbered_and_are_sent_back_as_objects(
    script: Script,
) -> None:
    first = {
        "tool_calls": [
            {"name": "shell", "arguments": {"command": "ls"}},
            {"name": "shell", "arguments": '{"comm'},
        ]
    }
    llm = script.model(
        first, {"text": "and", "tool_calls": [{"name": "read_file", "arguments": ""}]}
    )
    reply = await llm.complete(ASK)
    assert reply.tool_calls == (
        ToolCall("call_1", "shell", '{"command": "ls"}'),
        ToolCall("call_2", "shell", '{"comm'),
    )
    assert reply.finish_reason == "tool_calls"
    assert reply.message()["content"] == ""
    second = await llm.complete(ASK)
    assert second.message() == {
        "role": "assistant",
        "content": "and",
        "tool_calls": [
            {
                "id": "call_3",
                "type": "function",
                "function": {"name": "read_file", "arguments": "{}"},
            }
        ],
    }


async def test_each_account_plays_its_own_lines(script: Script) -> None:
    agent = script.model(
        {"account": "agent", "text": "a1"},
        {"account": "judge", "text": "j1"},
        {"text": "both"},
        {"account": "agent", "text": "a2"},
    )
    judge = agent.separate("judge")
    assert [(await agent.complete(ASK)).text for _ in range(3)] == ["a1", "both", "a2"]
    assert [(await judge.complete(ASK)).text for _ in range(2)] == ["j1", "both"]
    assert (agent.usage.calls, judge.usage.calls) == (3, 2)


async def test_an_exhausted_recording_is_loud(script: Script) -> None:
    llm = script.model({"text": "only"}, {"account": "judge"})
    await llm.complete(ASK)
    with pytest.raises(ModelError) as raised:
        await llm.complete(ASK)
    assert (
        raised.value.message
        == "the recording has no more replies for the agent: 1 were used"
    )
    assert llm.usage.calls == 1


async def test_errors_are_retried_and_counted_as_a_providers_would_be(
    script: Script,
) -> None:
    heard: list[str] = []
    llm = script.model(
        {"error": {"status": 429, "message": "slow", "retry_after": 7}},
        {"error": {"cut": True}, "text": "lost"},
        {"text": "kept", "usage": {"input_tokens": 3, "output_tokens": 2}},
    )
    reply = await llm.complete(ASK, on_text=heard.append)
    assert reply.text == "kept"
    assert reply.usage == Usage(input_tokens=3, output_tokens=2, calls=1, retries=2)
    assert "".join(heard) == "lostkept"
    assert script.slept[0] >= 7


async def test_a_delay_beyond_the_timeout_is_a_timeout(script: Script) -> None:
    llm = script.model(
        {"text": "late", "delay": 30}, {"text": "in time"}, params={"timeout": 0.05}
    )
    reply = await llm.complete(ASK)
    assert (reply.text, reply.usage.retries) == ("in time", 1)


async def test_a_recorded_timeout_is_one(script: Script) -> None:
    llm = script.model({"error": {"timeout": True}}, {"text": "in time"})
    assert (await llm.complete(ASK)).usage.retries == 1


async def test_cancellation_passes_through_a_call(script: Script) -> None:
    llm = script.model({"text": "late", "delay": 30})
    task = asyncio.create_task(llm.complete(ASK))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_an_observer_raises_is_not_taken_for_the_models_failure(
    script: Script,
) -> None:
    def observer(_: str) -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await script.model({"text": "x"}).complete(ASK, on_text=observer)


async def test_playing_can_begin_after_some_replies(script: Script) -> None:
    call = {"tool_calls": [{"name": "shell"}]}
    llm = script.model(call, {"error": {"status": 500}}, call, call)
    llm.skip(2)
    assert (await llm.complete(ASK)).tool_calls[0].id == "call_3"


async def test_a_schema_is_no_reason_to_play_another_line(script: Script) -> None:
    llm = script.model(
        {"error": {"status": 400, "message": "no schema"}}, {"text": "never"}
    )
    with pytest.raises(ModelError, match="refused the request"):
        await llm.complete(ASK, schema={"type": "object"})


def test_a_recording_has_a_price_and_no_window(script: Script) -> None:
    llm = script.model()
    assert llm.has_price()
    assert llm.context_window() is None


async def test_a_tape_of_a_run_plays_the_same_replies(
    script: Script, tmp_path: Path
) -> None:
    tape = new_tape(tmp_path / "tape.jsonl")
    lines: list[dict[str, Any]] = [
        {
            "text": "ä\n\u2028",
            "tool_calls": [{"name": "shell", "arguments": '{"a'}],
            "usage": {"cost_usd": None},
        },
        {"error": {"status": 500}},
        {
            "text": "end",
            "usage": {"input_tokens": 7, "output_tokens": 1, "cost_usd": 0.5},
            "finish_reason": "length",
        },
    ]
    agent = script.model(*lines, tape=tape)
    judge = agent.separate("judge")
    said = [
        await agent.complete(ASK),
        await judge.complete(ASK),
        await agent.complete(ASK),
    ]
    again_agent, again_judge = (
        LLM(f"scripted/{tmp_path}/tape.jsonl", account=account)
        for account in ("agent", "judge")
    )
    again = [
        await again_agent.complete(ASK),
        await again_judge.complete(ASK),
        await again_agent.complete(ASK),
    ]
    for first, second in zip(said, again, strict=True):
        assert (first.text, first.tool_calls, first.finish_reason) == (
            second.text,
            second.tool_calls,
            second.finish_reason,
        )
        assert (first.usage.tokens, first.usage.cost_usd) == (
            second.usage.tokens,
            second.usage.cost_usd,
        )


@pytest.mark.parametrize("timeout", ["10m", 0, -1, None, float("nan")])
def test_an_invalid_timeout_is_an_error(script: Script, timeout: object) -> None:
    with pytest.raises(UsageError, match=r"timeout in \[agent.params\] is "):
        script.model(params={"timeout": timeout})
