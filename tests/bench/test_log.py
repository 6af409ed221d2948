"""What durability costs, how long a log may be, and how many runs may lie there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from goalrunner.core.events import UsageRecorded
from goalrunner.core.outcome import Usage
from goalrunner.records.event_log import BEGINNING, EventLog, SystemClock, link
from goalrunner.records.redaction import Redactor
from tests.bench.measuring import GOAL, Pairs, hold, pairs, process_seconds, remark
from tests.support.told_run import summary

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

EVENTS = 1_000_000
RUNS = 10_000

REPLAY = """
import resource, sys, time
from pathlib import Path
from goalrunner.records.event_log import read_records
from goalrunner.core.fold import apply
began, state = time.perf_counter(), None
for record in read_records(Path(sys.argv[1])):
    state = apply(state, record)
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, state.memory.version)
"""


def test_an_append_costs_about_what_the_disk_asks_for_it(tmp_path: Path) -> None:
    event = UsageRecorded(
        account="agent", usage=Usage(input_tokens=10, output_tokens=5, calls=1)
    )
    appended, bare = [], []
    with EventLog(
        tmp_path / "events.jsonl", SystemClock(), Redactor(os.environ)
    ) as log:
        line = log.append(event).model_dump_json().encode() + b"\n"
        with (tmp_path / "bare").open("ab", buffering=0) as file:
            for _ in range(300):
                began = time.perf_counter()
                log.append(event)
                appended.append(time.perf_counter() - began)
                began = time.perf_counter()
                file.write(line)
                os.fdatasync(file.fileno())
                bare.append(time.perf_counter() - began)
    remark("appends a second", [1 / seconds for seconds in appended], "")
    hold(
        "an event appended / the same bytes, synced",
        Pairs([1000 * x for x in appended], [1000 * x for x in bare]),
        "ms",
    )


def test_a_long_log_is_replayed_in_the_memory_of_a_short_one(tmp_path: Path) -> None:
    short, long = (
        _log(tmp_path / "short.jsonl", EVENTS // 100),
        _log(tmp_path / "long.jsonl", EVENTS),
    )
    small, large = _replayed(short), _replayed(long)
    remark("events a second", [EVENTS / large[0]], "")
    hold(
        "peak memory of 1,000,000 events / of 10,000",
        Pairs([large[1] / 1024], [small[1] / 1024]),
        "MB",
    )


def test_ten_thousand_runs_are_listed_within_a_second(own_home: Path) -> None:
    values = summary()
    for number in range(RUNS):
        folder = own_home / "runs" / f"r{number:04x}-make-parse"
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(
            json.dumps({**values, "run_id": folder.name}, indent=2)
        )
    measured = pairs(lambda: process_seconds([GOAL, "list"]), lambda: 1.0, 5)
    hold("goal list over 10,000 runs / 1 s", measured)
    hold(
        "goal list over 10,000 runs / 1 s",
        pairs(lambda: process_seconds([GOAL, "list", "--json"]), lambda: 1.0, 3),
    )


def _log(path: Path, events: int) -> Path:
    """A log of that many events, written without waiting for the disk."""
    golden = Path(__file__).parents[1] / "records" / "golden" / "quickstart.jsonl"
    lines = golden.read_bytes().splitlines()[:20]
    records = [json.loads(line) for line in lines]
    before = BEGINNING
    with path.open("wb") as file:
        for seq in range(1, events + 1):
            record = (
                records[seq - 1] if seq <= 2 else records[2 + seq % (len(records) - 2)]
            )
            line = json.dumps(
                {**record, "seq": seq, "p": before}, separators=(",", ":")
            ).encode()
            before = link(line)
            file.write(line + b"\n")
    return path


def _replayed(path: Path) -> tuple[float, float]:
    """Seconds, and kilobytes at the peak."""
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, peak, _ = done.stdout.split()
    return float(seconds), float(peak)
