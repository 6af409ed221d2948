"""Readers of events of OpenHands, before and since version 1."""

from __future__ import annotations

from collections.abc import Iterator
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
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource


def _exit_of_ended(*codes: Any) -> tuple[str, ...]:
    """Return the fact of the first exit code.

    The code -1 of a command that still runs is ignored.
    """
    integers = map(integer_of, codes)
    return exit_fact(*(code for code in integers if code is not None and code >= 0))


class OpenHandsReader(RowReader):
    """Events of version 1.

    Summaries of forgotten events and reports of other agents are claims.
    """

    DESCRIPTION = (
        "events of OpenHands 1: the folder of a conversation, JSON Lines, "
        "or a JSON array"
    )
    reporter = "openhands"
    keys = frozenset({"", "events", "items", "history"})
    # Kinds of events that do not end with "Event".
    _OTHER_KINDS = frozenset(
        {"Condensation", "CondensationRequest", "UserRejectObservation"}
    )
    # Observations that contain only what an agent says.
    _REPORTS = frozenset(
        {
            "ThinkObservation",
            "DelegateObservation",
            "TaskObservation",
            "WorkflowObservation",
            "ConsultTomObservation",
        }
    )

    def is_valid(self, row: Any) -> bool:
        kind = text(at(row, "kind"))
        is_event = kind.endswith("Event") or kind in self._OTHER_KINDS
        return is_event and isinstance(at(row, "source"), str)

    def add(self, row: Any) -> None:
        trail = self.trail
        identifier = text(row.get("tool_call_id"))
        tool = text(row.get("tool_name"))
        match row["kind"]:
            case "MessageEvent" if row["source"] == "agent":
                trail.claimed(block_text(at(row, "llm_message", "content")))
            case "MessageEvent" if row["source"] == "user":
                trail.user(block_text(at(row, "llm_message", "content")))
            case "ActionEvent":
                self._add_action(identifier, tool, row)
            case "ObservationEvent":
                self._add_observation(identifier, tool, row.get("observation"))
            case "AgentErrorEvent":
                trail.result(identifier, text(row.get("error")), ("error",), tool=tool)
            case "UserRejectObservation":
                reason = text(row.get("rejection_reason"))
                trail.result(identifier, reason, ("denied",), tool=tool)
            case "Condensation" | "CondensationSummaryEvent":
                trail.claimed(text(row.get("summary")), summary=True)
            case "ACPToolCallEvent" if row.get("status") in ("completed", "failed"):
                self._add_acp_call(identifier, row)

    def _add_action(self, identifier: str, tool: str, row: dict[str, Any]) -> None:
        thoughts = [text(at(block, "text")) for block in items(row.get("thought"))]
        self.trail.claimed("\n".join(thoughts))
        # The call as the model made it; an action has further fields.
        arguments = parsed(at(row, "tool_call", "arguments"))
        if not isinstance(arguments, dict):
            arguments = row.get("action") or {}
        self.trail.called(identifier, tool, arguments)

    def _add_observation(self, identifier: str, tool: str, observation: Any) -> None:
        kind = text(at(observation, "kind"))
        output = block_text(at(observation, "content"))
        if kind == "FinishObservation":
            self.trail.claimed(output)
            return
        if kind in self._REPORTS:
            self.trail.claimed(output, summary=True)
            return
        facts = _exit_of_ended(
            at(observation, "exit_code"), at(observation, "metadata", "exit_code")
        )
        if not facts and at(observation, "is_error") is True:
            facts = ("error",)
        self.trail.result(identifier, output, facts, tool=tool)

    def _add_acp_call(self, identifier: str, row: dict[str, Any]) -> None:
        """Add a call of an agent that OpenHands drives, with its result."""
        tool = text(row.get("tool_kind")) or "tool"
        output = block_text(row.get("content")) or block_text(row.get("raw_output"))
        self.trail.called(identifier, tool, row.get("raw_input") or {})
        facts = ("error",) if row.get("is_error") else ()
        self.trail.result(identifier, output, facts)


