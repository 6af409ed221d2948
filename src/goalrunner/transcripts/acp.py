"""Session updates of the Agent Client Protocol, and transcripts of runs of this program."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from goalrunner.core.json_values import at, items, text
from goalrunner.core.observation import Trail
from goalrunner.core.summary import EvidenceIndex
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.event_log import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import Deliverable, Source
from goalrunner.transcripts.trail_builder import as_text, exit_fact


class Acp(RowReader):
    """Session updates. A call's output is what it has when it ends; calls that have not ended are left out."""

    DESCRIPTION = "session updates of the Agent Client Protocol: JSON Lines or a JSON array"
    fault = "an update of an ACP session: it has no sessionUpdate"
    _ENDED = ("completed", "failed")
    _FIELDS = ("title", "kind", "status", "content", "locations", "rawInput", "rawOutput")

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, dict[str, Any] | None] = {}  # None: it has ended
        self._said: list[str] = []
        self._last = ""

    def is_typical(self, row: dict[str, Any]) -> bool:
        return _update(row) is not None

    def is_valid(self, row: Any) -> bool:
        return isinstance(row, dict) and ("jsonrpc" in row or "method" in row or _update(row) is not None)

    def rows(self, source: Source) -> Iterator[Any]:
        yield from super().rows(source)
        self._end_text()

    def add(self, row: Any) -> None:
        update, method = _update(row), row.get("method")
        if update is not None:
            self._add_update(update)
        elif method == "session/prompt":
            self._end_text()
            self.trail.user()
        elif method == "fs/write_text_file":
            self.trail.wrote(text(at(row, "params", "path")))

    def _add_update(self, update: dict[str, Any]) -> None:
        kind, identifier = update["sessionUpdate"], update.get("toolCallId")
        if kind == "agent_message_chunk":
            self._said.append(text(at(update, "content", "text")))
        else:
            self._end_text()
        if kind == "user_message_chunk" and self._last != kind:
            self.trail.user()
        if kind in ("tool_call", "tool_call_update") and isinstance(identifier, str):
            call = self._calls.setdefault(identifier, {})
            if call is not None:
                call.update({key: update[key] for key in self._FIELDS if update.get(key) is not None})
                if call.get("status") in self._ENDED:
                    self._calls[identifier] = None
                    self._end(identifier, call)
        self._last = kind

    def _end_text(self) -> None:
        self.trail.said("".join(self._said))
        self._said.clear()

    def _end(self, identifier: str, call: dict[str, Any]) -> None:
        kind, given, raw = text(call.get("kind")) or "tool", call.get("rawInput"), call.get("rawOutput")
        arguments = dict(given) if isinstance(given, dict) else {}
        content = items(call.get("content"))
        if not arguments:
            arguments = {"title": call["title"]} if text(call.get("title")) else {}
            paths = [text(at(place, "path")) for place in items(call.get("locations"))]
            arguments.update({"path": paths[0]} if paths and paths[0] else {})
        changed = [path for block in content if at(block, "type") == "diff" and (path := text(at(block, "path")))]
        # A call of another agent has the kind of a thought.
        self.trail.called(identifier, kind, arguments, summary=kind == "think", writes=changed)
        printed = [block for block in content if at(block, "type") == "content"]
        output = as_text(printed) or as_text(at(raw, "output") if isinstance(at(raw, "output"), str) else raw)
        failed = ("error",) if call["status"] == "failed" else ()
        self.trail.result(identifier, output, exit_fact(at(raw, "exitCode"), at(raw, "exit_code")) or failed)


def _update(row: Any) -> dict[str, Any] | None:
    """Return the update in a notification, in its parameters, or the record itself; None if it has none."""
    for found in (at(row, "params", "update"), at(row, "update"), row):
        if isinstance(at(found, "sessionUpdate"), str):
            return dict(found)
    return None


class GoalRun:
    """The transcript of a run of this program, with the log of the run beside it."""

    DESCRIPTION = "folder of a run of this program, or its transcript.jsonl"

    def matches(self, source: Source) -> bool:
        path = source.path
        return path.name == "transcript.jsonl" and path.with_name("events.jsonl").is_file()

    def read(self, source: Source, deliverable: Deliverable) -> Trail:
        """Return the trail of the run. Raise RecordError if log, transcript or artifacts were changed.

        With the log, observations keep their ids, facts and whole outputs, each checked against its hash. It has the responses
        too, so `deliverable` adds none.
        """
        path = source.path
        index = EvidenceIndex()
        for record in read_records(path.with_name("events.jsonl")):
            index.add(record)
        # Nothing is written, so there is nothing to redact.
        artifacts = ArtifactStore(path.with_name("artifacts"), Redactor({}))
        return index.trail(artifacts.read, partial(read_message, path))
