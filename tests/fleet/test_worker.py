"""Whole runs on real workers, which are killed and stopped."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from goalrunner.records.event_log import read_records
from tests.support.fleet import Fleet, effects, fleet, processes_of, project

pytestmark = pytest.mark.slow


@pytest.fixture
def machines(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(database_url, tmp_path) as running:
        yield running
    assert processes_of(tmp_path) == []


def test_workers_run_the_goals_of_the_queue(machines: Fleet, tmp_path: Path) -> None:
    names = [f"g{number}" for number in range(4)]
    done = tmp_path / "done"
    machines.submit(project(tmp_path / "p", names, f"echo $NAME >>{done}; touch $NAME"))
    machines.start_worker("a")
    machines.start_worker("b")
    rows = machines.wait_for_ends()
    assert {row["status"] for row in rows.values()} == {"complete"}
    assert sorted(effects(done)) == names
    assert all(row["shipped"] for row in rows.values())


def test_a_killed_worker_loses_no_run_and_no_effect_happens_twice(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gate = tmp_path / "done", tmp_path / "gate"
    # The first call is interrupted; a later one would find the gate open.
    command = f"echo $NAME >>{done}; touch $NAME; [ -e {gate} ] || sleep 300"
    machines.submit(project(tmp_path / "p", ["g1"], command))
    first = machines.start_worker("a")
    machines.wait(lambda rows: effects(done) == ["g1"])
    first.send_signal(signal.SIGKILL)
    gate.touch()
    machines.start_worker("b")
    rows = machines.wait_for_ends(seconds=120)
    (row,) = rows.values()
    assert row["status"] == "complete"
    assert effects(done) == ["g1"]
    events = machines.root / "runs" / row["run_id"] / "home" / "runs" / row["run_id"]
    kinds = [record.event.type for record in read_records(events / "events.jsonl")]
    assert kinds.count("run_resumed") == 1
    assert kinds[-1] == "run_ended"


def test_a_stopped_worker_that_goes_on_after_the_takeover_repeats_nothing(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gate = tmp_path / "done", tmp_path / "gate"
    command = (
        f"echo $NAME >>{done}; touch $NAME; while [ ! -e {gate} ]; do sleep 0.1; done"
    )
    machines.submit(project(tmp_path / "p", ["g1"], command))
    first = machines.start_worker("a")
    machines.wait(lambda rows: effects(done) == ["g1"])
    first.send_signal(signal.SIGSTOP)
    machines.start_worker("b")
    machines.wait(lambda rows: all(row["token"] >= 2 for row in rows.values()))
    gate.touch()
    first.send_signal(signal.SIGCONT)
    (row,) = machines.wait_for_ends(seconds=120).values()
    assert row["status"] == "complete"
    assert effects(done) == ["g1"]


def test_a_goal_that_kills_its_process_is_given_up(
    machines: Fleet, tmp_path: Path
) -> None:
    # The parent of the shell is the process of the run.
    command = "kill -9 $PPID; sleep 5"
    machines.submit(project(tmp_path / "p", ["g1"], command, calls=9))
    machines.start_worker("a")
    (row,) = machines.wait_for_ends(seconds=120).values()
    assert row["state"] == "dead"
    assert "ended with exit code" in row["reason"]


def test_a_worker_that_is_ended_gives_its_runs_back(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gate = tmp_path / "done", tmp_path / "gate"
    command = f"echo $NAME >>{done}; touch $NAME; [ -e {gate} ] || sleep 300"
    machines.submit(project(tmp_path / "p", ["g1"], command))
    first = machines.start_worker("a")
    machines.wait(lambda rows: effects(done) == ["g1"])
    began = time.monotonic()
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    assert time.monotonic() - began < 30
    (row,) = machines.rows().values()
    assert (row["state"], row["deaths"]) == ("queued", 0)
    gate.touch()
    machines.start_worker("b")
    (row,) = machines.wait_for_ends().values()
    assert row["status"] == "complete"
    assert effects(done) == ["g1"]


def test_the_reason_of_a_run_that_was_given_up_is_its_error(
    machines: Fleet, tmp_path: Path
) -> None:
    folder = project(tmp_path / "p", ["g1"], "touch g1")
    # The file is not in what is submitted.
    (folder / "g1.jsonl").unlink()
    machines.submit(folder)
    machines.start_worker("a")
    (row,) = machines.wait_for_ends(seconds=120).values()
    assert (row["state"], row["deaths"]) == ("dead", 3)
    assert "exit code 2: " in row["reason"]
    assert "g1.jsonl" in row["reason"]
