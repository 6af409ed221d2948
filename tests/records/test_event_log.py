"""What was appended is read back; nothing that was appended is ever lost or changed in silence."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalrunner.core.errors import RecordError
from goalrunner.core.events import RECORD, Event
from goalrunner.records.event_log import (
    EventLog,
    LogEnd,
    _schema_words,
    read_end,
    read_records,
)
from goalrunner.records.redaction import Redactor
from goalrunner.records.writer_lock import has_writer
from tests.support.clocks import SteppingClock
from tests.support.events import any_event, tool_called

SECRET = "hunter2hunter2"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def opened(
    path: Path, clock: SteppingClock | None = None, start: LogEnd | None = None
) -> EventLog:
    return EventLog(
        path, clock or SteppingClock(), Redactor({"MY_TOKEN": SECRET}), start
    )


def test_a_record_is_one_line_of_ascii_json(path: Path) -> None:
    with opened(path) as log:
        log.append(tool_called("grün\u2028\x85\n"))

    assert path.read_bytes() == (
        b'{"v":"1.8","seq":1,"at":"2026-11-21T12:00:00.000+00:00","elapsed":0.0,"p":"e3b0c44298fc1c14",'
        b'"event":{"type":"tool_called","tool_call_id":"call_1","tool":"shell","summary":"gr\\u00fcn\\u2028\\u0085\\n"}}\n'
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_time_that_a_person_takes_is_no_active_time(path: Path) -> None:
    clock = SteppingClock()
    with opened(path, clock) as log:
        clock.advance(2)
        with log.paused():
            clock.advance(1000)
            assert log.append(tool_called()).elapsed == 2
        clock.advance(3)
        assert log.elapsed == 5


def test_places_and_active_time_continue_after_a_pause(path: Path) -> None:
    clock = SteppingClock()
    with opened(path, clock) as log:
        clock.advance(2)
        log.append(tool_called())
    clock.advance(1000)

    with opened(path, clock) as log:
        assert log.elapsed == 2
        clock.advance(3)
        record = log.append(tool_called())

    assert (record.seq, record.elapsed, record.at) == (
        2,
        5.0,
        "2026-11-21T12:16:45.000+00:00",
    )


def test_a_reader_may_hand_over_the_end_that_it_found(path: Path) -> None:
    with opened(path) as log:
        log.append(tool_called())
    end = read_end(path)

    with opened(path, start=end) as log:
        assert log.append(tool_called()).seq == 2

    with pytest.raises(
        RecordError, match="it ends at byte 372, and was read to byte 186"
    ):
        opened(path, start=end)


def test_secrets_are_replaced_and_the_returned_record_is_the_written_one(
    path: Path,
) -> None:
    with opened(path) as log:
        record = log.append(tool_called(f"curl -H {SECRET}"))

    assert record.event == tool_called("curl -H [redacted:MY_TOKEN]")
    assert list(read_records(path)) == [record]
    assert SECRET.encode() not in path.read_bytes()


def test_the_schemas_own_words_are_no_secrets(path: Path) -> None:
    log = EventLog(
        path,
        SteppingClock(),
        Redactor({"A_TOKEN": "tool_called", "B_TOKEN": "tool_call_id"}),
    )

    record = log.append(tool_called("the tool_called event"))
    log.close()

    assert record.event == tool_called("the [redacted:A_TOKEN] event")
    assert list(read_records(path)) == [record]


def test_the_words_that_no_secret_replaces_are_those_of_the_json_schema() -> None:
    words: set[str] = set()
    waiting: list[Any] = [RECORD.json_schema()]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found = (
                *node.get("properties", ()),
                node.get("const"),
                *node.get("enum", ()),
            )
            words.update(word for word in found if isinstance(word, str))
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    assert _schema_words() == words


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is flushed: many examples, and what they show is not durability."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(events=st.lists(any_event, max_size=5), splits=st.sets(st.integers(0, 5)))
def test_any_events_survive_in_their_order(
    tmp_path: Path, quick_disk: None, events: list[Event], splits: set[int]
) -> None:
    path = tmp_path / "events.jsonl"
    path.unlink(missing_ok=True)
    log = opened(path)
    records = []
    for place, event in enumerate(events):
        if place in splits:
            log.close()
            log = opened(path)
        records.append(log.append(event))
    log.close()

    assert list(read_records(path)) == records
    assert [record.seq for record in records] == list(range(1, len(events) + 1))
    for record, event in zip(records, events, strict=True):
        if "\\ud" not in json.dumps(event.model_dump(mode="python")):
            assert record.event == event


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(events=st.lists(any_event, min_size=1, max_size=3), data=st.data())
def test_a_file_that_is_cut_anywhere_gives_its_beginning_and_goes_on(
    tmp_path: Path, quick_disk: None, events: list[Event], data: st.DataObject
) -> None:
    path = tmp_path / "events.jsonl"
    path.unlink(missing_ok=True)
    with opened(path) as log:
        records = [log.append(event) for event in events]
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    lines = whole[:cut].count(b"\n")
    assert list(read_records(path)) == records[:lines]

    with opened(path) as log:
        added = log.append(tool_called())
    assert list(read_records(path)) == [*records[:lines], added]


def test_a_torn_tail_is_told_and_cut(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(path) as log:
        log.append(tool_called())
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"v":"1.1","se')

    opened(path).close()

    assert caplog.messages == [
        f"{path}: the last 14 bytes were an incomplete record and are removed"
    ]
    assert path.stat().st_size == size


def test_a_second_writer_is_refused_by_name(path: Path) -> None:
    with opened(path), pytest.raises(RecordError) as refused:
        opened(path)

    assert f"run {path.parent.name} is active (process {os.getpid()} on " in str(
        refused.value
    )
    opened(path).close()


def test_a_second_writer_in_another_process_is_refused_until_the_first_is_dead(
    path: Path,
) -> None:
    script = (
        "import sys, time; from pathlib import Path; from goalrunner.records.event_log import WriterLock\n"
        "lock = WriterLock(Path(sys.argv[1])); print('held', flush=True); time.sleep(100)"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(path.with_suffix(".lock"))],
        env=environ,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RecordError, match=rf"is active \(process {holder.pid} on"):
            opened(path)
        holder.kill()

    with opened(path) as log:
        assert log.append(tool_called()).seq == 1


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_the_lock_or_the_log_is_an_error_that_names_it(
    path: Path,
) -> None:
    lock = path.with_suffix(".lock")
    os.mkfifo(lock)
    with pytest.raises(
        RecordError,
        match=rf"cannot open {re.escape(str(lock))}: it is not a regular file",
    ):
        opened(path)
    assert not has_writer(path)

    lock.unlink()
    os.mkfifo(path)
    with pytest.raises(RecordError, match="it is not a regular file"):
        opened(path)
    with pytest.raises(
        RecordError,
        match=rf"cannot read {re.escape(str(path))}: it is not a regular file",
    ):
        list(read_records(path))


def test_a_full_disk_leaves_what_is_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(path)
    log.append(tool_called("first"))
    before = path.read_bytes()
    write = os.write
    calls = 0

    def full(handle: int, data: memoryview) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return write(handle, bytes(data[:20]))
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(
            RecordError,
            match=r"cannot write .*events.jsonl at byte 182: No space left on device",
        ):
            log.append(tool_called("second"))

    assert path.read_bytes() == before
    assert log.append(tool_called("third")).seq == 2
    log.close()
    assert [record.seq for record in read_records(path)] == [1, 2]


def test_a_vanished_folder_is_an_error(path: Path) -> None:
    log = opened(path)
    shutil.rmtree(path.parent)

    with pytest.raises(
        RecordError, match="it was removed while the run was writing it"
    ):
        log.append(tool_called())
    log.close()


def test_another_hand_in_the_file_is_an_error(path: Path) -> None:
    log = opened(path)
    log.append(tool_called())
    with path.open("ab") as file:
        file.write(b"x")

    with pytest.raises(RecordError, match="another program has changed it"):
        log.append(tool_called())
    log.close()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        RecordError, match=r"cannot open .*/missing/events.lock: No such file"
    ):
        opened(tmp_path / "missing" / "events.jsonl")


def test_a_closed_log_is_closed(path: Path) -> None:
    log = opened(path)
    log.close()
    log.close()

    with pytest.raises(RecordError, match="it is closed"):
        log.append(tool_called())
