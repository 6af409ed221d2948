"""Events: of OpenHands 1 (its agent SDK), of the versions before, of the Agent Client Protocol, and of runs of this program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from goalrunner.core.messages import (
    at,
    block_text,
    exit_fact,
    integer_of,
    items,
    parsed,
    text,
)
from goalrunner.core.observation import Trail
from goalrunner.core.summary import EvidenceIndex
from goalrunner.core.trail_builder import Deliverable
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.event_log import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.transcripts import RowReader
from goalrunner.transcripts.source import TranscriptSource


def _ended(*codes: Any) -> tuple[str, ...]:
    """Return the fact of the first exit code. The code -1 of a command that still runs is ignored."""
    return exit_fact(
        *(code for code in map(integer_of, codes) if code is not None and code >= 0)
    )


class OpenHandsReader(RowReader):
    """Events of version 1. Summaries of forgotten events and reports of other agents are claims."""

    DESCRIPTION = "events of OpenHands 1: the folder of a conversation, JSON Lines, or a JSON array"
    reporter = "openhands"
    keys = frozenset({"", "events", "items", "history"})
    _OTHER_KINDS = frozenset(
        {"Condensation", "CondensationRequest", "UserRejectObservation"}
    )
    _REPORTS = frozenset(
        {
            "ThinkObservation",
            "DelegateObservation",
            "TaskObservation",
            "WorkflowObservation",
        }
    )
    _REPORTS |= {"ConsultTomObservation"}
    """Observations that contain what an agent says."""

    def is_valid(self, row: Any) -> bool:
        kind = text(at(row, "kind"))
        return (kind.endswith("Event") or kind in self._OTHER_KINDS) and isinstance(
            at(row, "source"), str
        )

    def add(self, row: Any) -> None:
        trail, identifier, tool = (
            self.trail,
            text(row.get("tool_call_id")),
            text(row.get("tool_name")),
        )
        match row["kind"]:
            case "MessageEvent" if row["source"] == "agent":
                trail.claimed(block_text(at(row, "llm_message", "content")))
            case "MessageEvent" if row["source"] == "user":
                trail.user(block_text(at(row, "llm_message", "content")))
            case "ActionEvent":
                trail.claimed(
                    "\n".join(
                        text(at(block, "text")) for block in items(row.get("thought"))
                    )
                )
                # The call as the model made it; an action has further fields.
                given = parsed(at(row, "tool_call", "arguments"))
                trail.called(
                    identifier,
                    tool,
                    given if isinstance(given, dict) else row.get("action") or {},
                )
            case "ObservationEvent":
                self._observed(identifier, tool, row.get("observation"))
            case "AgentErrorEvent":
                trail.result(identifier, text(row.get("error")), ("error",), tool=tool)
            case "UserRejectObservation":
                trail.result(
                    identifier,
                    text(row.get("rejection_reason")),
                    ("denied",),
                    tool=tool,
                )
            case "Condensation" | "CondensationSummaryEvent":
                trail.claimed(text(row.get("summary")), summary=True)
            case "ACPToolCallEvent" if row.get("status") in ("completed", "failed"):
                output = block_text(row.get("content")) or block_text(
                    row.get("raw_output")
                )
                trail.called(
                    identifier,
                    text(row.get("tool_kind")) or "tool",
                    row.get("raw_input") or {},
                )
                trail.result(
                    identifier, output, ("error",) if row.get("is_error") else ()
                )

    def _observed(self, identifier: str, tool: str, observation: Any) -> None:
        kind, output = (
            text(at(observation, "kind")),
            block_text(at(observation, "content")),
        )
        if kind == "FinishObservation" or kind in self._REPORTS:
            self.trail.claimed(output, summary=kind != "FinishObservation")
            return
        failed: tuple[str, ...] = (
            ("error",) if at(observation, "is_error") is True else ()
        )
        codes = at(observation, "exit_code"), at(observation, "metadata", "exit_code")
        self.trail.result(identifier, output, _ended(*codes) or failed, tool=tool)


class OpenHandsV0Reader(RowReader):
    """Events before version 1. Reports of delegates and summaries of forgotten events are claims."""

    DESCRIPTION = "events of OpenHands 0: a saved trajectory, the folder of a session, or the output of an evaluation"
    HAS_PARTS = True
    reporter = "openhands"
    keys = frozenset({"", "history", "trajectory", "events"})
    _NO_RESULTS = frozenset(
        {"agent_state_changed", "null", "recall", "think", "chat", "", "system"}
    )
    """Observations that are not results of a tool."""
    _NO_CALLS = frozenset(
        {"change_agent_state", "recall", "system", "null", "condensation_request"}
    )
    _NO_ARGUMENTS = frozenset({"thought", "impl_source", "security_risk"})

    def is_typical(self, row: dict[str, Any]) -> bool:
        return any(map(self.is_valid, (row, *_history(row)[:1])))

    def is_valid(self, row: Any) -> bool:
        kind = (
            at(row, "action")
            if at(row, "observation") is None
            else at(row, "observation")
        )
        return (
            isinstance(kind, str)
            and isinstance(at(row, "source"), str)
            and "kind" not in row
        )

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        names: list[str] = []
        for record in source.records():
            if record.key not in self.keys:
                continue
            if not isinstance(at(record.value, "history"), list):
                yield from (
                    record.value if isinstance(record.value, list) else [record.value]
                )
                continue
            name = text(at(record.value, "instance_id")) or str(len(names) + 1)
            names.append(name)
            if name == source.part or (not source.part and len(names) == 1):
                yield from _history(record.value)
            elif not source.part:
                raise source.here(
                    f"the file has several conversations; choose one, as {source.name}#{names[0]}"
                )
        if source.part and source.part not in names:
            raise source.error(f"the file has no conversation {source.part!r:.60}")

    def add(self, row: Any) -> None:
        if isinstance(row.get("observation"), str):
            self._observed(row["observation"], row)
        elif row["source"] == "user" and row["action"] == "message":
            self.trail.user(text(at(row, "args", "content")))
        elif row["source"] == "agent":
            self._acted(row["action"], row.get("args"), row)

    def _acted(self, kind: str, args: Any, event: dict[str, Any]) -> None:
        self.trail.claimed(text(at(args, "thought")))
        if kind == "message":
            self.trail.claimed(text(at(args, "content")))
        elif kind == "finish":
            said = (
                text(at(args, "final_thought"))
                or text(at(args, "message"))
                or text(event.get("message"))
            )
            self.trail.claimed(said or block_text(at(args, "outputs")))
        elif kind == "condensation":
            self.trail.claimed(text(at(args, "summary")), summary=True)
        elif kind not in self._NO_CALLS and isinstance(args, dict):
            given = {
                key: value
                for key, value in args.items()
                if key not in self._NO_ARGUMENTS and value is not None
            }
            self.trail.called(
                str(integer_of(event.get("id"))),
                kind,
                given,
                summary=kind == "delegate",
            )

    def _observed(self, kind: str, event: dict[str, Any]) -> None:
        output, extras = block_text(event.get("content")), event.get("extras")
        if kind in ("condense", "delegate", "agent_delegate"):
            self.trail.claimed(
                output or block_text(at(extras, "outputs")), summary=True
            )
        elif kind not in self._NO_RESULTS:
            facts = _ended(at(extras, "metadata", "exit_code"), at(extras, "exit_code"))
            if kind in ("error", "user_rejected"):
                facts = ("denied",) if kind == "user_rejected" else ("error",)
            self.trail.result(
                str(integer_of(event.get("cause"))), output, facts, tool=kind
            )


def _history(row: Any) -> list[Any]:
    """Return the events of a line of an evaluation's output; old ones are pairs of action and observation."""
    found = items(at(row, "history"))
    return [
        event
        for entry in found
        for event in (entry if isinstance(entry, list) else [entry])
    ]


