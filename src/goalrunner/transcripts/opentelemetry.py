"""The reader of spans of OpenTelemetry with the attributes of generative AI.

https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from sys import intern
from typing import Any

from goalrunner.core.messages import at, block_text, items, parsed, text
from goalrunner.transcripts.json_elements import grouped_parts
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.text_store import TextStore

_OPERATION = "gen_ai.operation.name"
_TOOL = "execute_tool"
_AGENTS = ("invoke_agent", "create_agent")
_ERROR = (2, "STATUS_CODE_ERROR")
_MOST_AGENTS = 100
"""How deep agents may be nested; a damaged file may have a circle of parents."""


@dataclass(frozen=True, slots=True)
class _Span:
    """A span; its attributes are kept elsewhere."""

    id: str
    parent: str
    began: int
    operation: str
    failed: bool
    attributes: int
    """The number of their JSON in the store."""


class OpenTelemetryReader(RowReader):
    """Spans in OTLP JSON: a document, or one on each line.

    Calls of tools in the spans of a sub-agent, and their results, are claims.
    """

    DESCRIPTION = "OpenTelemetry spans with gen_ai attributes: OTLP JSON"
    reporter = "opentelemetry"
    keys = frozenset({"", "spans"})

    def __init__(self) -> None:
        super().__init__()
        self._store = TextStore()
        self._spans: list[_Span] = []
        self._known_texts: set[bytes] = set()
        """Hashes of role and text: each span repeats the earlier messages."""
        self._results: set[str] = set()
        """Ids of calls whose results were added."""

    def is_typical(self, row: dict[str, Any]) -> bool:
        if isinstance(row.get("resourceSpans"), list):
            return True
        return "spanId" in row and isinstance(row.get("attributes"), list)

    def is_valid(self, row: Any) -> bool:
        # A span without attributes may lack the member.
        is_span = isinstance(at(row, "spanId"), str)
        return is_span or isinstance(at(row, "resourceSpans"), list)

    def add(self, row: Any) -> None:
        if "resourceSpans" not in row:
            self._add_span(row)
            return
        for part in grouped_parts(row):
            if part.key == "spans":
                self._add_span(part.value)

    def _add_span(self, span: Any) -> None:
        attributes = _attributes(span)
        # Newer programs write the messages into an event of the span.
        for event in items(at(span, "events")):
            attributes |= _attributes(event)
        operation = text(attributes.get(_OPERATION))
        # A 64-bit number is a text in JSON of protocol buffers; some write a number.
        began = str(at(span, "startTimeUnixNano"))
        self._spans.append(
            _Span(
                id=text(at(span, "spanId")),
                # Spans share their parents and operations.
                parent=intern(text(at(span, "parentSpanId"))),
                began=int(began) if began.isdecimal() and began.isascii() else 0,
                operation=intern(operation),
                failed=at(span, "status", "code") in _ERROR,
                attributes=self._store.add(json.dumps(attributes)),
            )
        )

    def end(self) -> None:
        # A span is exported when it ends, its parent after it.
        self._spans.sort(key=lambda span: span.began)
        by_id = {span.id: span for span in self._spans}
        for number, span in enumerate(self._spans):
            if not span.operation:
                continue
            is_inner = _agents_above(span, by_id) > 1
            attributes = json.loads(self._store.read(span.attributes))
            if span.operation == _TOOL:
                identifier = text(attributes.get("gen_ai.tool.call.id"))
                identifier = identifier or f"span-{number}"
                self._add_tool(identifier, span, attributes, is_inner=is_inner)
            else:
                self._add_messages(attributes, is_inner=is_inner)

    def _add_tool(
        self, identifier: str, span: _Span, attributes: Any, *, is_inner: bool
    ) -> None:
        tool = text(attributes.get("gen_ai.tool.name"))
        arguments = parsed(attributes.get("gen_ai.tool.call.arguments")) or {}
        self.trail.called(identifier, tool, arguments, summary=is_inner)
        result = attributes.get("gen_ai.tool.call.result")
        # Programs record the content of calls only on request.
        if result is None and not span.failed:
            return
        self._results.add(identifier)
        facts = ("error",) if span.failed else ()
        self.trail.result(identifier, block_text(result), facts)

    def _add_messages(self, attributes: Any, *, is_inner: bool) -> None:
        for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
            for message in _list_in(attributes.get(name)):
                role = text(at(message, "role"))
                for part in items(at(message, "parts")):
                    self._add_part(role, part, is_inner=is_inner)

    def _add_part(self, role: str, part: Any, *, is_inner: bool) -> None:
        kind = at(part, "type")
        if kind == "tool_call_response":
            self._add_response(part, is_inner=is_inner)
        elif kind == "text":
            words = block_text(at(part, "content"))
            message = f"{role}\n{words}".encode(errors="replace")
            digest = hashlib.sha256(message).digest()
            if digest in self._known_texts:
                return
            self._known_texts.add(digest)
            if role == "user" and not is_inner:
                self.trail.user(words)
            elif role == "assistant":
                self.trail.claimed(words, summary=is_inner)

    def _add_response(self, part: dict[str, Any], *, is_inner: bool) -> None:
        """Add a result of a call without a span of its own."""
        identifier = text(part.get("id"))
        if identifier in self._results:
            return
        self._results.add(identifier)
        output = block_text(part.get("response", part.get("result")))
        if is_inner:
            self.trail.claimed(output, summary=True)
        else:
            self.trail.result(identifier, output)


def _attributes(element: Any) -> dict[str, Any]:
    """Return the attributes of a span or event by their names."""
    return {
        text(at(pair, "key")): _value(at(pair, "value"))
        for pair in items(at(element, "attributes"))
    }


def _value(value: Any) -> Any:
    """Return a value, which is in a member that is named for its type."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [_value(element) for element in items(at(inner, "values"))]
    if kind == "kvlistValue":
        pairs = items(at(inner, "values"))
        return {text(at(pair, "key")): _value(at(pair, "value")) for pair in pairs}
    return inner


def _list_in(value: Any) -> list[Any]:
    """Return a list that may be written as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    return items(value)


def _agents_above(span: _Span, by_id: dict[str, _Span]) -> int:
    """Return how many agents a span is in, itself included."""
    count = 0
    current: _Span | None = span
    for _ in range(_MOST_AGENTS):
        if current is None:
            break
        count += current.operation in _AGENTS
        current = by_id.get(current.parent)
    return count
