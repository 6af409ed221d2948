"""Chat messages of OpenAI, Anthropic, Strands and Bedrock, also in sessions of Claude Code and logs of Inspect."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from goalrunner.core.errors import UsageError
from goalrunner.core.messages import (
    KNOWN_BLOCKS,
    ROLES,
    as_text,
    at,
    clean,
    items,
    text,
    text_of,
    unknown_block,
)
from goalrunner.core.observation import Trail
from goalrunner.core.trail_builder import add_message
from goalrunner.transcripts import RowReader
from goalrunner.transcripts.source import Deliverable, Source


class ChatReader(RowReader):
    """Reads chat messages."""

    keys = frozenset({"", "messages"})

    def add(self, row: Mapping[str, Any], *, claims: bool = False) -> None:
        add_message(self.trail, row, claims=claims)


class OpenAIChat(ChatReader):
    """OpenAI chat messages. As the last format it reports all errors in JSON files."""

    DESCRIPTION = 'OpenAI chat messages: a JSON array, {"messages": [...]}, or JSON Lines'
    fault = f"a chat message: it has no known role, or content that is neither text nor blocks ({KNOWN_BLOCKS})"

    def matches(self, source: Source) -> bool:
        return source.is_json and ("messages" in source.members or not source.members)

    def is_valid(self, row: Any) -> bool:
        role, content = at(row, "role"), at(row, "content")
        is_known = isinstance(role, str) and role in ROLES and isinstance(content, str | list | None)
        return is_known and not unknown_block(content)


class Anthropic(ChatReader):
    """Messages of Anthropic's API."""

    DESCRIPTION = 'messages of Anthropic\'s API: a JSON array, {"messages": [...]}, a response, or JSON Lines'
    _BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use")

    def is_typical(self, row: dict[str, Any]) -> bool:
        if row.get("role") not in ("user", "assistant"):
            return False
        if row.get("type") == "message" and "model" in row:
            return True
        return "type" not in row and any(at(block, "type") in self._BLOCKS for block in items(row.get("content")))

    def is_valid(self, row: Any) -> bool:
        known = at(row, "role") in ("user", "assistant", "system")
        return known and isinstance(at(row, "content"), str | list)


class ClaudeCode(ChatReader):
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
        if not isinstance(row, dict) or not isinstance(row.get("type"), str) or not self._IDS & row.keys():
            return False
        role, content = at(row.get("message"), "role"), at(row.get("message"), "content")
        return row["type"] not in ("user", "assistant") or (
            role in ("user", "assistant") and isinstance(content, str | list)
        )

    def add(self, row: Mapping[str, Any], *, claims: bool = False) -> None:
        if row["type"] == "summary":
            self.trail.said(text(row.get("summary")), summary=True)
        elif row["type"] in ("user", "assistant"):
            if row.get("isCompactSummary"):
                self.trail.said(clean(text_of(row["message"]["content"])), summary=True)
            elif not row.get("isMeta"):
                super().add(row["message"], claims=bool(row.get("isSidechain")))


class Inspect(ChatReader):
    """Logs of Inspect, read by its own library."""

    DESCRIPTION = "log of Inspect, .eval or JSON; one sample is FILE#ID or FILE#ID:EPOCH (extra: inspect)"
    HAS_PARTS = True
    reporter = "inspect"
    _ARCHIVE = b"PK\x03\x04"
    _SHOWN = 8

    def matches(self, source: Source) -> bool:
        if source.head.startswith(self._ARCHIVE):
            return b"_journal/" in source.head
        return at(source.members.get("eval"), "task") is not None and "status" in source.members

    def read(self, source: Source, deliverable: Deliverable) -> Trail:
        """Return the trail of one sample."""
        try:
            log: Any = import_module("inspect_ai.log")
        except ImportError:
            said = f"{source.name}: logs of Inspect are read by its library, which is not installed"
            raise UsageError(said, "pip install 'goalrunner[inspect]'") from None
        file, form = str(source.piped or source.path), "eval" if source.head.startswith(self._ARCHIVE) else "json"
        try:
            summaries = log.read_eval_log_sample_summaries(file, format=form)
            epoch, name = self._chosen(source, [(one.epoch, one.id) for one in summaries])
            # Long texts are stored apart from the messages.
            sample = log.read_eval_log_sample(file, id=name, epoch=epoch, resolve_attachments=True, format=form)
            messages = [message.model_dump(mode="json") for message in sample.messages]
        except UsageError:
            raise
        except Exception as error:  # a damaged log raises errors of the archive, of JSON and of the library's models
            raise source.error(f"the library of Inspect cannot read the log: {error}") from error
        for message in messages:
            if message["role"] == "tool":
                output = as_text(message["content"]) or text(at(message, "error", "message"))
                facts = ("error",) if message.get("error") else ()
                tool = text(message.get("function"))
                self.trail.result(text(message.get("tool_call_id")), output, facts, tool=tool)
            else:
                calls = [{**call, "name": call.get("function")} for call in message.get("tool_calls") or ()]
                self.add({**message, "tool_calls": calls})
        return self.trail.finish(deliverable)

    def _chosen(self, source: Source, samples: list[tuple[int, Any]]) -> tuple[int, Any]:
        """Return epoch and id of the chosen sample, or of the only one."""
        part = source.part
        found = [(epoch, name) for epoch, name in samples if part in ("", str(name), f"{name}:{epoch}")]
        if len(found) == 1:
            return found[0]
        names = ", ".join(f"{name}:{epoch}" for epoch, name in samples[: self._SHOWN])
        raise source.error(f"the log has {len(samples)} samples; choose one, as {source.name}#ID: {names}")
