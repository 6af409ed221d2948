"""opencode: its preset, and the parser of its output. Checked with version 1.18.33."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalrunner.agents.parser import AgentParser, StreamEvent, failure, message, result, session, tokens
from goalrunner.core.agent_preset import Preset

# There is no person to ask; what the user's settings deny stays denied.
_OPTIONS = ("--format", "json", "--auto", "{model}", "{args}")


class OpenCode(AgentParser):
    """opencode. Usage is that of one step; the input does not include what was cached. Dollars are 0 without a price."""

    preset = Preset(
        argv=("opencode", "run", *_OPTIONS),
        resume=("opencode", "run", "--session", "{session}", *_OPTIONS),
        acp=("opencode", "acp", "{args}"),
        stream="opencode",
        reports={"tokens": "turn", "cost_usd": "turn"},
        # With ACP it reports only the tokens of the last model call of a turn.
        acp_reports={"cost_usd": "session"},
        model=("--model", "{name}"),
        env={"OPENCODE_DISABLE_AUTOUPDATE": "true"},
        # By default it never asks.
        asking={"OPENCODE_PERMISSION": '{"bash":"ask","edit":"ask","webfetch":"ask"}'},
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "OPENCODE_API_KEY"),
        login=(".local/share/opencode/auth.json",),
        home=(".local/share/opencode", ".local/state/opencode", ".config/opencode", ".cache/opencode"),
        version=("opencode", "--version"),
        install="npm install -g opencode-ai",
        sign_in="run opencode auth login, or export the key of your provider",
        denied=(
            "invalid_api_key",
            "incorrect api key",
            "invalid x-api-key",
            "authentication_error",
            "api key is missing",
        ),
    )

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        yield from session(line, "sessionID")
        match line.get("type"):
            case "text":
                yield from message(line, "part.text")
            case "tool_use":  # printed when the call has ended
                yield result(
                    line,
                    "part.callID",
                    *("part.state.output", "part.state.error"),
                    tool=("part.tool",),
                    command=("part.state.input.command", "part.state.input.filePath", "part.state.input"),
                    code="part.state.metadata.exit",
                    failed="part.state.status",
                )
            case "step_finish":
                cached = "part.tokens.cache.read", "part.tokens.cache.write"
                yield from tokens(line, "part.tokens.input", "part.tokens.output", *cached, cost="part.cost")
            case "error":
                yield failure(line, "error.data.message", "error.message", "error.name", "error")
