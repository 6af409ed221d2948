"""The reader of sessions of opencode."""

from __future__ import annotations

from typing import Any

from goalrunner.core.messages import (
    at,
    block_text,
    exit_fact,
    facts_of,
    integer_of,
    items,
    text,
)
from goalrunner.transcripts.row_reader import RowReader


class OpenCodeReader(RowReader):
    """Sessions of opencode, as `opencode export SESSION` prints them.

    A summary of the conversation is a claim.
    """

    DESCRIPTION = "session of opencode: the output of opencode export (JSON)"
    reporter = "opencode"
    keys = frozenset({"messages"})

    def is_valid(self, row: Any) -> bool:
        has_role = at(row, "info", "role") in ("user", "assistant")
        return has_role and isinstance(at(row, "parts"), list)

    def add(self, row: Any) -> None:
        if row["info"]["role"] == "user":
            self._add_user_message(row["parts"])
            return
        is_summary = row["info"].get("summary") is True
        for part in items(row["parts"]):
            if at(part, "type") == "text":
                self.trail.claimed(text(part.get("text")), summary=is_summary)
            elif at(part, "type") == "tool":
                self._add_call(part)

    def _add_user_message(self, parts: list[Any]) -> None:
        texts = []
        for part in parts:
            # Synthetic parts are written by the program, not by a person.
            if at(part, "type") == "text" and not at(part, "synthetic"):
                texts.append(text(part.get("text")))
        self.trail.user("\n".join(texts))

    def _add_call(self, part: Any) -> None:
        # Calls that still run have no result.
        if at(part, "state", "status") not in ("completed", "error"):
            return
        state = part["state"]
        identifier = text(part.get("callID"))
        arguments = state.get("input") or {}
        output = block_text(state.get("output")) or block_text(state.get("error"))
        # The exit code says more than the status.
        exit_code = integer_of(at(state, "metadata", "exit"))
        facts = exit_fact(exit_code)
        if not facts:
            facts = facts_of(output, failed=state["status"] == "error")
        self.trail.called(identifier, text(part.get("tool")), arguments)
        self.trail.result(identifier, output, facts)
