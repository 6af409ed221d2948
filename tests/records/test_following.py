"""A log is read while it is written, and half a line is waited for."""

from __future__ import annotations

from pathlib import Path

from goalrunner.records.event_log import EventLog
from goalrunner.records.reading import follow_records
from goalrunner.records.redaction import Redactor
from tests.support.clocks import SteppingClock
from tests.support.events import tool_called


def test_records_are_given_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventLog(path, SteppingClock(), Redactor({})) as log:
        log.append(tool_called("first"))
        to_come = ["second", "third"]

        def wait() -> bool:
            if not to_come:
                return False
            log.append(tool_called(to_come.pop(0)))
            return True

        assert [record.seq for record in follow_records(path, wait)] == [1, 2, 3]


def test_half_a_line_is_no_record_until_it_is_whole(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.jsonl", tmp_path / "events.jsonl"
    with EventLog(whole, SteppingClock(), Redactor({})) as log:
        log.append(tool_called("first"))
        log.append(tool_called("second"))
    data = whole.read_bytes()
    cut = len(data) - 20
    path.write_bytes(data[:cut])
    waits: list[int] = []

    def wait() -> bool:
        waits.append(len(path.read_bytes()))
        if len(waits) == 2:
            with path.open("ab") as file:
                file.write(data[cut:])
        return len(waits) < 4

    assert [record.seq for record in follow_records(path, wait)] == [1, 2]
    assert waits == [cut, cut, len(data), len(data)]
