"""Outputs are kept whole, by hash, without secrets, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalrunner.core.errors import RecordError
from goalrunner.core.observation import ArtifactRef, TranscriptRef
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.redaction import Redactor
from goalrunner.records.transcript_file import TranscriptFile, read_message
from tests.support.logs import read_messages

SECRET = "hunter2hunter2"


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts", Redactor({"MY_TOKEN": SECRET}))


def files(store: ArtifactStore, tmp_path: Path) -> list[str]:
    return sorted(
        str(path.relative_to(tmp_path))
        for path in (tmp_path / "artifacts").rglob("*")
        if path.is_file()
    )


def test_bytes_are_kept_under_their_hash(store: ArtifactStore, tmp_path: Path) -> None:
    ref = store.put(b"4 passed\n\xff")

    digest = hashlib.sha256(b"4 passed\n\xff").hexdigest()
    assert ref == ArtifactRef(sha256=digest, size=10)
    assert store.path(ref) == tmp_path / "artifacts" / digest[:2] / digest
    assert store.read(ref) == b"4 passed\n\xff"
    assert stat.S_IMODE(store.path(ref).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "artifacts").stat().st_mode) == 0o700


def test_the_same_bytes_twice_are_one_file(
    store: ArtifactStore, tmp_path: Path
) -> None:
    assert store.put(b"same") == store.put(b"same")

    assert len(files(store, tmp_path)) == 1


def test_nothing_at_all_can_be_kept(store: ArtifactStore) -> None:
    assert store.read(store.put(b"")) == b""


def test_secrets_are_replaced_before_the_hash_is_taken(store: ArtifactStore) -> None:
    ref = store.put(f"token={SECRET}".encode())

    assert store.read(ref) == b"token=[redacted:MY_TOKEN]"
    assert ref.sha256 == hashlib.sha256(b"token=[redacted:MY_TOKEN]").hexdigest()


def test_a_file_is_taken_over(store: ArtifactStore, tmp_path: Path) -> None:
    source = tmp_path / "output"
    source.write_bytes(b"whole output")

    ref = store.adopt(source)

    assert store.read(ref) == b"whole output"
    assert not source.exists()


@pytest.mark.bench
def test_a_big_file_is_taken_over_with_little_memory(
    store: ArtifactStore, tmp_path: Path
) -> None:
    source = tmp_path / "output"
    line = b"x" * 999 + b"\n"
    with source.open("wb") as file:
        for _ in range(30):
            file.write(
                line * 1048 + b"x" * (576 - 7) + SECRET.encode() + b"y" * (1000 - 583)
            )  # across each 2^20
    tracemalloc.start()

    ref = store.adopt(source)

    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    stored = store.read(ref)
    assert stored.count(b"[redacted:MY_TOKEN]") == 30
    assert SECRET.encode() not in stored


def test_a_damaged_file_is_an_error_and_is_written_anew(store: ArtifactStore) -> None:
    ref = store.put(b"true words")
    store.path(ref).write_bytes(b"false word")

    with pytest.raises(RecordError, match=f"artifact .*{ref.sha256} is damaged"):
        store.read(ref)
    assert store.read(store.put(b"true words")) == b"true words"


def test_a_missing_file_is_an_error(store: ArtifactStore) -> None:
    with pytest.raises(RecordError, match="cannot be read: No such file"):
        store.read(ArtifactRef(sha256="0" * 64, size=1))


def test_only_a_regular_file_is_taken_over(
    store: ArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("not yours")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")

    for name in ("link", "pipe", "missing"):
        with pytest.raises(RecordError):
            store.adopt(tmp_path / name)

    assert files(store, tmp_path) == []
    assert (tmp_path / "secret").exists()


def test_a_full_disk_leaves_nothing_behind(
    store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, data: memoryview) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)

    with pytest.raises(RecordError, match="No space left on device"):
        store.put(b"much")

    assert files(store, tmp_path) == []


def test_a_short_write_is_continued(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(
        os, "write", lambda handle, data: write(handle, bytes(data[:3]))
    )

    assert store.read(store.put(b"all of it")) == b"all of it"


def test_once_it_is_hurried_the_rest_of_a_file_is_left_out(
    store: ArtifactStore, tmp_path: Path
) -> None:
    source = tmp_path / "output"
    line = f"token={SECRET} and so on, and on\n".encode()
    source.write_bytes(b"first line\n" + line * 200_000)
    looks = iter([False])

    ref = store.adopt(source, lambda: next(looks, True))

    stored = store.read(ref)
    assert not source.exists()
    assert stored.startswith(b"first line\n")
    assert stored.endswith(
        b"bytes and more left out because the run was interrupted ...]\n"
    )
    assert 1_000_000 < len(stored) < 3_000_000
    assert stored.count(b"token=[redacted:MY_TOKEN] and so on, and on") > 1_000
    assert SECRET.encode() not in stored


@pytest.mark.parametrize("known", ["a key by its form", "a value of the environment"])
def test_no_secret_of_several_lines_is_cut_in_two(tmp_path: Path, known: str) -> None:
    body = "".join(
        f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC{number:04}\n"
        for number in range(26)
    )
    edge = (
        "PRIVATE KEY-----\n" if known == "a key by its form" else "PASSPHRASES-----\n"
    )
    secret = f"-----BEGIN {edge}{body}-----END {edge}"
    store = ArtifactStore(
        tmp_path / "artifacts",
        Redactor({"MY_TOKEN": secret} if "value" in known else {}),
    )
    size, end = 5 << 20, 1 << 20
    place = end - len(secret) // 2
    data = bytearray(b"x" * 99 + b"\n") * (size // 100 + 1)
    data[place - 1 : place + len(secret)] = f"\n{secret}".encode()
    source = tmp_path / "output"
    source.write_bytes(data[:size])

    stored = store.read(store.adopt(source, lambda: True))

    assert [line for line in body.splitlines() if line.encode() in stored] == []
    assert len(stored) > end - 300_000


def test_a_short_file_is_kept_whole_whatever_the_hurry(
    store: ArtifactStore, tmp_path: Path
) -> None:
    source = tmp_path / "output"
    source.write_bytes(b"x" * 999_999 + b"\n")

    assert store.adopt(source, lambda: True).size == 1_000_000


@pytest.mark.bench
def test_large_bytes_are_kept_in_little_memory(store: ArtifactStore) -> None:
    data = b"a line of text\n" * 1_000_000
    tracemalloc.start()
    try:
        ref = store.put(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ref.size == len(data)
    assert peak < len(data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "transcript.jsonl"


@pytest.fixture
def transcript(path: Path) -> TranscriptFile:
    return TranscriptFile(path, Redactor({"MY_TOKEN": "hunter2hunter2"}))


def test_a_message_is_read_back_by_its_reference(
    transcript: TranscriptFile, path: Path
) -> None:
    transcript.append({"role": "user", "content": "Make it so.\u2028"})
    message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_1", "function": {"name": "shell"}}],
    }

    ref = transcript.append(message)

    assert (ref.offset, ref.length) == (46, 92)
    assert transcript.read(ref) == message
    assert read_message(path, ref) == message
    assert [one["role"] for one in read_messages(path)] == ["user", "assistant"]


def test_secrets_are_replaced_in_tool_arguments_too(transcript: TranscriptFile) -> None:
    arguments = json.dumps({"command": "curl hunter2hunter2"})

    ref = transcript.append(
        {"role": "assistant", "tool_calls": [{"function": {"arguments": arguments}}]}
    )

    arguments_read = transcript.read(ref)["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments_read) == {"command": "curl [redacted:MY_TOKEN]"}


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
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(), inner, max_size=3)
                ),
                max_leaves=5,
            ),
            max_size=4,
        ),
        max_size=4,
    )
)
def test_any_messages_survive(
    tmp_path: Path, quick_disk: None, messages: list[dict[str, Any]]
) -> None:
    path = tmp_path / "any.jsonl"
    path.unlink(missing_ok=True)
    with closing(TranscriptFile(path, Redactor({}))) as transcript:
        refs = [transcript.append(message) for message in messages]
        assert [transcript.read(ref) for ref in refs] == messages

    assert read_messages(path) == messages


def test_lone_surrogates_are_replaced(transcript: TranscriptFile) -> None:
    assert transcript.read(transcript.append({"content": "a\ud800b"})) == {
        "content": "a\ufffdb"
    }


def test_what_is_not_what_was_written_is_an_error(
    transcript: TranscriptFile, path: Path
) -> None:
    ref = transcript.append({"role": "user", "content": "yes"})
    path.write_bytes(path.read_bytes().replace(b"yes", b"no!"))

    for read in (transcript.read, lambda ref: read_message(path, ref)):
        with pytest.raises(
            RecordError,
            match=f"{path}: the message at byte 0 differs from what was recorded",
        ):
            read(ref)


def test_a_reference_beyond_the_end_is_an_error(transcript: TranscriptFile) -> None:
    with pytest.raises(
        RecordError, match="the message at byte 1000 differs from what was recorded"
    ):
        transcript.read(TranscriptRef(offset=1000, length=5, sha256="0" * 64))


def test_what_json_cannot_say_is_an_error_and_leaves_no_line(
    transcript: TranscriptFile, path: Path
) -> None:
    for value in (float("nan"), {1, 2}):
        with pytest.raises(RecordError, match="cannot write a record"):
            transcript.append({"content": value})

    assert path.read_bytes() == b""


def test_a_torn_tail_is_cut_and_the_transcript_goes_on(
    transcript: TranscriptFile, path: Path
) -> None:
    transcript.append({"content": "one"})
    transcript.close()
    with path.open("ab") as file:
        file.write(b'{"content": "tw')
    assert read_messages(path) == [{"content": "one"}]

    with closing(TranscriptFile(path, Redactor({}))) as again:
        ref = again.append({"content": "three"})
        assert again.read(ref) == {"content": "three"}

    assert read_messages(path) == [{"content": "one"}, {"content": "three"}]
