"""Chat messages of OpenAI, Anthropic, Strands and Bedrock, and sessions of chat programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from goalrunner.core.errors import UsageError
from goalrunner.core.messages import (
    KNOWN_BLOCKS,
    ROLES,
    at,
    block_text,
    clean,
    exit_fact,
    facts_of,
    integer_of,
    items,
    json_of,
    text,
    text_of,
    unknown_block,
)
from goalrunner.core.observation import Trail
from goalrunner.core.trail_builder import Deliverable, add_message
from goalrunner.transcripts import RowReader
from goalrunner.transcripts.source import TranscriptSource


class ChatReader(RowReader):
    """Reads chat messages."""

    keys = frozenset({"", "messages"})

    def add(self, row: Mapping[str, Any], *, claims: bool = False) -> None:
        add_message(self.trail, row, claims=claims)


class OpenAIChatReader(ChatReader):
    """OpenAI chat messages. As the last format it reports all errors in JSON files."""

    DESCRIPTION = (
        'OpenAI chat messages: a JSON array, {"messages": [...]}, or JSON Lines'
    )
    fault = f"a chat message: it has no known role, or content that is neither text nor blocks ({KNOWN_BLOCKS})"

    def matches(self, source: TranscriptSource) -> bool:
        return source.is_json and ("messages" in source.members or not source.members)

    def is_valid(self, row: Any) -> bool:
        role, content = at(row, "role"), at(row, "content")
        is_known = (
            isinstance(role, str)
            and role in ROLES
            and isinstance(content, str | list | None)
        )
        return is_known and not unknown_block(content)


class AnthropicReader(ChatReader):
    """Messages of Anthropic's API."""

    DESCRIPTION = 'messages of Anthropic\'s API: a JSON array, {"messages": [...]}, a response, or JSON Lines'
    _BLOCKS = (
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "mcp_tool_use",
    )

    def is_typical(self, row: dict[str, Any]) -> bool:
        if row.get("role") not in ("user", "assistant"):
            return False
        if row.get("type") == "message" and "model" in row:
            return True
        return "type" not in row and any(
            at(block, "type") in self._BLOCKS for block in items(row.get("content"))
        )

    def is_valid(self, row: Any) -> bool:
        known = at(row, "role") in ("user", "assistant", "system")
        return known and isinstance(at(row, "content"), str | list)


class ClaudeCodeReader(ChatReader):
    """Sessions of Claude Code: `~/.claude/projects/*/*.jsonl`. Words of sub-agents and summaries are claims."""

    DESCRIPTION = "session of Claude Code (JSON Lines)"
    reporter = "claude"
    keys = frozenset({""})
    _IDS = frozenset({"sessionId", "uuid", "leafUuid", "messageId", "agentId"})
    """Each record has one of them."""

    def is_typical(self, row: dict[str, Any]) -> bool:
        if row.get("type") == "summary":
            return "leafUuid" in row
        return row.get("type") in ("user", "assistant") and self.is_valid(row)

    def is_valid(self, row: Any) -> bool:
        if (
            not isinstance(row, dict)
            or not isinstance(row.get("type"), str)
            or not self._IDS & row.keys()
        ):
            return False
        role, content = (
            at(row.get("message"), "role"),
            at(row.get("message"), "content"),
        )
        return row["type"] not in ("user", "assistant") or (
            role in ("user", "assistant") and isinstance(content, str | list)
        )

    def add(self, row: Mapping[str, Any], *, claims: bool = False) -> None:
        if row["type"] == "summary":
            self.trail.claimed(text(row.get("summary")), summary=True)
        elif row["type"] in ("user", "assistant"):
            if row.get("isCompactSummary"):
                self.trail.claimed(
                    clean(text_of(row["message"]["content"])), summary=True
                )
            elif not row.get("isMeta"):
                super().add(row["message"], claims=bool(row.get("isSidechain")))


