"""The reader of rollouts of Codex."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from goalrunner.core.chat_trail import add_users_command
from goalrunner.core.messages import at, block_text, exit_fact, integer_of, text
from goalrunner.transcripts.responses import ResponsesReader, add_item
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource

# A message of the program in the user's name is a single element, or has one of the
# beginnings in `_CONTEXT`.
_ELEMENT = re.compile(r"\s*<([\w-]+)[^>]*>.*</\1>\s*", re.DOTALL)
_SUBAGENT = "<subagent_notification>"
_USERS_COMMAND = re.compile(
    r"\s*<user_shell_command>\s*<command>\n?(.*?)\n?</command>\s*<result>\n"
    r"Exit code: (-?\d{1,10})\n(?:Duration: [^\n]*\n)?Output:\n(.*)</result>\s*"
    r"</user_shell_command>\s*",
    re.DOTALL,
)


class CodexReader(RowReader):
    """Rollouts of Codex: `~/.codex/sessions/**/rollout-*.jsonl`.

    Events repeat the items of the Responses API, so they add nothing. Turns that the
    user has rolled back are not part of the conversation. What the user ran with `!` is
    an observation, the report of a sub-agent a claim.
    """

    DESCRIPTION = "rollout of Codex (JSON Lines)"
    reporter = "codex"
    _KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
    # The beginnings of user messages that the program itself wrote.
    _CONTEXT = (
        "<environment_context>",
        "<user_instructions>",
        "# AGENTS.md instructions",
        "<permissions",
        "<turn_aborted>",
    )

    def is_typical(self, row: dict[str, Any]) -> bool:
        return row.get("type") in self._KINDS and isinstance(row.get("payload"), dict)

    def is_valid(self, row: Any) -> bool:
        if not isinstance(at(row, "type"), str) or "payload" not in row:
            return False
        return row["type"] != "response_item" or isinstance(row["payload"], dict)

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        withdrawn = self._withdrawn(super().rows(source))
        for number, row in enumerate(super().rows(source)):
            self.trail.withdrawn = number in withdrawn
            yield row

    def _withdrawn(self, rows: Iterable[Any]) -> set[int]:
        """Return the numbers of the rows of turns that were rolled back."""
        turns: list[int] = []
        withdrawn: set[int] = set()
        for number, row in enumerate(rows):
            payload = at(row, "payload")
            if at(row, "type") == "response_item" and at(payload, "role") == "user":
                # Codex counts no message of the program as a turn.
                words = block_text(at(payload, "content"))
                if not words.startswith(self._CONTEXT) and not _ELEMENT.match(words):
                    turns.append(number)
            elif at(payload, "type") == "thread_rolled_back":
                number_of_turns = integer_of(at(payload, "num_turns"))
                # Without a number, all turns are doubtful.
                count = len(turns) if number_of_turns is None else number_of_turns
                if count > 0 and turns:
                    first = turns[-count:][0]
                    withdrawn.update(range(first, number))
                    del turns[-count:]
        return withdrawn

    def add(self, row: Any) -> None:
        payload = row["payload"]
        if row["type"] == "compacted":
            self.trail.claimed(text(at(payload, "message")), summary=True)
        elif row["type"] == "response_item":
            if payload.get("role") == "user":
                self._add_user_message(payload)
            else:
                add_item(self.trail, payload)

    def _add_user_message(self, item: dict[str, Any]) -> None:
        words = block_text(item.get("content"))
        users_command = _USERS_COMMAND.fullmatch(words)
        if users_command:
            command, exit_code, output = users_command.groups()
            facts = exit_fact(int(exit_code))
            add_users_command(self.trail, command, output.rstrip("\n"), facts)
        elif words.startswith(_SUBAGENT):
            self.trail.claimed(words, summary=True)
        elif not words.startswith(self._CONTEXT):
            add_item(self.trail, item)


class OldCodexReader(ResponsesReader):
    """Rollouts of versions before 0.32, whose lines are items without a wrapper."""

    DESCRIPTION = "rollout of Codex before version 0.32 (JSON Lines)"
    reporter = "codex"
    keys = frozenset({""})

    def is_typical(self, row: dict[str, Any]) -> bool:
        # The first line describes the session, others its state.
        is_description = row.keys() >= {"id", "timestamp", "instructions"}
        return is_description or "record_type" in row

    def is_valid(self, row: Any) -> bool:
        if not isinstance(row, dict):
            return False
        return self.is_typical(row) or super().is_valid(row)
