"""Claude Code: its preset, and the parser of its output. Checked with version 2.1.330."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalrunner.agents.parser import (
    AgentParser,
    StreamEvent,
    UsageReported,
    at,
    call,
    failure,
    items,
    message,
    number,
    result,
    session,
    tokens,
)
from goalrunner.agents.parser import first as first_of
from goalrunner.core.agent_preset import Preset

# There is no person to ask, and the agent's task is to write in the workspace. As root, Claude Code refuses this mode
# unless IS_SANDBOX=1 says that it runs in a sandbox.
_OPTIONS = (
    "--output-format",
    "stream-json",
    "--verbose",
    "--permission-mode",
    "bypassPermissions",
    "{model}",
    "{args}",
)


class Claude(AgentParser):
    """Claude Code. Tokens are those of the process, dollars those of the whole session."""

    preset = Preset(
        argv=("claude", "-p", *_OPTIONS),
        resume=("claude", "-p", "--resume", "{session}", *_OPTIONS),
        acp=("claude-agent-acp",),
        stream="claude",
        reports={"tokens": "turn", "cost_usd": "session"},
        acp_reports={"tokens": "turn", "cost_usd": "session"},
        model=("--model", "{name}"),
        # Its version stays the same during a run. Suggestions of what to ask next cost tokens.
        env={"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"},
        jailed_env={"IS_SANDBOX": "1"},
        keys=(
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "AWS_BEARER_TOKEN_BEDROCK",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
        ),
        login=(".claude/.credentials.json",),
        home=(".claude", ".claude.json"),
        version=("claude", "--version"),
        install="npm install -g @anthropic-ai/claude-code",
        acp_install="npm install -g @agentclientprotocol/claude-agent-acp",
        sign_in="run claude and sign in, or export ANTHROPIC_API_KEY",
        denied=(
            "invalid api key",
            "please run /login",
            "authentication_error",
            "authentication_failed",
            "failed to authenticate",
        ),
        hints={
            "root/sudo privileges": 'run it as another user or in a sandbox ([workspace] sandbox = "auto"), or export'
            " IS_SANDBOX=1 where this machine may be harmed"
        },
    )

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"), line.get("subtype"):
            case "system", "init":
                yield from session(line, "session_id")
            case "system", "api_retry" if (line.get("error_status"), line.get("attempt")) == (401, 3):
                # A wrong key may be tried ten times in three minutes. A login that has expired is renewed after the
                # first refusal, so the third one ends the round.
                yield failure(line, "error", ends=True)
            case (("assistant" | "user"), _):
                yield from content_events(line)
            case "result", _:
                cached = "usage.cache_read_input_tokens", "usage.cache_creation_input_tokens"
                yield from tokens(line, "usage.input_tokens", "usage.output_tokens", *cached, dollars=False)
                if (cost := first_of(line, "total_cost_usd")) is not None:
                    yield UsageReported(cost=number(cost), cumulative=True, tokens=False)
                if line.get("is_error") is True:
                    yield failure(line, "result", "errors", "error", "subtype")


def content_events(line: dict[str, Any]) -> Iterator[StreamEvent]:
    """Yield the events of the content blocks of a message. Qwen Code prints the same blocks."""
    for block in items(at(line, "message", "content")):
        match line.get("type"), at(block, "type"):
            case "assistant", "text":
                yield from message(block, "text")
            case "assistant", "tool_use":
                yield call(block, "id", "name", "input.command", "input.file_path", "input")
            case "user", "tool_result":
                yield result(block, "tool_use_id", "content", failed="is_error")
