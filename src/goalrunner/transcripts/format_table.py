"""The formats of transcripts in the order of trial, and the nearest ones of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from goalrunner.transcripts.source import TranscriptSource

__all__ = ["BUILT_IN", "Format", "nearest_formats"]


@dataclass(frozen=True)
class Format:
    """A format of transcripts."""

    name: str
    reader: str
    """Module and class: "codex:CodexReader"."""
    words: str
    """Members and types that are typical of it. They only rank suggestions."""


GOAL_RUN = "goal-run"

# Formats that are easily mistaken for another one come later. The last one accepts any
# chat, so registered formats are tried before it.
BUILT_IN = (
    Format(GOAL_RUN, "goal_run:GoalRunReader", ""),
    Format("qwen-stream", "agent_streams:QwenStream", "qwen_code_version session_id"),
    Format(
        "codex-stream",
        "agent_streams:CodexStream",
        "thread.started item.completed item turn.completed thread_id",
    ),
    Format(
        "gemini-stream",
        "agent_streams:GeminiStream",
        "init tool_use tool_result tool_id tool_name parameters delta",
    ),
    Format(
        "opencode-stream",
        "agent_streams:OpenCodeStream",
        "sessionID part step_start tool_use callID messageID",
    ),
    Format("cursor-stream", "cursor:CursorStreamReader", "tool_call call_id subtype"),
    Format(
        "claude-stream",
        "agent_streams:ClaudeStream",
        "session_id parent_tool_use_id init num_turns result subtype",
    ),
    Format(
        "claude-code",
        "claude_code:ClaudeCodeReader",
        "parentUuid sessionId uuid isSidechain message leafUuid",
    ),
    Format(
        "codex",
        "codex:CodexReader",
        "payload session_meta response_item event_msg turn_context",
    ),
    Format(
        "codex-old",
        "codex:OldCodexReader",
        "record_type instructions function_call function_call_output",
    ),
    Format(
        "copilot",
        "copilot:CopilotReader",
        "data parentId session.start user.message tool.execution_complete toolRequests",
    ),
    Format("cursor", "cursor:CursorReader", "role message turn_ended content"),
    Format(
        "goose", "goose:GooseReader", "working_dir toolRequest toolResponse created"
    ),
    Format(
        "openhands",
        "openhands:OpenHandsReader",
        "kind source ActionEvent ObservationEvent MessageEvent observation",
    ),
    Format(
        "openhands-v0",
        "openhands:OpenHandsV0Reader",
        "action observation source cause extras history",
    ),
    Format(
        "gemini",
        "gemini:GeminiReader",
        "projectHash messages toolCalls gemini startTime",
    ),
    Format("qwen", "gemini:QwenReader", "sessionId message parts functionCall model"),
    Format("opencode", "opencode:OpenCodeReader", "info parts messages callID"),
    Format(
        "mini-swe-agent",
        "mini_swe_agent:MiniSweAgentReader",
        "trajectory_format messages info extra exit_status",
    ),
    Format(
        "swe-agent", "swe_agent:SweAgentReader", "trajectory action observation thought"
    ),
    Format("atif", "atif:AtifReader", "schema_version steps agent step_id"),
    Format("acp", "acp:AcpReader", "sessionUpdate jsonrpc method params update"),
    Format("inspect", "inspect_logs:InspectReader", "samples eval plan"),
    Format(
        "opentelemetry",
        "opentelemetry:OpenTelemetryReader",
        "resourceSpans scopeSpans spans attributes traceId spanId",
    ),
    Format(
        "langchain",
        "langchain:LangChainReader",
        "human ai tool_calls tool_call_id data kwargs additional_kwargs run_type",
    ),
    Format(
        "ai-sdk",
        "ai_sdk:AiSdkReader",
        "tool-call tool-result toolCallId toolName parts toolInvocation toolResult",
    ),
    Format("cline", "cline:ClineReader", "ts say ask role content"),
    Format("aider", "aider:AiderReader", ""),
    Format(
        "openai-responses",
        "responses:ResponsesReader",
        "function_call function_call_output output_text call_id reasoning output",
    ),
    Format(
        "anthropic",
        "chat:AnthropicReader",
        "role content tool_use tool_result tool_use_id stop_reason",
    ),
    Format(
        "openai-chat",
        "chat:OpenAIChatReader",
        "role content tool_calls tool_call_id messages assistant",
    ),
)

_SUGGESTED = 3
_DEEPEST = 6


def nearest_formats(source: TranscriptSource) -> list[str]:
    """Return the three formats whose typical words a file has most of.

    Empty if it is not JSON.
    """
    file_words: set[str] = set()
    for record in source.sample:
        file_words.update(_words_in(record.value, _DEEPEST))
    file_words.update(source.members)
    if not file_words:
        return []
    # A word of many formats says little.
    uses = Counter(word for entry in BUILT_IN for word in entry.words.split())
    scores = {}
    for entry in BUILT_IN:
        words = entry.words.split()
        weight = sum(1 / uses[word] for word in words if word in file_words)
        scores[entry.name] = weight / max(1, len(words))
    # Sorting is stable: of equally near ones, the more special one comes first.
    ranked = sorted(scores, key=lambda name: -scores[name])
    return ranked[:_SUGGESTED]


def _words_in(value: Any, levels: int) -> Iterator[str]:
    """Yield the names of members, and their values that may be types."""
    if not levels:
        return
    if isinstance(value, list):
        for element in value[:_DEEPEST]:
            yield from _words_in(element, levels - 1)
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            if name in ("type", "role", "kind") and isinstance(member, str):
                yield member
            yield from _words_in(member, levels - 1)