class InspectReader(ChatReader):
    """Logs of Inspect, read by its own library."""

    DESCRIPTION = "log of Inspect, .eval or JSON; one sample is FILE#ID or FILE#ID:EPOCH (extra: inspect)"
    HAS_PARTS = True
    reporter = "inspect"
    _ARCHIVE = b"PK\x03\x04"
    _SHOWN = 8

    def matches(self, source: TranscriptSource) -> bool:
        if source.head.startswith(self._ARCHIVE):
            return b"_journal/" in source.head
        return (
            at(source.members.get("eval"), "task") is not None
            and "status" in source.members
        )

    def read(self, source: TranscriptSource, deliverable: Deliverable) -> Trail:
        """Return the trail of one sample."""
        try:
            log: Any = import_module("inspect_ai.log")
        except ImportError:
            said = f"{source.name}: logs of Inspect are read by its library, which is not installed"
            raise UsageError(said, "pip install 'goalrunner[inspect]'") from None
        file, form = (
            str(source.piped or source.path),
            "eval" if source.head.startswith(self._ARCHIVE) else "json",
        )
        try:
            summaries = log.read_eval_log_sample_summaries(file, format=form)
            epoch, name = self._chosen(
                source, [(one.epoch, one.id) for one in summaries]
            )
            # Long texts are stored apart from the messages.
            sample = log.read_eval_log_sample(
                file, id=name, epoch=epoch, resolve_attachments=True, format=form
            )
            messages = [message.model_dump(mode="json") for message in sample.messages]
        except UsageError:
            raise
        except Exception as error:  # a damaged log raises errors of the archive, of JSON and of the library's models
            raise source.error(
                f"the library of Inspect cannot read the log: {error}"
            ) from error
        for message in messages:
            if message["role"] == "tool":
                output = block_text(message["content"]) or text(
                    at(message, "error", "message")
                )
                facts = ("error",) if message.get("error") else ()
                tool = text(message.get("function"))
                self.trail.result(
                    text(message.get("tool_call_id")), output, facts, tool=tool
                )
            elif message["role"] == "user" and message.get("source") != "input":
                self.trail.user()  # written by the scaffold
            else:
                calls = [
                    {**call, "name": call.get("function")}
                    for call in message.get("tool_calls") or ()
                ]
                self.add({**message, "tool_calls": calls})
        return self.trail.finish(deliverable)

    def _chosen(
        self, source: TranscriptSource, samples: list[tuple[int, Any]]
    ) -> tuple[int, Any]:
        """Return epoch and id of the chosen sample, or of the only one."""
        part = source.part
        found = [
            (epoch, name)
            for epoch, name in samples
            if part in ("", str(name), f"{name}:{epoch}")
        ]
        if len(found) == 1:
            return found[0]
        names = ", ".join(f"{name}:{epoch}" for epoch, name in samples[: self._SHOWN])
        raise source.error(
            f"the log has {len(samples)} samples; choose one, as {source.name}#ID: {names}"
        )


_LABELLED = re.compile(
    r"(?:Error|Signal|Background PIDs|Process Group PGID): .*|</untrusted_context>|"
)
_EXIT = re.compile(r"Exit Code: (-?\d{1,10})")
_ENDED: dict[str, tuple[str, ...]] = {
    "success": (),
    "error": ("error",),
    "cancelled": ("interrupted",),
}


def _response_text(response: Any) -> str:
    """Return the text of a function response."""
    for key in ("output", "error", "content"):
        if at(response, key) is not None:
            return block_text(response[key])
    return block_text(response) if isinstance(response, str) else json_of(response)


def _shell_fact(tool: str, output: str) -> tuple[str, ...]:
    """Return the exit code that the shell tool writes after the output, among other labelled lines at its end."""
    if tool == "run_shell_command":
        for line in reversed(output.splitlines()):
            if found := _EXIT.fullmatch(line):
                return exit_fact(int(found[1]))
            if not _LABELLED.fullmatch(line):
                break
    return ()


class GeminiReader(RowReader):
    """Sessions of Gemini CLI: `~/.gemini/tmp/*/chats/session-*.json` and `.jsonl`.

    A message is written again when its calls have ended, and without them when the session is resumed; it counts once.
    """

    DESCRIPTION = "session of Gemini CLI (JSON or JSON Lines)"
    reporter = "gemini"
    keys = frozenset({"", "messages"})
    _NO_MESSAGES = frozenset({"$set", "$rewindTo", "projectHash"})
    _CONTEXT = (
        "<session_context>",
        "This is the Gemini CLI. We are setting up the context",
    )

    def __init__(self) -> None:
        super().__init__()
        self._messages: dict[str, dict[str, Any]] = {}

    def matches(self, source: TranscriptSource) -> bool:
        return self.is_typical(source.members) or super().matches(source)

    def is_typical(self, row: dict[str, Any]) -> bool:
        return "projectHash" in row or (
            row.get("type") == "gemini" and "content" in row
        )

    def is_valid(self, row: Any) -> bool:
        return isinstance(row, dict) and bool(
            row.keys() & self._NO_MESSAGES or row.keys() >= {"id", "type", "content"}
        )

    def add(self, row: Any) -> None:
        if target := text(row.get("$rewindTo")):  # the user rewound the conversation
            known = list(self._messages)
            first = known.index(target) if target in known else 0
            for identifier in known[first:]:
                del self._messages[identifier]
        for message in [
            *items(at(row, "$set", "messages")),
            *items(row.get("messages")),
            row,
        ]:
            if isinstance(message, dict):
                identifier = text(message.get("id")) or str(len(self._messages))
                self._messages[identifier] = {
                    **self._messages.get(identifier, {}),
                    **message,
                }

    def end(self) -> None:
        for message in self._messages.values():
            said = text_of(message.get("content"))
            if (
                message.get("type") == "user"
                and said.strip()
                and not said.startswith(self._CONTEXT)
            ):
                self.trail.user(clean(said))
            elif message.get("type") == "gemini":
                self.trail.claimed(clean(said))
                for call in items(message.get("toolCalls")):
                    self._call(call)

    def _call(self, call: Any) -> None:
        identifier, status, tool = (
            text(at(call, "id")),
            text(at(call, "status")),
            text(at(call, "name")),
        )
        if status in _ENDED:
            self.trail.called(
                identifier,
                tool,
                at(call, "args") or {},
                summary=bool(at(call, "agentId")),
            )
            responses = [
                at(part, "functionResponse", "response")
                for part in items(at(call, "result"))
            ]
            output = "\n".join(
                _response_text(one) for one in responses if one is not None
            )
            self.trail.result(
                identifier, output, _ENDED[status] or _shell_fact(tool, output)
            )


