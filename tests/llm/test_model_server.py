"""The scripted server itself: what other tests lean on."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.model_server import ModelServer, Seen, call, fail, say

ROOT = Path(__file__).parents[2]


def _ask(base_url: str, model: str = "agent", **keys: Any) -> Any:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **keys}).encode()
    request = urllib.request.Request(f"{base_url}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as response:
        return json.load(response)


def test_an_answer_can_come_whole() -> None:
    with ModelServer([call("shell", command="ls")]) as server:
        answer = _ask(server.base_url)
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "call_1_1",
                        "type": "function",
                        "function": {"name": "shell", "arguments": '{"command": "ls"}'},
                    }
                ],
            },
            "finish_reason": "tool_calls",
        }
    ]
    assert answer["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def test_agent_and_judge_have_their_own_scripts() -> None:
    with ModelServer({"agent": [say("a1"), say("a2")], "judge": [say("j1")]}) as server:
        said = [
            _ask(server.base_url, model)["choices"][0]["message"]["content"] for model in ("agent", "judge", "agent")
        ]
    assert said == ["a1", "j1", "a2"]


def test_a_function_may_answer() -> None:
    def echo(seen: Seen) -> Any:
        return say(f"{seen.model}: {seen.messages[-1]['content']}")

    with ModelServer(echo) as server:
        assert _ask(server.base_url, "x")["choices"][0]["message"]["content"] == "x: hi"


def test_an_exhausted_script_is_loud_twice() -> None:
    def ask_once_too_often() -> None:
        with ModelServer([say("only")]) as server:
            _ask(server.base_url)
            with pytest.raises(urllib.error.HTTPError) as refused:
                _ask(server.base_url)
            with refused.value as error:
                assert json.load(error)["error"]["message"] == "the model server's script is at its end after 1 answers"

    with pytest.raises(AssertionError, match="at its end after 1 answers"):
        ask_once_too_often()


def test_a_refusal_carries_status_and_retry_after() -> None:
    with ModelServer([fail(429, "slow", retry_after=3)]) as server:
        with pytest.raises(urllib.error.HTTPError) as refused:
            _ask(server.base_url)
        with refused.value as error:
            assert (error.code, error.headers["Retry-After"]) == (429, "3")


def test_models_are_listed() -> None:
    with (
        ModelServer(models=("x",)) as server,
        urllib.request.urlopen(f"{server.base_url}/models", timeout=5) as response,
    ):
        assert [model["id"] for model in json.load(response)["data"]] == ["x"]


def test_it_serves_a_file_from_a_shell(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text('{"account": "agent", "text": "from a file"}\n', encoding="utf-8")
    command = [sys.executable, "-m", "tests.support.model_server", "--script", str(script), "--repeat"]
    env = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            base_url = process.stdout.readline().strip()
            said = [_ask(base_url)["choices"][0]["message"]["content"] for _ in range(2)]
        finally:
            process.terminate()
    assert said == ["from a file", "from a file"]
