"""A large document is read element by element, with the same result as a whole."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalrunner.core.errors import UsageError
from goalrunner.transcripts import json_elements, read_transcript, source
from goalrunner.transcripts.json_elements import JsonPart, grouped_parts, json_parts
from tests.transcripts.sessions import ALL_SESSIONS, SESSIONS, Session

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
DOCUMENTS = st.lists(VALUES) | st.dictionaries(st.text(), VALUES)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_elements, "PIECE", 3)
    monkeypatch.setattr(source, "SMALL_DOCUMENT", 0)


def rebuilt(data: bytes) -> Any:
    """Return the document that its parts make."""
    lists: list[Any] = []
    members: dict[str, Any] = {}
    for part in json_parts(io.BytesIO(data)):
        if not part.is_element:
            members[part.key] = part.value
        elif data.lstrip().startswith(b"["):
            lists.append(part.value)
        else:
            members[part.key] = [*(members[part.key] or []), part.value]
    return lists if data.lstrip().startswith(b"[") else members


def with_none_for_empty_lists(document: Any) -> Any:
    if isinstance(document, list):
        return document
    return {key: None if value == [] else value for key, value in document.items()}


@settings(max_examples=40)
@given(document=DOCUMENTS, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_the_parts_are_those_of_the_document(
    document: Any, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    data = text.encode(errors="replace")
    expected = json.loads(data)
    assert rebuilt(data) == with_none_for_empty_lists(expected)


@settings(max_examples=40)
@given(
    document=DOCUMENTS, cut=st.integers(1, 10), extra=st.sampled_from(["", "]", "x"])
)
def test_what_is_no_document_is_an_error(document: Any, cut: int, extra: str) -> None:
    text = json.dumps(document)
    text = text + extra if extra else text[: max(0, len(text) - cut)]
    with pytest.raises(ValueError):
        list(json_parts(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    "session",
    [session for session in ALL_SESSIONS if session.path.suffix == ".json"],
    ids=lambda session: session.format,
)
def test_a_session_is_the_same_either_way(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_parts = read_transcript(session.path)
    monkeypatch.setattr(source, "SMALL_DOCUMENT", 10**9)
    whole = read_transcript(session.path)
    assert in_parts.format == whole.format == session.format
    assert in_parts.items == whole.items
    assert [in_parts.read(item) for item in in_parts.items] == [
        whole.read(item) for item in whole.items
    ]


def spans_document(groups: int, spans: int) -> dict[str, Any]:
    """Return spans in so many groups, with so many spans in each."""
    group = {"scope": {"name": "x"}, "spans": [{"spanId": "a", "kind": 1}] * spans}
    resource = {"resource": {"attributes": [1]}, "scopeSpans": [group, group]}
    return {"resourceSpans": [resource] * groups}


@pytest.mark.parametrize(("groups", "spans"), [(0, 0), (1, 0), (1, 3), (2, 2)])
def test_the_spans_of_groups_are_the_parts(groups: int, spans: int) -> None:
    document = spans_document(groups, spans)
    expected = [JsonPart({"spanId": "a", "kind": 1}, "spans")] * (2 * groups * spans)
    assert list(grouped_parts(document)) == expected
    parts = json_parts(io.BytesIO(json.dumps(document).encode()))
    assert [part for part in parts if part.is_element] == expected


def test_the_place_of_an_error_is_named(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('[\n{"role": "user", "content": "Go."},\n{"role": \n]')
    with pytest.raises(UsageError) as caught:
        read_transcript(path)
    assert caught.value.message.startswith(f"{path}:4  not valid JSON")


def test_a_long_first_line_is_a_line(tmp_path: Path) -> None:
    lines = SESSIONS["claude-code"].text
    path = tmp_path / "session.jsonl"
    path.write_text(lines)
    # Every line is longer than the limit here, so that none is read as a whole.
    assert read_transcript(path).format == "claude-code"
    assert len(read_transcript(path).items) > 3
