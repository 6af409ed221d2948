"""Gemini CLI: its preset, and the parser of its output. Checked with version 0.61.0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalrunner.agents.parser import (
    AgentParser,
    StreamEvent,
    TextDelta,
    as_text,
    call,
    failure,
    result,
    session,
    tokens,
)
from goalrunner.core.agent_preset import Preset

# Without --yolo there is no tool that writes, and there is no person to ask.
_OPTIONS = ("--output-format", "stream-json", "--yolo", "--skip-trust", "{model}", "{args}")


class Gemini(AgentParser):
    """Gemini CLI. Usage is that of the process; the input includes what was cached."""

    preset = Preset(
        argv=("gemini", *_OPTIONS),
        resume=("gemini", "--resume", "{session}", *_OPTIONS),
        acp=("gemini", "--experimental-acp", "--skip-trust", "{model}", "{args}"),
        stream="gemini",
        reports={"tokens": "turn"},
        acp_reports={"tokens": "turn"},
        model=("--model", "{name}"),
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        login=(".gemini/oauth_creds.json", ".config/gcloud/application_default_credentials.json"),
        home=(".gemini", ".config/gcloud"),
        version=("gemini", "--version"),
        install="npm install -g @google/gemini-cli",
        sign_in="run gemini and sign in, or export GEMINI_API_KEY",
        denied=(
            "unauthenticated",
            "api key not valid",
            "api_key_invalid",
            "please set an auth method",
            "you must specify",
        ),
    )

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"):
            case "init":
                yield from session(line, "session_id")
            case "message" if line.get("role") == "assistant" and line.get("delta") is True:
                if piece := as_text(line.get("content")):
                    yield TextDelta(piece)
            case "tool_use":
                yield call(line, "tool_id", "tool_name", "parameters.command", "parameters.file_path", "parameters")
            case "tool_result":
                yield result(line, "tool_id", "output", "error.message", failed="status")
            case "result":
                yield from tokens(line, "stats.input_tokens", "stats.output_tokens")
                if line.get("status") == "error":
                    yield failure(line, "error.message", "error")
            case "error" if line.get("severity") == "error":
                yield failure(line, "message")
