"""The order in which a run's files become durable, and how often a run waits for the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner import run_goal
from goalrunner.core.events import MessageRecorded, ToolCalled, UsageRecorded
from goalrunner.core.outcome import Usage
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, read_records
from goalrunner.records.redaction import Redactor
from goalrunner.records.transcript_file import TranscriptFile
from goalrunner.testing import ScriptedConversation
from tests.support.clocks import SteppingClock

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="needs /proc to name open files"
)

CALL = ToolCalled(tool_call_id="call_1", tool="shell", summary="make")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were flushed, in order."""
    names: list[str] = []

    def watched(flush: Callable[[int], None]) -> Callable[[int], None]:
        def call(handle: int) -> None:
            names.append(Path(f"/proc/self/fd/{handle}").readlink().name)
            flush(handle)

        return call

    flush = watched(os.fsync)
    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr("goalrunner.records.files._flush", flush)
    return names


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(tmp_path / "events.jsonl", SteppingClock(), Redactor({}))


@pytest.fixture
def transcript(tmp_path: Path, log: EventLog) -> TranscriptFile:
    return TranscriptFile(tmp_path / "transcript.jsonl", Redactor({}), log)


def record_message(log: EventLog, transcript: TranscriptFile) -> None:
    ref = transcript.append({"role": "assistant", "content": "x"})
    log.append(MessageRecorded(role="assistant", text=ref, has_text=True))
    log.append(UsageRecorded(account="agent", usage=Usage()))


def test_what_is_only_recorded_is_in_the_file_at_once_and_waits_for_no_disk(
    log: EventLog, transcript: TranscriptFile, waits: list[str], tmp_path: Path
) -> None:
    waits.clear()
    record_message(log, transcript)
    assert waits == []
    assert [
        record.event.type for record in read_records(tmp_path / "events.jsonl")
    ] == ["message", "usage_recorded"]


def test_an_intent_waits_once_for_each_file_the_transcript_first(
    log: EventLog, transcript: TranscriptFile, waits: list[str], tmp_path: Path
) -> None:
    waits.clear()
    record_message(log, transcript)
    log.append(CALL)
    log.append(CALL)
    names = tmp_path.name
    assert waits == ["transcript.jsonl", names, "events.jsonl", "events.jsonl"]


def test_the_names_of_new_files_wait_once_with_the_first_event(
    waits: list[str], tmp_path: Path
) -> None:
    log = EventLog(tmp_path / "events.jsonl", SteppingClock(), Redactor({}))
    transcript = TranscriptFile(tmp_path / "transcript.jsonl", Redactor({}), log)
    assert waits == []
    log.append(CALL)
    assert waits == ["events.jsonl", tmp_path.name]
    waits.clear()
    record_message(log, transcript)
    log.append(CALL)
    assert waits == ["transcript.jsonl", "events.jsonl"]


def test_the_name_of_an_old_file_waits_again(waits: list[str], tmp_path: Path) -> None:
    # The process that made it may have been killed before its first wait.
    path = tmp_path / "events.jsonl"
    path.touch()
    with EventLog(path, SteppingClock(), Redactor({})) as log:
        log.append(CALL)
        assert waits[-1] == tmp_path.name


def test_a_call_of_the_library_waits_seldom(own_home: Path, waits: list[str]) -> None:
    answer = ScriptedConversation("yes")
    outcome = run_goal(answer, "Say yes.", validators=[lambda: True])
    assert outcome.passed
    folders = [name for name in waits if "." not in name and len(name) != 64]
    assert waits.count("events.jsonl") == 6
    assert waits.count("transcript.jsonl") == 2
    # That of all runs; its own at the first event and at the end; two for each output.
    assert len(folders) == 3 + 2 * 2
    assert len(waits) <= 20


def test_a_sync_makes_everything_durable_artifacts_before_events(
    log: EventLog, transcript: TranscriptFile, waits: list[str], tmp_path: Path
) -> None:
    artifacts = ArtifactStore(tmp_path / "artifacts", Redactor({}), log)
    log.append(CALL)
    waits.clear()
    ref = artifacts.put(b"output")
    record_message(log, transcript)
    log.sync()
    assert waits[-1] == "events.jsonl"
    assert sorted(waits[:-1]) == sorted(
        ["artifacts", ref.sha256[:2], ref.sha256, "transcript.jsonl"]
    )
    waits.clear()
    log.sync()
    assert waits == []


def test_without_a_log_each_file_waits_by_itself(
    waits: list[str], tmp_path: Path
) -> None:
    transcript = TranscriptFile(tmp_path / "transcript.jsonl", Redactor({}))
    waits.clear()
    transcript.append({"role": "user", "content": "x"})
    assert waits == ["transcript.jsonl", tmp_path.name]
    ref = ArtifactStore(tmp_path / "artifacts", Redactor({})).put(b"output")
    assert set(waits[2:]) == {"artifacts", ref.sha256[:2], ref.sha256}
