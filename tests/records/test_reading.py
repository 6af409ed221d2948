"""Damage is named by file and byte, and never read over; every line of a log names the line before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from goalrunner.core.errors import RecordError
from goalrunner.core.events import Record
from goalrunner.records.event_log import (
    EventLog,
    LogDamage,
    LogEnd,
    read_end,
    read_lines,
    read_records,
)
from goalrunner.records.redaction import Redactor
from tests.support.clocks import SteppingClock
from tests.support.events import tool_called
from tests.support.logs import rechained, unchained

LINE = 182
"""Bytes of each line of the log below, its newline included."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    clock = SteppingClock()
    path = tmp_path / "events.jsonl"
    with EventLog(path, clock, Redactor({})) as log:
        for summary in ("first", "midst", "third"):
            log.append(tool_called(summary))
    assert [len(line) for line in path.read_bytes().splitlines(keepends=True)] == [
        LINE
    ] * 3
    return path


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda line: line[:9] + b"\n", "the record at byte 182 is damaged: it is not a record"),
        (lambda line: b"\0" * (LINE - 1) + b"\n", "the record at byte 182 is damaged: it is not a record"),
        (lambda line: b"\n", "the record at byte 182 is damaged: it is not a record"),
        (lambda line: b"[]\n", "the record at byte 182 is damaged: it is not a record"),
        (lambda line: b"\xff\n", "the record at byte 182 is damaged: it is not a record"),
        (lambda line: b"[" * 100_000 + b"\n", "the record at byte 182 is damaged: it is not a record"),
        (lambda line: line.replace(b'"tool":', b'"tole":'), "the record at byte 182 is damaged: Field required"),
        (lambda line: line.replace(b"_called", b"_cooled"), "the record at byte 182 is damaged: Input tag 'tool_cooled'"),
        (lambda line: line.replace(b'"1.8"', b'"one"'), "the record at byte 182 has schema version one; this program reads 1.8"),
        (lambda line: line.replace(b'"seq":2', b'"seq":4'), "the record at byte 182 does not follow the one at byte 0"),
        (lambda line: b"", "the record at byte 182 does not follow the one at byte 0"),
        (lambda line: line + line, "the record at byte 364 does not follow the one at byte 182"),
        (lambda line: line[:-1], "the record at byte 182 is damaged: it is not a record"),
        (lambda line: line.replace(b'"1.8"', b'"2.0"'), "the record at byte 182 has schema version 2.0; this program reads 1.8"),
    ],
)  # fmt: skip
def test_damage_in_the_middle_is_named(
    path: Path, damage: Callable[[bytes], bytes], message: str
) -> None:
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + damage(second) + third)
    records = read_records(path)

    assert next(records).seq == 1
    with pytest.raises(RecordError) as refused:
        list(records)

    assert f"{path}: {message}" in str(refused.value)


def test_a_damaged_log_is_not_continued(path: Path) -> None:
    damaged = path.read_bytes().replace(b'"seq":2', b'"seq":7')
    path.write_bytes(damaged)

    with pytest.raises(
        RecordError, match="the record at byte 182 does not follow the one at byte 0"
    ):
        EventLog(path, SteppingClock(), Redactor({}))

    assert path.read_bytes() == damaged


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"tool_called", b"tool_dreamt"), (b'"tool":', b'"mood":"calm","tool":')],
)
def test_what_only_a_newer_minor_schema_has_is_an_error_with_its_version(
    path: Path, old: bytes, new: bytes
) -> None:
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(
        rechained([first, second.replace(b'"1.8"', b'"1.9"').replace(old, new), third])
    )

    with pytest.raises(
        LogDamage,
        match=r"record at byte 182 has schema version 1.9; this program reads 1.8\ninstall",
    ):
        list(read_records(path))


def test_known_kinds_of_a_newer_minor_schema_are_read(path: Path) -> None:
    lines = path.read_bytes().replace(b'"1.8"', b'"1.9"').splitlines(keepends=True)
    path.write_bytes(rechained(lines))

    assert [record.v for record in read_records(path)] == ["1.9"] * 3


def test_the_end_of_a_log(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"{")

    last = path.read_bytes().splitlines()[2]
    assert read_end(path) == LogEnd(
        seq=3,
        elapsed=0.0,
        size=3 * LINE,
        link=hashlib.sha256(last).hexdigest()[:16],
        start=2 * LINE,
    )
    assert read_end(path.with_name("missing")) == LogEnd()


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot read .*/nothing: No such file"):
        list(read_records(tmp_path / "nothing"))


def older(path: Path, version: str, *happened: Mapping[str, object]) -> list[Record]:
    """The records of a log that an earlier version wrote."""
    lines = [
        json.dumps(
            {
                "v": version,
                "seq": number,
                "at": "2026-01-01T00:00:00+00:00",
                "elapsed": 0.0,
                "event": event,
            }
        )
        for number, event in enumerate(happened, 1)
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    return list(read_records(path))


@pytest.mark.parametrize(
    ("version", "event", "message"),
    [
        (
            "1.3",
            {"type": "proof_started"},
            "has schema version 1.3; this program reads 1.8",
        ),
        (
            "1.8",
            {"type": "proof_finished", "round": 1, "passed": True},
            "Input tag 'proof_finished'",
        ),
        (
            "1.8",
            {"type": "run_resumed", "plan": {"clean_proof": True}, "version": "0"},
            "Extra inputs",
        ),
    ],
)
def test_unknown_events_are_an_error(
    path: Path, version: str, event: dict[str, object], message: str
) -> None:
    with pytest.raises(LogDamage, match=message):
        older(path, version, event)


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

        assert [record.seq for record in read_records(path, wait=wait)] == [1, 2, 3]


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

    assert [record.seq for record in read_records(path, wait=wait)] == [1, 2]
    assert waits == [cut, cut, len(data), len(data)]


def test_each_line_carries_the_hash_of_the_line_before(path: Path) -> None:
    with EventLog(path, SteppingClock(), Redactor({})) as log:
        log.append(tool_called("after a pause"))
    lines = path.read_bytes().splitlines()

    links = [json.loads(line)["p"] for line in lines]

    assert links == [
        hashlib.sha256(line).hexdigest()[:16] for line in (b"", *lines[:-1])
    ]
    assert [record.p for record in read_records(path)] == links


def test_records_are_given_with_their_places(path: Path) -> None:
    assert [(record.seq, end.start) for record, end in read_lines(path)] == [
        (1, 0),
        (2, LINE),
        (3, 2 * LINE),
    ]


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

    with pytest.raises(
        RecordError, match="the record at byte 182 does not follow the one at byte 0"
    ):
        list(read_records(path))


def test_a_first_line_with_a_link_to_another_is_damage(path: Path) -> None:
    first, second, _ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(second.replace(b'"seq":2', b'"seq":1') + first)

    with pytest.raises(
        RecordError, match="the record at byte 0 is not the first one of its log"
    ):
        list(read_records(path))


@pytest.mark.parametrize("place", range(0, 364, 7))
def test_no_byte_of_an_earlier_line_changes_in_silence(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)

    with pytest.raises(RecordError, match=str(path)):
        list(read_records(path))
