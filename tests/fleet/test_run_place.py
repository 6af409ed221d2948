"""Whether the files of a run on a machine are the newest ones of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.fleet.intents import LostLine
from goalrunner.fleet.run_place import WorkerPlace, abandoned_round
from goalrunner.fleet.runs import TakenRun


@pytest.fixture
def place(tmp_path: Path) -> WorkerPlace:
    made = WorkerPlace(tmp_path, "r1")
    made.run.path.mkdir(parents=True)
    return made


def run(token: int, previous: int) -> TakenRun:
    return TakenRun("r1", token, {}, previous)


def test_files_are_the_newest_where_the_last_writing_worker_was(
    place: WorkerPlace,
) -> None:
    assert place.has_newest_records(run(1, 0), [])
    place.note_holder(run(1, 0), is_new=False)
    assert place.has_newest_records(run(3, 1), [])
    # The second worker here was killed before it wrote anything.
    place.note_holder(run(3, 1), is_new=False)
    assert place.has_newest_records(run(5, 1), [])
    assert place.has_newest_records(run(5, 3), [])
    # Another machine has gone on.
    assert not place.has_newest_records(run(7, 5), [])


def test_fetched_files_do_not_have_what_was_lost_elsewhere(place: WorkerPlace) -> None:
    # It had them from the store, and was killed before it wrote anything.
    place.note_holder(run(4, 2), is_new=True)
    assert not place.has_newest_records(run(6, 2), [])


def test_a_log_that_differs_from_the_database_is_not_continued(
    place: WorkerPlace,
) -> None:
    place.note_holder(run(1, 0), is_new=False)
    place.run.events.write_bytes(b"one\ntwo\nunfinished")
    assert place.has_newest_records(run(3, 1), [(1, b"one"), (2, b"two"), (3, b"3")])
    assert not place.has_newest_records(run(3, 1), [(1, b"one"), (2, b"other")])
    assert place.lines_after(1) == [(2, b"two")]


def test_an_abandoned_round_names_every_call_and_counts_its_usage_once() -> None:
    def line(event: str) -> bytes:
        head = '{"v":"1.0","seq":2,"at":"2026-01-01T00:00:00.000+00:00","elapsed":1,'
        return f'{head}"p":"0123456789abcdef","event":{event}}}'.encode()

    call = line(
        '{"type":"tool_called","tool_call_id":"c1","tool":"shell","summary":"make"}'
    )
    usage = line('{"type":"usage_recorded","account":"agent","usage":{"cost_usd":0.5}}')
    abandoned = abandoned_round(
        "r1",
        [
            LostLine(2, call, is_replaced=True),
            LostLine(3, usage, is_replaced=True),
            LostLine(2, usage, is_replaced=False),
            LostLine(3, call, is_replaced=False),
        ],
    )
    assert abandoned.calls == ("shell: make", "shell: make")
    assert abandoned.usage["agent"].cost_usd == 0.5
