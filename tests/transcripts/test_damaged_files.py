"""Files that were damaged at random, and random JSON: each reader returns a trail or raises its error, and ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Claim, Observation
from goalrunner.transcripts import read_transcript
from tests.transcripts.sessions import ALL_SESSIONS, SESSIONS, Session

NAMES = sorted(SESSIONS)
FORMATS = [*NAMES, "aider", "cursor"]
AIDER = Path(__file__).with_name("samples") / "aider-commands.md"
TEXTS = [session.text for session in ALL_SESSIONS]
KEYS = sorted(
    """
    type role content message messages id uuid sessionId payload kind source action observation args extras toolCalls
    result parts functionCall functionResponse response name arguments call_id tool_call_id output input trajectory state
    steps results tool_calls agent schema_version sessionUpdate toolCallId status rawInput rawOutput locations update params
    uuid parentUuid logicalParentUuid isSidechain agentId toolUseResult parent_tool_use_id session_id item part sessionID
    tool_call call_id data toolRequests toolName success conversation toolRequest toolResponse toolResult value working_dir
    resourceSpans scopeSpans spans attributes key stringValue parentSpanId spanId events messages values kwargs toolInvocation
    method $set $rewindTo text tool_call thought llm_message extra info history cause command path file_path
    """.split()
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [
            "user",
            "assistant",
            "tool",
            "agent",
            "run",
            "function_call",
            "tool_result",
            "\ud800",
            "shell",
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, texts: list[str] = TEXTS) -> bytes:
    """The bytes of a session of which parts are removed, doubled or replaced."""
    data = draw(st.sampled_from(texts)).encode()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.sampled_from([0, 1, 5, 50, 500])))
        piece = draw(
            st.sampled_from(
                [
                    b"",
                    b"\0",
                    b"\xff",
                    b'"',
                    b"{",
                    b"}",
                    b"[",
                    b"]",
                    b"\n",
                    b",",
                    b"null",
                    data[at:end] * 2,
                ]
            )
        )
        data = data[:at] + piece + data[end:]
    return data


@st.composite
def rewritten(draw: st.DrawFn, texts: list[str] = TEXTS) -> bytes:
    """A session of which values at random places have other values, so that it stays JSON."""
    text = draw(st.sampled_from(texts))
    lines = text.count("\n{") > 2 and not text.startswith(("{\n", "["))
    rows: Any = (
        [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
    )
    for _ in range(draw(st.integers(1, 6))):
        place: Any = rows
        while isinstance(place, dict | list) and place:
            key = (
                draw(st.sampled_from(sorted(place)))
                if isinstance(place, dict)
                else draw(st.integers(0, len(place) - 1))
            )
            if (
                not isinstance(place[key], dict | list)
                or not place[key]
                or draw(st.integers(0, 5)) == 0
            ):
                place[key] = draw(VALUES)
                break
            place = place[key]
    return (
        "\n".join(map(json.dumps, rows)).encode()
        if lines
        else json.dumps(rows).encode()
    )


def damaged_session(session: Session) -> st.SearchStrategy[bytes]:
    """A session of one format with other values, or with damage."""
    return st.one_of(damaged([session.text]), rewritten([session.text]))


DOCUMENTS = VALUES.map(json.dumps).map(str.encode)
ROWS = st.lists(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6).map(json.dumps),
    max_size=5,
)


@pytest.mark.slow
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    data=st.one_of(
        damaged(),
        rewritten(),
        DOCUMENTS,
        ROWS.map("\n".join).map(str.encode),
        st.binary(max_size=60),
        damaged([AIDER.read_text(encoding="utf-8")]),
    ),
    name=st.sampled_from([None, *FORMATS]),
)
def test_a_reader_returns_a_trail_or_its_error(
    tmp_path: Path, data: bytes, name: str | None
) -> None:
    returns_a_trail_or_an_error(tmp_path, data, name)


@pytest.mark.slow
@pytest.mark.parametrize("session", ALL_SESSIONS, ids=lambda session: session.path.name)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(choice=st.data())
def test_the_reader_of_a_format_returns_a_trail_or_its_error(
    tmp_path: Path, session: Session, choice: st.DataObject
) -> None:
    data = choice.draw(damaged_session(session))
    returns_a_trail_or_an_error(tmp_path, data, session.format)


def returns_a_trail_or_an_error(tmp_path: Path, data: bytes, name: str | None) -> None:
    path = tmp_path / "transcript"
    path.write_bytes(data)
    try:
        trail = read_transcript(path, format=name)
    except UsageError as error:
        message = error.message
    else:
        message = ""
    if message:
        assert message.startswith(str(path))
        assert "\n" not in message
        return
    assert trail.items
    for item in trail.items:
        assert isinstance(item, Observation | Claim)
        trail.read(item).encode()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_session_that_is_cut_anywhere_shows_nothing_that_the_whole_one_does_not(
    name: str, tmp_path: Path
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    text = SESSIONS[name].text
    whole.write_text(text)
    whole_outputs = _outputs(whole, name)
    for end in range(0, len(text) - 2, max(1, len(text) // 60)):
        cut.write_text(text[:end])
        try:
            trail = read_transcript(cut, format=name)
        except UsageError:
            continue
        assert _outputs(cut, name) == whole_outputs[: len(_outputs(cut, name))]
        assert (
            trail.partial
            or text[:end].endswith("}")
            or text[end : end + 1] == "\n"
            or text[end - 1] == "\n"
        )


def _outputs(path: Path, name: str) -> list[str]:
    trail = read_transcript(path, format=name)
    return [trail.read(item) for item in trail.items if isinstance(item, Observation)]


def test_a_part_of_a_transcript_without_parts_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(SESSIONS["openai-chat"].text)
    with pytest.raises(UsageError, match="so #2 names none"):
        read_transcript(f"{tmp_path}/chat.json#2")
