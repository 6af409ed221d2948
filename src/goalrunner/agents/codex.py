"""Codex: its preset, and the parser of its output. Checked with version 0.169.0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalrunner.agents.parser import (
    AgentParser,
    CallStarted,
    StreamEvent,
    at,
    failure,
    message,
    result,
    session,
    tokens,
)
from goalrunner.core.agent_preset import Preset

# There is no person to ask, and a sandbox cannot contain another one.
_OPTIONS = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "{model}", "{args}")


class Codex(AgentParser):
    """Codex. Usage is that of the session; the input includes what was cached."""

    preset = Preset(
        argv=("codex", "exec", *_OPTIONS, "-"),
        resume=("codex", "exec", "resume", *_OPTIONS, "{session}", "-"),
        # With ACP it asks before it acts; its own sandbox would refuse without asking.
        acp=("codex-acp", "-c", "sandbox_mode=danger-full-access", "-c", "approval_policy=untrusted", "{args}"),
        stream="codex",
        reports={"tokens": "session"},
        model=("--model", "{name}"),
        keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
        login=(".codex/auth.json",),
        home=(".codex",),
        version=("codex", "--version"),
        install="npm install -g @openai/codex",
        acp_install="npm install -g @zed-industries/codex-acp",
        sign_in="run codex login, or export CODEX_API_KEY",
        denied=("401 unauthorized", "missing environment variable", "not logged in", "codex login", "token_expired"),
    )

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"), at(line, "item", "type"):
            case "thread.started", _:
                yield from session(line, "thread_id")
            case "item.completed", "agent_message":
                yield from message(line, "item.text")
            case ("item.started" | "item.completed") as kind, (
                "command_execution" | "mcp_tool_call" | "file_change" | "web_search"
            ):
                found = result(
                    line,
                    "item.id",
                    *("item.aggregated_output", "item.result", "item.error"),
                    tool=("item.tool", "item.type"),
                    command=("item.command", "item.arguments", "item.changes", "item.query"),
                    code="item.exit_code",
                    failed="item.status",
                )
                yield CallStarted(found.id, found.tool, found.command) if kind == "item.started" else found
            case "turn.completed", _:
                yield from tokens(line, "usage.input_tokens", "usage.output_tokens", cumulative=True)
            case (("error" | "turn.failed"), _):  # "Reconnecting..." is an error too; later work withdraws it
                yield failure(line, "error.message", "message")