class AcpReader(RowReader):
    """Session updates. A call's output is its last content; calls that have not ended are left out."""

    DESCRIPTION = (
        "session updates of the Agent Client Protocol: JSON Lines or a JSON array"
    )
    _ENDED = ("completed", "failed")
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
        self._calls: dict[str, dict[str, Any] | None] = {}  # None: it has ended
        self._said: list[str] = []
        self._written: list[str] = []  # chunks of a message of the user

    def is_typical(self, row: dict[str, Any]) -> bool:
        return _update(row) is not None

    def is_valid(self, row: Any) -> bool:
        return isinstance(row, dict) and (
            "jsonrpc" in row or "method" in row or _update(row) is not None
        )

    def end(self) -> None:
        self._end_text()

    def add(self, row: Any) -> None:
        update, method = _update(row), row.get("method")
        if update is not None:
            self._add_update(update)
        elif method == "session/prompt":
            self._end_text()
            self.trail.user(block_text(at(row, "params", "prompt")))
        elif method == "fs/write_text_file":
            self.trail.wrote(text(at(row, "params", "path")))

    def _add_update(self, update: dict[str, Any]) -> None:
        kind, identifier = update["sessionUpdate"], update.get("toolCallId")
        if kind == "agent_message_chunk":
            self._end_user()
            self._said.append(text(at(update, "content", "text")))
        elif kind == "user_message_chunk":
            self._end_answer()
            self._written.append(text(at(update, "content", "text")))
        else:
            self._end_text()
        if kind in ("tool_call", "tool_call_update") and isinstance(identifier, str):
            call = self._calls.setdefault(identifier, {})
            if call is not None:
                call.update(
                    {
                        key: update[key]
                        for key in self._FIELDS
                        if update.get(key) is not None
                    }
                )
                if call.get("status") in self._ENDED:
                    self._calls[identifier] = None
                    self._end(identifier, call)

    def _end_text(self) -> None:
        self._end_user()
        self._end_answer()

    def _end_user(self) -> None:
        if self._written:
            self.trail.user("".join(self._written))
            self._written.clear()

    def _end_answer(self) -> None:
        self.trail.claimed("".join(self._said))
        self._said.clear()

    def _end(self, identifier: str, call: dict[str, Any]) -> None:
        kind, given, raw = (
            text(call.get("kind")) or "tool",
            call.get("rawInput"),
            call.get("rawOutput"),
        )
        content, paths = (
            items(call.get("content")),
            [text(at(one, "path")) for one in items(call.get("locations"))],
        )
        described = {"title": text(call.get("title")), "path": next(iter(paths), "")}
        arguments = (
            given
            if isinstance(given, dict) and given
            else {key: it for key, it in described.items() if it}
        )
        changed = [
            path
            for block in content
            if at(block, "type") == "diff" and (path := text(at(block, "path")))
        ]
        # A call of another agent has the kind "think".
        self.trail.called(
            identifier, kind, arguments, summary=kind == "think", writes=changed
        )
        printed = [block for block in content if at(block, "type") == "content"]
        output = block_text(printed) or block_text(
            at(raw, "output") if isinstance(at(raw, "output"), str) else raw
        )
        failed = ("error",) if call["status"] == "failed" else ()
        self.trail.result(
            identifier,
            output,
            exit_fact(at(raw, "exitCode"), at(raw, "exit_code")) or failed,
        )


