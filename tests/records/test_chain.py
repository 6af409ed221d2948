"""Every line of a log names the line before it: what was changed, exchanged or left out no longer fits."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from goalrunner.core.errors import RecordError
from goalrunner.records.event_log import EventLog, LogDamage, read_lines, read_records
from goalrunner.records.redaction import Redactor
from tests.support.clocks import SteppingClock
from tests.support.events import tool_called
from tests.support.logs import unchained


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    write(path, "first", "midst", "third")
    return path


def write(path: Path, *summaries: str) -> None:
    with EventLog(path, SteppingClock(), Redactor({})) as log:
        for summary in summaries:
            log.append(tool_called(summary))


def test_each_line_carries_the_hash_of_the_line_before(path: Path) -> None:
    write(path, "after a pause")
    lines = path.read_bytes().splitlines()

    links = [json.loads(line)["p"] for line in lines]

    assert links == [hashlib.sha256(line).hexdigest()[:16] for line in (b"", *lines[:-1])]
    assert [record.p for record in read_records(path)] == links


def test_records_are_given_with_their_places(path: Path) -> None:
    assert [(record.seq, end.start) for record, end in read_lines(path)] == [(1, 0), (2, 182), (3, 364)]


def test_a_changed_word_is_found_by_the_next_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"midst", b"moist"))

    with pytest.raises(LogDamage) as found:
        list(read_records(path))

    assert (found.value.path, found.value.offset) == (path, 364)
    assert str(found.value) == (
        f"{path}: the record at byte 364 does not follow the one at byte 182: one of them differs from what was recorded\n"
        "start a new run: goal run GOAL_FILE"
    )


def test_a_line_that_lost_its_link_is_damage(path: Path) -> None:
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + unchained(second) + third)

    with pytest.raises(RecordError, match="the record at byte 182 does not follow the one at byte 0"):
        list(read_records(path))


def test_a_first_line_with_a_link_to_another_is_damage(path: Path) -> None:
    first, second, _ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(second.replace(b'"seq":2', b'"seq":1') + first)

    with pytest.raises(RecordError, match="the record at byte 0 is not the first one of its log"):
        list(read_records(path))


@pytest.mark.parametrize("place", range(0, 364, 7))
def test_no_byte_of_an_earlier_line_changes_in_silence(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)

    with pytest.raises(RecordError, match=str(path)):
        list(read_records(path))


def test_a_log_without_links_is_refused(path: Path) -> None:
    path.write_bytes(unchained(path.read_bytes()))
    with pytest.raises(RecordError, match="the record at byte 0 is not the first one of its log"):
        list(read_records(path))
