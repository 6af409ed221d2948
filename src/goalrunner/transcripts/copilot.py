"""The reader of events of Copilot CLI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from goalrunner.core.messages import at, block_text, exit_fact, text
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource

# The shell tool writes it after the output of the command.
_EXIT = re.compile(r"<exited with exit code (-?\d{1,10})>")


class CopilotReader(RowReader):
    """Events: `~/.copilot/session-state/*/events.jsonl`, or printed with `--json`.

    Messages and results of sub-agents are claims. Events that the user has rewound are
    not part of the conversation.
    """

    DESCRIPTION = "events of Copilot CLI (JSON Lines)"
    reporter = "copilot"
    _TYPES = ("session.", "user.", "assistant.", "tool.")

    def is_typical(self, row: dict[str, Any]) -> bool:
        if not isinstance(row.get("data"), dict):
            return False
        return text(row.get("type")).startswith(self._TYPES)

    def is_valid(self, row: Any) -> bool:
        return "." in text(at(row, "type")) and isinstance(at(row, "data"), dict)

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        withdrawn = _withdrawn(super().rows(source))
        for number, row in enumerate(super().rows(source)):
            self.trail.withdrawn = number in withdrawn
            yield row

    def add(self, row: Any) -> None:
        data = row.get("data")
        # The call of the sub-agent to which an event belongs.
        is_inner = bool(at(data, "parentToolCallId"))
        identifier = text(at(data, "toolCallId"))
        match row["type"]:
            case "user.message" if not is_inner:
                self.trail.user(text(at(data, "content")))
            case "assistant.message":
                self.trail.claimed(text(at(data, "content")), summary=is_inner)
            case "tool.execution_start":
                tool = text(at(data, "toolName"))
                arguments = at(data, "arguments") or {}
                self.trail.called(identifier, tool, arguments, summary=is_inner)
            case "tool.execution_complete":
                self._add_result(identifier, data)

    def _add_result(self, identifier: str, data: Any) -> None:
        result = at(data, "result")
        output = block_text(at(result, "content") or at(data, "error", "message"))
        last_line = output.rstrip().rpartition("\n")[2]
        exit_line = _EXIT.fullmatch(last_line)
        facts = exit_fact(int(exit_line[1])) if exit_line else ()
        # A command can print such a line itself, and be ended before its own.
        if at(data, "success") is not True and facts in ((), ("exit 0",)):
            facts = ("error",)
        tool = text(at(data, "toolName"))
        # The line of its call may be damaged.
        is_inner = bool(at(data, "parentToolCallId"))
        self.trail.result(identifier, output, facts, tool=tool, summary=is_inner)


def _withdrawn(rows: Iterable[Any]) -> set[int]:
    """Return the numbers of the rows that were rewound."""
    numbers: dict[str, int] = {}
    withdrawn: set[int] = set()
    for number, row in enumerate(rows):
        if at(row, "type") == "session.snapshot_rewind":
            # The target is removed as well. If it is not known, all are doubtful.
            target = text(at(row, "data", "upToEventId"))
            withdrawn.update(range(numbers.get(target, 0), number))
        numbers.setdefault(text(at(row, "id")), number)
    return withdrawn
