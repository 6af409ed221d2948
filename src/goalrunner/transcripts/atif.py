"""The reader of trajectories in ATIF, the format of Harbor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from goalrunner.core.messages import at, block_text, items, text
from goalrunner.core.observation import source_of
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource


class AtifReader(RowReader):
    """Trajectories in ATIF, as Harbor writes them.

    Results of sub-agents and copied steps are claims.
    """

    DESCRIPTION = "trajectory in ATIF (JSON)"
    keys = frozenset({"steps"})

    def matches(self, source: TranscriptSource) -> bool:
        return text(source.members.get("schema_version")).startswith("ATIF-")

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        name = text(at(source.members.get("agent"), "name"))
        self.trail.reporter = source_of(name) if name else self.reporter
        return super().rows(source)

    def is_valid(self, row: Any) -> bool:
        return at(row, "source") in ("system", "user", "agent")

    def add(self, row: Any) -> None:
        # A copied step repeats another trajectory, where its results were recorded.
        is_copied = row.get("is_copied_context") is True
        author = row["source"]
        message = block_text(row.get("message"))
        if author == "user" and not is_copied:
            self.trail.user(message)
        elif author == "agent":
            self.trail.claimed(message, summary=is_copied)
        identifiers = self._add_calls(row)
        # An action of the system, such as a summary of the conversation, is not a
        # result of a tool.
        are_claims = is_copied or author != "agent"
        for result in items(at(row, "observation", "results")):
            output = block_text(at(result, "content"))
            identifier = text(at(result, "source_call_id"))
            if are_claims or at(result, "subagent_trajectory_ref"):
                self.trail.claimed(output, summary=True)
                continue
            # The format allows results without the id of their call.
            if not identifier and len(identifiers) == 1:
                identifier = identifiers[0]
            self.trail.result(identifier, output)

    def _add_calls(self, row: dict[str, Any]) -> list[str]:
        """Add the calls of a step and return their ids."""
        identifiers = []
        for call in items(row.get("tool_calls")):
            if not isinstance(call, dict):
                continue
            identifier = text(call.get("tool_call_id"))
            tool = text(call.get("function_name"))
            self.trail.called(identifier, tool, call.get("arguments") or {})
            identifiers.append(identifier)
        return identifiers
