"""The main job over the real LiteLLM path: `goal run` as a process, agent and judge at a scripted HTTP server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.forking import goal
from tests.support.model_server import ModelServer, call, cut, fail, say


def goal_file(place: Path, url: str, extra: str = "") -> Path:
    """Agent and judge at one server, with a key each."""
    path = place / "goal.toml"
    path.write_text(
        f"""objective = "make done"
success_criteria = ["done exists"]
validator = "test -e done"
{extra}
[agent]
model = "openai/agent"
api_base = "{url}"
api_key_env = "AGENT_KEY"
[judge]
model = "openai/judge"
api_base = "{url}"
api_key_env = "JUDGE_KEY"
[workspace]
path = "."
"""
    )
    return path


KEYS = {"AGENT_KEY": "sk-agent-0123456789", "JUDGE_KEY": "sk-judge-0123456789"}


def verdict(observation: str, fact: str) -> str:
    """A complete verdict on the one criterion."""
    evidence = [{"observation": observation, "fact": fact}]
    entry = {
        "criterion": "done exists",
        "satisfied": True,
        "evidence": evidence,
        "missing": "",
    }
    return json.dumps(
        {"criteria": [entry], "score": 1.0, "complete": True, "missing": ""}
    )


def test_two_rounds_to_complete_with_retries_on_the_way(
    place: Path, own_home: Path
) -> None:
    script = {
        "agent": [
            fail(429, "slow down", retry_after=0.05),
            call("shell", command="ls; env"),
            cut("It is do"),
            say("It is done."),
            call("write_file", path="done", content="yes\n"),
            fail(503),
            say("Now it is."),
        ],
        "judge": [say("ready"), say(verdict("o5", "exit 0"))],
    }
    with ModelServer(script) as server:
        ended = goal(
            "run", goal_file(place, server.base_url), "--json", cwd=place, env=KEYS
        )
    assert ended.code == 0, ended
    outcome: dict[str, Any] = json.loads(ended.out)
    assert (outcome["status"], outcome["iterations"]) == ("complete", 2)
    assert outcome["usage"]["agent"]["retries"] == 3
    assert outcome["usage"]["agent"]["calls"] == 4
    assert outcome["usage"]["judge"]["calls"] == 2
    # No terminal shows the text.
    assert not any(seen.body.get("stream") for seen in server.requests)
    asked = [seen for seen in server.requests if seen.model == "judge"]
    assert [seen.key for seen in asked] == [KEYS["JUDGE_KEY"]] * 2
    assert {seen.key for seen in server.requests if seen.model == "agent"} == {
        KEYS["AGENT_KEY"]
    }
    (prompt,) = [
        message["content"] for message in asked[1].messages if message["role"] == "user"
    ]
    assert "[o5] validator" in prompt
    assert "You are" not in prompt
    assert asked[1].body["temperature"] == 0
    assert asked[1].body["response_format"]["type"] == "json_schema"
    environment = next(
        path
        for path in own_home.rglob("*")
        if path.is_file() and b"PATH=" in path.read_bytes()
    )
    assert b"AGENT_KEY" not in environment.read_bytes()


def test_a_dollar_budget_without_a_price_is_refused_at_the_start(
    place: Path, own_home: Path
) -> None:
    path = goal_file(place, "http://127.0.0.1:9", "budget = { cost_usd = 1.0 }")
    ended = goal("run", path, cwd=place, env=KEYS)
    assert ended.code == 2, ended
    assert "openai/agent has no known price" in ended.err