class OpenHandsV0Reader(RowReader):
    """Events before version 1.

    Reports of delegates and summaries of forgotten events are claims.
    """

    DESCRIPTION = (
        "events of OpenHands 0: a saved trajectory, the folder of a session, "
        "or the output of an evaluation"
    )
    HAS_PARTS = True
    reporter = "openhands"
    keys = frozenset({"", "history", "trajectory", "events"})
    # Observations that are not results of a tool.
    _NO_RESULTS = frozenset(
        {"agent_state_changed", "null", "recall", "think", "chat", "", "system"}
    )
    # Actions that are not calls of a tool.
    _NO_CALLS = frozenset(
        {"change_agent_state", "recall", "system", "null", "condensation_request"}
    )
    # Members of an action that the tool does not receive.
    _NO_ARGUMENTS = frozenset({"thought", "impl_source", "security_risk"})

    def is_typical(self, row: dict[str, Any]) -> bool:
        if self.is_valid(row):
            return True
        first_events = _history(row)[:1]
        return any(map(self.is_valid, first_events))

    def is_valid(self, row: Any) -> bool:
        kind = at(row, "observation")
        if kind is None:
            kind = at(row, "action")
        if not isinstance(kind, str) or not isinstance(at(row, "source"), str):
            return False
        # Events of version 1 have a kind.
        return "kind" not in row

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        # A line of an evaluation's output is one conversation with its history;
        # everything else is an event.
        names: list[str] = []
        for record in source.records():
            if record.key not in self.keys:
                continue
            value = record.value
            if not isinstance(at(value, "history"), list):
                yield from value if isinstance(value, list) else [value]
                continue
            name = text(at(value, "instance_id")) or str(len(names) + 1)
            names.append(name)
            if name == source.part or (not source.part and len(names) == 1):
                yield from _history(value)
            elif not source.part:
                raise source.error_here(
                    "the file has several conversations; choose one, "
                    f"as {source.name}#{names[0]}"
                )
        if source.part and source.part not in names:
            raise source.error(f"the file has no conversation {source.part!r:.60}")

    def add(self, row: Any) -> None:
        if isinstance(row.get("observation"), str):
            self._add_observation(row["observation"], row)
        elif row["source"] == "user" and row["action"] == "message":
            self.trail.user(text(at(row, "args", "content")))
        elif row["source"] == "agent":
            self._add_action(row["action"], row)

    def _add_action(self, kind: str, event: dict[str, Any]) -> None:
        arguments = event.get("args")
        self.trail.claimed(text(at(arguments, "thought")))
        if kind == "message":
            self.trail.claimed(text(at(arguments, "content")))
        elif kind == "finish":
            self.trail.claimed(_final_words(event))
        elif kind == "condensation":
            self.trail.claimed(text(at(arguments, "summary")), summary=True)
        elif kind not in self._NO_CALLS and isinstance(arguments, dict):
            tool_arguments = {
                name: value
                for name, value in arguments.items()
                if name not in self._NO_ARGUMENTS and value is not None
            }
            # An observation names the event that caused it, so calls have its id.
            identifier = str(integer_of(event.get("id")))
            is_report = kind == "delegate"
            self.trail.called(identifier, kind, tool_arguments, summary=is_report)

    def _add_observation(self, kind: str, event: dict[str, Any]) -> None:
        output = block_text(event.get("content"))
        extras = event.get("extras")
        if kind in ("condense", "delegate", "agent_delegate"):
            report = output or block_text(at(extras, "outputs"))
            self.trail.claimed(report, summary=True)
            return
        if kind in self._NO_RESULTS:
            return
        if kind == "user_rejected":
            facts: tuple[str, ...] = ("denied",)
        elif kind == "error":
            facts = ("error",)
        else:
            facts = _exit_of_ended(
                at(extras, "metadata", "exit_code"), at(extras, "exit_code")
            )
        identifier = str(integer_of(event.get("cause")))
        self.trail.result(identifier, output, facts, tool=kind)


def _final_words(event: dict[str, Any]) -> str:
    """Return the text of a finish action, whose place differs between versions."""
    arguments = event.get("args")
    for value in (
        at(arguments, "final_thought"),
        at(arguments, "message"),
        event.get("message"),
    ):
        words = text(value)
        if words:
            return words
    return block_text(at(arguments, "outputs"))


def _history(row: Any) -> list[Any]:
    """Return the events of a line of an evaluation's output."""
    events = []
    for entry in items(at(row, "history")):
        # Old versions write pairs of action and observation.
        events.extend(entry if isinstance(entry, list) else [entry])
    return events