def _update(row: Any) -> dict[str, Any] | None:
    """Return the update of a notification, of its parameters, or the record itself; None if there is no update."""
    for found in (at(row, "params", "update"), at(row, "update"), row):
        if isinstance(at(found, "sessionUpdate"), str):
            return dict(found)
    return None


class GoalRunReader:
    """The transcript of a run of this program, with the log of the run beside it."""

    DESCRIPTION = "folder of a run of this program, or its transcript.jsonl"

    def matches(self, source: TranscriptSource) -> bool:
        path = source.path
        return (
            path.name == "transcript.jsonl" and path.with_name("events.jsonl").is_file()
        )

    def read(self, source: TranscriptSource, deliverable: Deliverable) -> Trail:
        """Return the trail of the run. Raise RecordError if log, transcript or artifacts were changed.

        Observations keep their ids, facts and whole outputs, each checked against its hash in the log. The log contains
        the responses too, so `deliverable` has no effect.
        """
        path = source.path
        index = EvidenceIndex()
        for record in read_records(path.with_name("events.jsonl")):
            index.add(record)
        # Nothing is written, so there is nothing to redact.
        artifacts = ArtifactStore(path.with_name("artifacts"), Redactor({}))
        return replace(
            index.trail(artifacts.read, partial(read_message, path)), stale=index.stale
        )
