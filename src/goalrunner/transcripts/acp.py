"""The reader of session updates of the Agent Client Protocol."""

from __future__ import annotations

from typing import Any

from goalrunner.core.messages import at, block_text, exit_fact, items, text
from goalrunner.transcripts.row_reader import RowReader


class AcpReader(RowReader):
    """Session updates.

    A call's output is its last content; calls that have not ended are left out.
    """

    DESCRIPTION = (
        "session updates of the Agent Client Protocol: JSON Lines or a JSON array"
    )
    _ENDED = ("completed", "failed")
    # Members of a call that a later update may replace.
    _FIELDS = (
        "title",
        "kind",
        "status",
        "content",
        "locations",
        "rawInput",
        "rawOutput",
    )

    def __init__(self) -> None:
        super().__init__()
        # None marks a call that has ended: further updates are ignored.
        self._calls: dict[str, dict[str, Any] | None] = {}
        # A message comes in chunks, which are joined when something else follows.
        self._agent_chunks: list[str] = []
        self._user_chunks: list[str] = []

    def is_typical(self, row: dict[str, Any]) -> bool:
        return _update(row) is not None

    def is_valid(self, row: Any) -> bool:
        if not isinstance(row, dict):
            return False
        is_message = "jsonrpc" in row or "method" in row
        return is_message or _update(row) is not None

    def end(self) -> None:
        self._end_messages()

    def add(self, row: Any) -> None:
        update = _update(row)
        method = row.get("method")
        if update is not None:
            self._add_update(update)
        elif method == "session/prompt":
            self._end_messages()
            self.trail.user(block_text(at(row, "params", "prompt")))
        elif method == "fs/write_text_file":
            self.trail.wrote(text(at(row, "params", "path")))

    def _add_update(self, update: dict[str, Any]) -> None:
        match update["sessionUpdate"]:
            case "agent_message_chunk":
                self._end_user_message()
                self._agent_chunks.append(text(at(update, "content", "text")))
            case "user_message_chunk":
                self._end_agent_message()
                self._user_chunks.append(text(at(update, "content", "text")))
            case "tool_call" | "tool_call_update":
                self._end_messages()
                self._add_call_update(update)
            case _:
                self._end_messages()

    def _add_call_update(self, update: dict[str, Any]) -> None:
        identifier = update.get("toolCallId")
        if not isinstance(identifier, str):
            return
        call = self._calls.setdefault(identifier, {})
        if call is None:
            return
        for name in self._FIELDS:
            if update.get(name) is not None:
                call[name] = update[name]
        if call.get("status") in self._ENDED:
            self._calls[identifier] = None
            self._add_call(identifier, call)

    def _end_messages(self) -> None:
        self._end_user_message()
        self._end_agent_message()

    def _end_user_message(self) -> None:
        # A round begins with a message, also with an empty one.
        if self._user_chunks:
            self.trail.user("".join(self._user_chunks))
            self._user_chunks.clear()

    def _end_agent_message(self) -> None:
        self.trail.claimed("".join(self._agent_chunks))
        self._agent_chunks.clear()

    def _add_call(self, identifier: str, call: dict[str, Any]) -> None:
        """Add a call that has ended, and its result."""
        kind = text(call.get("kind")) or "tool"
        content = items(call.get("content"))
        diffs = [block for block in content if at(block, "type") == "diff"]
        diff_paths = [text(at(diff, "path")) for diff in diffs]
        self.trail.called(
            identifier,
            kind,
            _arguments(call),
            writes=list(filter(None, diff_paths)),
        )
        raw_output = call.get("rawOutput")
        printed = [block for block in content if at(block, "type") == "content"]
        output = block_text(printed)
        if not output:
            inner_output = at(raw_output, "output")
            is_text = isinstance(inner_output, str)
            output = block_text(inner_output if is_text else raw_output)
        facts = exit_fact(at(raw_output, "exitCode"), at(raw_output, "exit_code"))
        if not facts and call["status"] == "failed":
            facts = ("error",)
        self.trail.result(identifier, output, facts)


def _arguments(call: dict[str, Any]) -> dict[str, str]:
    """Return the arguments of a call; its title and file if it does not show them."""
    raw_input = call.get("rawInput")
    if isinstance(raw_input, dict) and raw_input:
        return raw_input
    arguments = {}
    title = text(call.get("title"))
    if title:
        arguments["title"] = title
    locations = items(call.get("locations"))
    path = text(at(locations[0], "path")) if locations else ""
    if path:
        arguments["path"] = path
    return arguments


def _update(row: Any) -> dict[str, Any] | None:
    """Return the update in a record; None if there is none.

    The record may be a notification, its parameters, or the update itself.
    """
    for candidate in (at(row, "params", "update"), at(row, "update"), row):
        if isinstance(at(candidate, "sessionUpdate"), str):
            return dict(candidate)
    return None