class QwenReader(RowReader):
    """Sessions of Qwen Code: `~/.qwen/projects/*/chats/*.jsonl`. What sub-agents find, and summaries, are claims."""

    DESCRIPTION = "session of Qwen Code (JSON Lines)"
    reporter = "qwen"
    _MESSAGES = ("user", "assistant", "tool_result")

    def is_typical(self, row: dict[str, Any]) -> bool:
        return "sessionId" in row and isinstance(at(row, "message", "parts"), list)

    def is_valid(self, row: Any) -> bool:
        if not isinstance(at(row, "type"), str) or "sessionId" not in row:
            return False
        return row["type"] not in self._MESSAGES or isinstance(
            at(row, "message", "parts"), list
        )

    def add(self, row: Any) -> None:
        trail, kind, inner = self.trail, row["type"], bool(row.get("isSidechain"))
        if kind == "system" and row.get("subtype") == "chat_compression":
            trail.claimed(json_of(row.get("systemPayload")), summary=True)
        if kind not in self._MESSAGES:
            return
        parts = items(row["message"]["parts"])
        said = "\n".join(
            text(at(part, "text")) for part in parts if not at(part, "thought")
        )
        if kind == "user" and said.strip() and not inner:
            trail.user(said)
        elif kind == "assistant":
            trail.claimed(said, summary=inner)
        for part in parts:
            call, result = at(part, "functionCall"), at(part, "functionResponse")
            if isinstance(call, dict):
                trail.called(
                    text(call.get("id")),
                    text(call.get("name")),
                    call.get("args") or {},
                    summary=inner,
                )
            if isinstance(result, dict):
                tool, output = (
                    text(result.get("name")),
                    _response_text(result.get("response")),
                )
                failed = _ENDED.get(text(at(row, "toolCallResult", "status")), ())
                trail.result(
                    text(result.get("id")),
                    output,
                    _shell_fact(tool, output) or failed,
                    tool=tool,
                )


class OpenCodeReader(RowReader):
    """Sessions of opencode, as `opencode export SESSION` prints them. A summary of the conversation is a claim."""

    DESCRIPTION = "session of opencode: the output of opencode export (JSON)"
    reporter = "opencode"
    keys = frozenset({"messages"})

    def is_valid(self, row: Any) -> bool:
        return at(row, "info", "role") in ("user", "assistant") and isinstance(
            at(row, "parts"), list
        )

    def add(self, row: Any) -> None:
        if row["info"]["role"] == "user":
            written = [
                part
                for part in items(row["parts"])
                if at(part, "type") == "text" and not at(part, "synthetic")
            ]
            self.trail.user("\n".join(text(part.get("text")) for part in written))
            return
        for part in items(row["parts"]):
            if at(part, "type") == "text":
                self.trail.claimed(
                    text(part.get("text")), summary=row["info"].get("summary") is True
                )
            elif at(part, "type") == "tool" and at(part, "state", "status") in (
                "completed",
                "error",
            ):
                state, identifier = part["state"], text(part.get("callID"))
                code, failed = (
                    integer_of(at(state, "metadata", "exit")),
                    state["status"] == "error",
                )
                output = block_text(state.get("output")) or block_text(
                    state.get("error")
                )
                self.trail.called(
                    identifier, text(part.get("tool")), state.get("input") or {}
                )
                self.trail.result(
                    identifier,
                    output,
                    exit_fact(code) or facts_of(output, failed=failed),
                )
