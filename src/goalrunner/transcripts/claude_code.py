"""The reader of sessions of Claude Code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from goalrunner.core.chat_trail import add_message
from goalrunner.core.messages import TIMESTAMP, at, clean, text, text_of
from goalrunner.transcripts.branches import Branches
from goalrunner.transcripts.chat import ChatReader
from goalrunner.transcripts.source import TranscriptSource

_AGENT_ID = re.compile(r"[\w-]{1,80}", re.ASCII)
# Members of messages of sub-agents and of the program.
_NOT_OF_SESSION = ("isSidechain", "isMeta", "isCompactSummary")


class ClaudeCodeReader(ChatReader):
    """Sessions of Claude Code: `~/.claude/projects/*/*.jsonl`.

    Texts of sub-agents, their results, and summaries are claims. Of several branches,
    that of the last message is the conversation.
    """

    DESCRIPTION = "session of Claude Code (JSON Lines)"
    reporter = "claude"
    # A session is JSON Lines; an object with `messages` is another format.
    keys = frozenset({""})
    # Each record has one of them, whatever its type. New types of records appear
    # often; they are accepted by their ids and add nothing.
    _IDS = frozenset({"sessionId", "uuid", "leafUuid", "messageId", "agentId"})

    def __init__(self) -> None:
        super().__init__()
        self._source: TranscriptSource | None = None
        self._subagents: set[str] = set()
        """Those whose files were read."""

    def is_typical(self, row: dict[str, Any]) -> bool:
        if row.get("type") == "summary":
            return "leafUuid" in row
        return row.get("type") in ("user", "assistant") and self.is_valid(row)

    def is_valid(self, row: Any) -> bool:
        if not isinstance(row, dict) or not isinstance(row.get("type"), str):
            return False
        if not self._IDS & row.keys():
            return False
        # What the program prints for other programs is another format.
        if "session_id" in row and "sessionId" not in row:
            return False
        if row["type"] not in ("user", "assistant"):
            return True
        role = at(row.get("message"), "role")
        content = at(row.get("message"), "content")
        return role in ("user", "assistant") and isinstance(content, str | list)

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        self._source = source
        branches = Branches.of_rows(super().rows(source))
        withdrawn, repeated = branches.withdrawn(), branches.repeated
        # The ids of all rows are no longer needed.
        del branches
        for number, row in enumerate(super().rows(source)):
            if number not in repeated:
                self.trail.withdrawn = number in withdrawn
                yield row

    def parent_session(self, source: TranscriptSource) -> str:
        """Return the session of whose sub-agent this file is; empty if of none."""
        for row in source.rows:
            if row.get("type") in ("user", "assistant"):
                is_inner = row.get("isSidechain") is True and "agentId" in row
                return text(row.get("sessionId")) if is_inner else ""
        return ""

    def messages(self, source: TranscriptSource) -> Iterator[Any]:
        """Yield the chat messages of the conversation, without those of sub-agents."""
        for row in self.rows(source):
            if self.trail.withdrawn or at(row, "type") not in ("user", "assistant"):
                continue
            if any(map(row.get, _NOT_OF_SESSION)):
                continue
            message = row.get("message")
            if isinstance(message, dict):
                message = {**message, TIMESTAMP: row.get(TIMESTAMP)}
            yield message

    def add(self, row: Mapping[str, Any]) -> None:
        if row["type"] == "summary":
            self.trail.claimed(text(row.get("summary")), summary=True)
            return
        if row["type"] not in ("user", "assistant"):
            return
        message = row["message"]
        if row.get("isCompactSummary"):
            # Written by the model to replace the conversation before it.
            self.trail.claimed(clean(text_of(message["content"])), summary=True)
        elif not row.get("isMeta"):
            self._add_subagent(at(row, "toolUseResult", "agentId"))
            # A side chain is the conversation of a sub-agent.
            add_message(self.trail, message, claims=bool(row.get("isSidechain")))

    def _add_subagent(self, agent: Any) -> None:
        """Add what a sub-agent did, whose file is beside the session, as claims.

        The files that it changed make earlier results outdated.
        """
        source = self._source
        if source is None or not _AGENT_ID.fullmatch(text(agent)):
            return
        if agent in self._subagents:
            return
        self._subagents.add(agent)
        inner_folder = source.path.with_suffix("") / "subagents"
        for folder in (source.path.parent, inner_folder):
            path = folder / f"agent-{agent}.jsonl"
            if not path.is_file():
                continue
            file = TranscriptSource(path)
            for record in file.records():
                if self._is_message(record.value):
                    add_message(self.trail, record.value["message"], claims=True)
            source.add_gaps(file)
            return

    def _is_message(self, row: Any) -> bool:
        is_message = at(row, "type") in ("user", "assistant")
        return is_message and self.is_valid(row)
