"""Records in memory: as those in a folder, and gone with the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.errors import RecordError
from goalrunner.core.events import NoteAdded, Record, UserSaid
from goalrunner.core.record_ports import Artifacts, Log, Transcript
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, SystemClock
from goalrunner.records.memory_records import (
    MemoryArtifacts,
    MemoryLog,
    MemoryRecords,
    MemoryTranscript,
)
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_records import FolderRecords, RunRecords
from goalrunner.records.run_summaries import RunPlace
from goalrunner.records.transcript_file import TranscriptFile

SECRET = "hunter2-" + "x" * 20


def redactor() -> Redactor:
    return Redactor({"API_KEY": SECRET})


TEXTS = st.sampled_from(["", "plain", f"with {SECRET} in it", "\ud800", "NUL \0", "ö"])


@given(texts=st.lists(TEXTS, min_size=1, max_size=5))
def test_records_are_the_same_as_in_a_file(
    texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    in_memory = MemoryLog(SystemClock(), redactor())
    with EventLog(folder / "events.jsonl", SystemClock(), redactor()) as in_file:
        for text in texts:
            assert _shown(in_memory, text) == _shown(in_file, text)


def _shown(log: Log, text: str) -> tuple[int, dict[str, Any]]:
    record: Record = log.append(UserSaid(text=text))
    log.sync()
    assert SECRET not in record.model_dump_json()
    return record.seq, record.event.model_dump()


@given(texts=st.lists(TEXTS, min_size=1, max_size=5))
def test_messages_and_outputs_are_read_back_without_secrets(
    texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("files")
    transcripts: list[Transcript] = [
        MemoryTranscript(redactor()),
        TranscriptFile(folder / "transcript.jsonl", redactor()),
    ]
    stores: list[Artifacts] = [
        MemoryArtifacts(redactor()),
        ArtifactStore(folder / "artifacts", redactor()),
    ]
    for text in texts:
        message = {"role": "user", "content": text}
        read = [one.read(one.append(message)) for one in transcripts]
        assert read[0] == read[1]
        assert SECRET not in json.dumps(read[0])
        data = text.encode(errors="replace")
        refs = [store.put(data) for store in stores]
        assert refs[0] == refs[1]
        assert stores[0].read(refs[0]) == stores[1].read(refs[1])
        assert stores[0].ends(refs[0], 3) == stores[1].ends(refs[1], 3)


def test_a_file_is_taken_over_and_a_link_is_not(tmp_path: Path) -> None:
    store = MemoryArtifacts(redactor())
    path, link = tmp_path / "output", tmp_path / "link"
    path.write_text(f"key {SECRET}")
    link.symlink_to(path)
    with pytest.raises(RecordError, match="cannot take over"):
        store.adopt(link)
    assert store.read(store.adopt(path)) == b"key [redacted:API_KEY]"
    assert not path.exists()


def test_an_output_that_was_never_stored_is_an_error() -> None:
    ref = MemoryArtifacts(redactor()).put(b"elsewhere")
    with pytest.raises(RecordError, match="there is no output"):
        MemoryArtifacts(redactor()).read(ref)


def test_the_time_of_a_pause_is_not_active() -> None:
    log = MemoryLog(SystemClock(), redactor())
    with log.paused():
        elapsed = log.elapsed
        assert log.append(NoteAdded(note="x")).elapsed == round(elapsed, 6)


def test_temporary_files_end_with_the_records(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "run")
    place = RunPlace("/work", "")
    both: list[RunRecords] = [
        MemoryRecords(redactor()),
        FolderRecords(folder, redactor(), place),
    ]
    for records in both:
        path = records.scratch(".txt")
        path.write_text("x")
        assert path.suffix == ".txt"
        records.close()
        assert not path.exists()
        records.close()


def test_a_traceback_outlives_the_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_memory = MemoryRecords(redactor())
    assert "the logger" in in_memory.store_traceback("Traceback: oops")
    assert "Traceback: oops" in caplog.text
    folder = RunFolder.create(tmp_path, "run")
    in_folder = FolderRecords(folder, redactor(), RunPlace("/work", ""))
    where = in_folder.store_traceback("Traceback: oops")
    in_folder.close()
    path = Path(where.removeprefix("the traceback is in "))
    assert path.read_text() == "Traceback: oops"


def test_a_traceback_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "run")
    records = FolderRecords(folder, redactor(), RunPlace("/work", ""))
    folder.scratch.rmdir()
    folder.scratch.symlink_to(tmp_path / "nowhere" / "else")
    assert "could not be written" in records.store_traceback("oops")
    records.close()
