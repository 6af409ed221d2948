"""An agent that speaks ACP and asks a model by OpenAI chat, at the address that its settings below HOME name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

BASH = {
    "type": "object",
    "properties": {"command": {"type": "string"}},
    "required": ["command"],
}
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": BASH}}]

ANSWERS: dict[str, dict[str, Any]] = {
    "initialize": {"protocolVersion": 1},
    "session/new": {"sessionId": "s-1"},
}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(kind: str, /, **fields: Any) -> None:
    send(
        method="session/update",
        params={"sessionId": "s-1", "update": {"sessionUpdate": kind, **fields}},
    )


def ask(messages: list[Any]) -> Any:
    settings = json.loads(Path.home().joinpath(".asking/settings.json").read_text())
    body = json.dumps({"model": "m", "messages": messages, "tools": TOOLS}).encode()
    headers = {
        "Content-Type": "application/json",
        "Authorization": "Bearer " + os.environ["ASKING_KEY"],
    }
    request = urllib.request.Request(
        settings["address"] + "/chat/completions", body, headers
    )
    return json.load(urllib.request.urlopen(request))


def work(prompt: str) -> dict[str, int]:
    messages: list[Any] = [{"role": "user", "content": prompt}]
    used = {"inputTokens": 0, "outputTokens": 0}
    while True:
        answer = ask(messages)
        used["inputTokens"] += answer["usage"]["prompt_tokens"]
        used["outputTokens"] += answer["usage"]["completion_tokens"]
        message = answer["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            update(
                "agent_message_chunk",
                content={"type": "text", "text": message["content"]},
            )
            return used
        for call in message["tool_calls"]:
            command = json.loads(call["function"]["arguments"])["command"]
            about = {"toolCallId": call["id"], "kind": "execute", "title": command}
            update("tool_call", status="in_progress", **about)
            done = subprocess.run(
                command, shell=True, capture_output=True, text=True, check=False
            )
            update(
                "tool_call_update",
                status="completed",
                rawOutput={"exit_code": done.returncode},
                **about,
            )
            messages.append(
                {"role": "tool", "tool_call_id": call["id"], "content": done.stdout}
            )


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        result: dict[str, Any] = ANSWERS.get(message["method"], {})
        if message["method"] == "session/prompt":
            used = work(message["params"]["prompt"][0]["text"])
            result = {
                "stopReason": "end_turn",
                **({"usage": used} if "--silent" not in sys.argv else {}),
            }
        send(id=message["id"], result=result)


if __name__ == "__main__":
    main()
