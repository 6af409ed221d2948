"""The reader of spans of OpenTelemetry with the attributes of generative AI.

https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from goalrunner.core.messages import at, block_text, items, parsed, text
from goalrunner.transcripts.row_reader import RowReader

_OPERATION = "gen_ai.operation.name"
_TOOL = "execute_tool"
_AGENTS = ("invoke_agent", "create_agent")
_ERROR = (2, "STATUS_CODE_ERROR")
_MOST_AGENTS = 100
"""How deep agents may be nested; a damaged file may have a circle of parents."""


@dataclass(frozen=True)
class _Span:
    id: str
    parent: str
    began: int
    attributes: dict[str, Any]
    failed: bool

    @property
    def operation(self) -> str:
        return text(self.attributes.get(_OPERATION))


class OpenTelemetryReader(RowReader):
    """Spans in OTLP JSON: a document, or one on each line.

    Calls of tools in the spans of a sub-agent, and their results, are claims.
    """

    DESCRIPTION = "OpenTelemetry spans with gen_ai attributes: OTLP JSON"
    reporter = "opentelemetry"

    def __init__(self) -> None:
        super().__init__()
        self._spans: list[_Span] = []
        self._known_texts: set[tuple[str, str]] = set()
        """Role and text: each span repeats the messages of the earlier ones."""
        self._results: set[str] = set()
        """Ids of calls whose results were added."""

    def is_typical(self, row: dict[str, Any]) -> bool:
        return isinstance(row.get("resourceSpans"), list)

    def is_valid(self, row: Any) -> bool:
        return isinstance(at(row, "resourceSpans"), list)

    def add(self, row: Any) -> None:
        for resource in items(row["resourceSpans"]):
            for scope in items(at(resource, "scopeSpans")):
                self._spans += map(_span_of, items(at(scope, "spans")))

    def end(self) -> None:
        # A span is exported when it ends, its parent after it.
        self._spans.sort(key=lambda span: span.began)
        by_id = {span.id: span for span in self._spans}
        for number, span in enumerate(self._spans):
            is_inner = _agents_above(span, by_id) > 1
            if span.operation == _TOOL:
                self._add_tool(span, str(number), is_inner=is_inner)
            elif _OPERATION in span.attributes:
                self._add_messages(span, is_inner=is_inner)

    def _add_tool(self, span: _Span, number: str, *, is_inner: bool) -> None:
        attributes = span.attributes
        identifier = text(attributes.get("gen_ai.tool.call.id")) or f"span-{number}"
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

    def _add_messages(self, span: _Span, *, is_inner: bool) -> None:
        for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
            for message in _list_in(span.attributes.get(name)):
                role = text(at(message, "role"))
                for part in items(at(message, "parts")):
                    self._add_part(role, part, is_inner=is_inner)

    def _add_part(self, role: str, part: Any, *, is_inner: bool) -> None:
        kind = at(part, "type")
        if kind == "tool_call_response":
            self._add_response(part, is_inner=is_inner)
        elif kind == "text":
            words = block_text(at(part, "content"))
            if (role, words) in self._known_texts:
                return
            self._known_texts.add((role, words))
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


def _span_of(span: Any) -> _Span:
    attributes = _attributes(span)
    # Newer programs write the messages into an event of the span.
    for event in items(at(span, "events")):
        attributes |= _attributes(event)
    began = text(at(span, "startTimeUnixNano"))
    return _Span(
        id=text(at(span, "spanId")),
        parent=text(at(span, "parentSpanId")),
        began=int(began) if began.isdecimal() and began.isascii() else 0,
        attributes=attributes,
        failed=at(span, "status", "code") in _ERROR,
    )


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
