"""Qwen Code: its preset, and the parser of its output. Checked with version 0.24.4."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalrunner.agents.claude import content_events
from goalrunner.agents.parser import AgentParser, StreamEvent, failure, session, tokens
from goalrunner.core.agent_preset import Preset

# Without --yolo there is no tool that writes, and there is no person to ask.
_OPTIONS = ("--output-format", "stream-json", "--yolo", "{model}", "{args}")


class Qwen(AgentParser):
    """Qwen Code. Usage is that of the session; the input includes what was cached."""

    preset = Preset(
        argv=("qwen", *_OPTIONS),
        resume=("qwen", "--resume", "{session}", *_OPTIONS),
        acp=("qwen", "--acp", "{model}", "{args}"),
        stream="qwen",
        reports={"tokens": "session"},
        acp_reports={"tokens": "turn"},
        model=("--model", "{name}"),
        env={"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"},
        keys=("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
        login=(".qwen/oauth_creds.json",),
        home=(".qwen",),
        version=("qwen", "--version"),
        install="npm install -g @qwen-code/qwen-code",
        sign_in="run qwen and sign in, or export OPENAI_API_KEY (and OPENAI_BASE_URL, OPENAI_MODEL)",
        denied=(
            "api error: 401",
            "missing api key",
            "incorrect api key",
            "invalid_api_key",
            "no auth type is selected",
        ),
    )

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"), line.get("subtype"):
            case "system", "init":
                yield from session(line, "session_id")
            case (("assistant" | "user"), _):
                yield from content_events(line)
            case "result", _:
                yield from tokens(line, "usage.input_tokens", "usage.output_tokens", cumulative=True)
                if line.get("is_error") is True:
                    yield failure(line, "error.message", "error", "result", "subtype")
