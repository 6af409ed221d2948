"""Messages are written whole and read back by place, length and hash."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalrunner.core.errors import RecordError
from goalrunner.core.observation import TranscriptRef
from goalrunner.records.artifacts import TranscriptFile, read_message
from goalrunner.records.redaction import Redactor
from tests.support.logs import read_messages


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "transcript.jsonl"


@pytest.fixture
def transcript(path: Path) -> TranscriptFile:
    return TranscriptFile(path, Redactor({"MY_TOKEN": "hunter2hunter2"}))


def test_a_message_is_read_back_by_its_reference(transcript: TranscriptFile, path: Path) -> None:
    transcript.append({"role": "user", "content": "Make it so.\u2028"})
    message = {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "function": {"name": "shell"}}]}

    ref = transcript.append(message)

    assert (ref.offset, ref.length) == (46, 92)
    assert transcript.read(ref) == message
    assert read_message(path, ref) == message
    assert [one["role"] for one in read_messages(path)] == ["user", "assistant"]


def test_secrets_are_replaced_in_tool_arguments_too(transcript: TranscriptFile) -> None:
    arguments = json.dumps({"command": "curl hunter2hunter2"})

    ref = transcript.append({"role": "assistant", "tool_calls": [{"function": {"arguments": arguments}}]})

    kept = transcript.read(ref)["tool_calls"][0]["function"]["arguments"]
    assert json.loads(kept) == {"command": "curl [redacted:MY_TOKEN]"}


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is flushed: many examples, and what they show is not durability."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    messages=st.lists(
        st.dictionaries(
            st.text(),
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers()
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
                max_leaves=5,
            ),
            max_size=4,
        ),
        max_size=4,
    )
)
def test_any_messages_survive(tmp_path: Path, quick_disk: None, messages: list[dict[str, Any]]) -> None:
    path = tmp_path / "any.jsonl"
    path.unlink(missing_ok=True)
    with TranscriptFile(path, Redactor({})) as transcript:
        refs = [transcript.append(message) for message in messages]
        assert [transcript.read(ref) for ref in refs] == messages

    assert read_messages(path) == messages


def test_lone_surrogates_are_replaced(transcript: TranscriptFile) -> None:
    assert transcript.read(transcript.append({"content": "a\ud800b"})) == {"content": "a\ufffdb"}


def test_what_is_not_what_was_written_is_an_error(transcript: TranscriptFile, path: Path) -> None:
    ref = transcript.append({"role": "user", "content": "yes"})
    path.write_bytes(path.read_bytes().replace(b"yes", b"no!"))

    for read in (transcript.read, lambda ref: read_message(path, ref)):
        with pytest.raises(RecordError, match=f"{path}: the message at byte 0 differs from what was recorded"):
            read(ref)


def test_a_reference_beyond_the_end_is_an_error(transcript: TranscriptFile) -> None:
    with pytest.raises(RecordError, match="the message at byte 1000 differs from what was recorded"):
        transcript.read(TranscriptRef(offset=1000, length=5, sha256="0" * 64))


def test_what_json_cannot_say_is_an_error_and_leaves_no_line(transcript: TranscriptFile, path: Path) -> None:
    for value in (float("nan"), {1, 2}):
        with pytest.raises(RecordError, match="cannot write a record"):
            transcript.append({"content": value})

    assert path.read_bytes() == b""


def test_a_torn_tail_is_cut_and_the_transcript_goes_on(transcript: TranscriptFile, path: Path) -> None:
    transcript.append({"content": "one"})
    transcript.close()
    with path.open("ab") as file:
        file.write(b'{"content": "tw')
    assert read_messages(path) == [{"content": "one"}]

    with TranscriptFile(path, Redactor({})) as again:
        ref = again.append({"content": "three"})
        assert again.read(ref) == {"content": "three"}

    assert read_messages(path) == [{"content": "one"}, {"content": "three"}]


@pytest.mark.parametrize("line", [b"nonsense", b"[]", b"", b"\xff"])
def test_a_damaged_line_is_an_error(path: Path, line: bytes) -> None:
    path.write_bytes(b"{}\n" + line + b"\n")
    ref = TranscriptRef(offset=3, length=len(line), sha256=hashlib.sha256(line).hexdigest())

    with pytest.raises(RecordError, match="the message at byte 3 is damaged"):
        read_message(path, ref)
