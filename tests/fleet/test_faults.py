"""A fleet while its parts fail: every run ends once, and no call happens twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from goalrunner.fleet import worker
from tests.support.fleet import (
    Fleet,
    can_have_machines,
    effects,
    fleet,
    processes_left,
    project,
)
from tests.support.postgres import Server
from tests.support.proxies import proxy

pytestmark = pytest.mark.slow
_NEEDS_MACHINES = pytest.mark.skipif(
    not can_have_machines(), reason="namespaces of mounts and processes are refused"
)
_PAST_LEASE = 9.0
"""Seconds; the lease of the workers of the tests is 6."""


@pytest.fixture
def machines(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(database_url, tmp_path) as running:
        yield running
    assert processes_left(tmp_path) == []


def gated(folder: Path, done: Path, gate: Path) -> Path:
    """A project with a goal whose call waits until the gate is open."""
    wait = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    return project(folder, ["g1"], f"echo $NAME >>{done}; touch $NAME; {wait}")


def the_row(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (row,) = rows.values()
    return row


def assert_complete(machines: Fleet, done: Path) -> dict[str, Any]:
    """Wait until the run is complete: it ended once, and its call happened once."""
    row = the_row(machines.wait_for_ends(seconds=150))
    assert (row["state"], row["status"]) == ("ended", "complete"), machines.output()
    assert effects(done) == ["g1"]
    assert machines.ends_of(row["run_id"]) == ["complete"]
    return row


def begun(machines: Fleet, tmp_path: Path) -> tuple[Path, Path, str]:
    """Submit a goal, and return what it writes, its gate, and the id of its run."""
    done, gate = tmp_path / "done", tmp_path / "gate"
    (run_id,) = machines.submit(gated(tmp_path / "p", done, gate))
    return done, gate, run_id


def test_a_restart_of_the_database_costs_no_run(
    machines: Fleet, postgres: Server, tmp_path: Path
) -> None:
    done, gate, _ = begun(machines, tmp_path)
    machines.start_worker("a")
    machines.start_worker("b")
    machines.wait(lambda rows: effects(done) == ["g1"])
    postgres.stop()
    gate.touch()
    # The call has ended, and its result waits for the database.
    time.sleep(_PAST_LEASE)
    postgres.start()
    row = assert_complete(machines, done)
    assert (row["token"], row["deaths"]) == (1, 0)
    # The workers still take runs.
    (tmp_path / "second").mkdir()
    machines.submit(gated(tmp_path / "second/p", done, gate))
    rows = machines.wait_for_ends()
    assert [row["status"] for row in rows.values()] == ["complete"] * 2


def test_a_run_of_a_worker_without_the_database_is_taken_over(
    machines: Fleet, postgres: Server, tmp_path: Path
) -> None:
    done, gate, _ = begun(machines, tmp_path)
    with proxy(postgres.port) as (process, port):
        url = machines.url.replace(str(postgres.port), str(port))
        machines.start_worker("a", url=url)
        machines.wait(lambda rows: effects(done) == ["g1"])
        machines.start_worker("b")
        process.send_signal(signal.SIGSTOP)
        machines.wait(lambda rows: the_row(rows)["token"] > 2)
        process.send_signal(signal.SIGCONT)
        gate.touch()
        assert_complete(machines, done)
        # The first one works again.
        (tmp_path / "second").mkdir()
        machines.submit(gated(tmp_path / "second/p", done, gate))
        machines.wait_for_ends()
        assert machines.workers[0].poll() is None


def test_workers_that_all_lose_the_database_take_no_run_from_each_other(
    machines: Fleet, postgres: Server, tmp_path: Path
) -> None:
    done, gate, _ = begun(machines, tmp_path)
    with proxy(postgres.port) as (process, port):
        url = machines.url.replace(str(postgres.port), str(port))
        machines.start_worker("a", url=url)
        machines.start_worker("b", url=url)
        machines.wait(lambda rows: effects(done) == ["g1"])
        process.send_signal(signal.SIGSTOP)
        time.sleep(_PAST_LEASE)
        process.send_signal(signal.SIGCONT)
        time.sleep(2)
        gate.touch()
        row = assert_complete(machines, done)
    assert (row["token"], row["deaths"]) == (1, 0)


Pids = Callable[[Fleet, str], list[int]]


def worker_alone(machines: Fleet, run_id: str) -> list[int]:
    return [machines.workers[0].pid]


def process_alone(machines: Fleet, run_id: str) -> list[int]:
    return [machines.process_of(run_id)]


def both(machines: Fleet, run_id: str) -> list[int]:
    return [machines.workers[0].pid, machines.process_of(run_id)]


@pytest.mark.parametrize("victims", [worker_alone, process_alone, both])
def test_processes_that_are_stopped_past_the_lease_repeat_nothing(
    machines: Fleet, tmp_path: Path, victims: Pids
) -> None:
    done, gate, run_id = begun(machines, tmp_path)
    machines.start_worker("a")
    machines.wait(lambda rows: effects(done) == ["g1"])
    machines.start_worker("b")
    pids = victims(machines, run_id)
    send(pids, signal.SIGSTOP)
    # A worker that lives kills the process of its run, and takes the run again.
    machines.wait(lambda rows: the_row(rows)["token"] > 2)
    gate.touch()
    send(pids, signal.SIGCONT)
    assert_complete(machines, done)


def test_a_call_that_takes_longer_than_a_lease_is_not_ended(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gate, run_id = begun(machines, tmp_path)
    machines.start_worker("a")
    machines.wait(lambda rows: effects(done) == ["g1"])
    # A process that is stopped for less than that goes on as well.
    process = machines.process_of(run_id)
    os.kill(process, signal.SIGSTOP)
    time.sleep(_PAST_LEASE / 3)
    os.kill(process, signal.SIGCONT)
    time.sleep(_PAST_LEASE)
    gate.touch()
    row = assert_complete(machines, done)
    assert (row["token"], row["deaths"]) == (1, 0)


@pytest.mark.parametrize("victims", [worker_alone, process_alone, both])
def test_processes_that_are_killed_cost_no_run(
    machines: Fleet, tmp_path: Path, victims: Pids
) -> None:
    done, gate, run_id = begun(machines, tmp_path)
    machines.start_worker("a")
    machines.wait(lambda rows: effects(done) == ["g1"])
    machines.start_worker("b")
    send(victims(machines, run_id), signal.SIGKILL)
    gate.touch()
    assert_complete(machines, done)


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        # It was perhaps killed meanwhile.
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def test_a_store_that_is_gone_for_a_while_costs_no_run(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gate, _ = begun(machines, tmp_path)
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    store.rename(elsewhere)
    # It begins without its workspace, and ends without a place for its records.
    machines.start_worker("a")
    machines.wait(lambda rows: the_row(rows)["state"] == "running")
    time.sleep(3)
    elsewhere.rename(store)
    machines.wait(lambda rows: effects(done) == ["g1"])
    store.rename(elsewhere)
    gate.touch()
    (run_id,) = machines.rows()
    machines.wait(lambda rows: machines.ends_of(run_id) == ["complete"])
    time.sleep(3)
    assert the_row(machines.rows())["state"] == "running"
    assert not store.exists()
    elsewhere.rename(store)
    row = assert_complete(machines, done)
    assert (row["token"], row["deaths"]) == (1, 0)
    assert all((store / key).exists() for key in row["shipped"])


@_NEEDS_MACHINES
def test_a_run_waits_at_its_end_until_a_full_store_has_space(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gate, run_id = begun(machines, tmp_path)
    store = tmp_path / "shared"
    store.mkdir()
    (store / "sources").mkdir()
    worker = machines.start_worker(
        "a", machine="first", disks={store: "1m"}, store=store.as_uri()
    )
    copy = ("cp", "-r", tmp_path / "store/sources", store)
    machines.wait(lambda rows: the_row(rows)["state"] == "running")
    machines.inside(worker, *copy)
    machines.wait(lambda rows: effects(done) == ["g1"])
    fill = f"cat /dev/zero >{store}/fill; true"
    machines.inside(worker, "sh", "-c", f"({fill}) 2>&-")
    gate.touch()
    machines.wait(lambda rows: machines.ends_of(run_id) == ["complete"])
    time.sleep(2)
    assert the_row(machines.rows())["state"] == "running"
    machines.inside(worker, "rm", store / "fill")
    row = assert_complete(machines, done)
    assert (row["token"], row["deaths"]) == (1, 0)


def wait_for(is_reached: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_reached():
        assert time.monotonic() < until
        time.sleep(0.1)


@_NEEDS_MACHINES
def test_a_worker_with_a_full_disk_takes_no_run_and_kills_none(
    machines: Fleet, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    names = [f"g{number}" for number in range(4)]
    command = f"echo $NAME >>{done}; touch $NAME"
    full = machines.start_worker(
        "a",
        machine="first",
        disks={machines.root: "2m"},
        options={"least_space": 2**22},
    )
    wait_for(lambda: children(full) != [])
    run_ids = machines.submit(project(tmp_path / "p", names, command))
    wait_for(lambda: "is full" in (tmp_path / "a.log").read_text())
    machines.start_worker("b")
    rows = machines.wait_for_ends(seconds=150)
    assert [row["status"] for row in rows.values()] == ["complete"] * len(run_ids)
    assert {row["deaths"] for row in rows.values()} == {0}
    assert {row["token"] for row in rows.values()} == {1}
    assert sorted(effects(done)) == names


def children(worker: subprocess.Popen[bytes]) -> list[str]:
    path = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    return path.read_text().split()


def test_of_two_workers_of_one_name_the_second_is_refused(machines: Fleet) -> None:
    machines.start_worker("a")
    wait_for(lambda: machines.alive_workers() == ["a"])
    second = machines.start_worker("a")
    assert second.wait(60) != 0
    assert "there is a worker a already" in machines.output()


def test_a_worker_whose_name_was_given_away_ends_with_its_runs(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gate, _ = begun(machines, tmp_path)
    first = machines.start_worker("a")
    machines.wait(lambda rows: effects(done) == ["g1"])
    machines.start_worker("b")
    first.send_signal(signal.SIGSTOP)
    machines.wait(lambda rows: the_row(rows)["token"] > 1)
    machines.start_worker("a")
    wait_for(lambda: machines.alive_workers() == ["a", "b"])
    first.send_signal(signal.SIGCONT)
    assert first.wait(60) != 0
    gate.touch()
    assert_complete(machines, done)


def test_a_worker_ends_when_the_schema_is_that_of_a_newer_program(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gate, _ = begun(machines, tmp_path)
    worker = machines.start_worker("a")
    machines.wait(lambda rows: effects(done) == ["g1"])
    machines.run_in_database("INSERT INTO goal_fleet_schema (version) VALUES (99)")
    # The run at work ends as it would have.
    wait_for(lambda: machines.alive_workers() == ["a"])
    gate.touch()
    assert worker.wait(60) != 0
    assert "schema version 99" in machines.output()
    assert_complete(machines, done)


@_NEEDS_MACHINES
def test_a_run_whose_disk_gets_full_goes_on_at_another_machine(
    machines: Fleet, tmp_path: Path
) -> None:
    done, gate, run_id = begun(machines, tmp_path)
    first = machines.start_worker(
        "a",
        machine="first",
        disks={machines.root: "24m"},
        options={"least_space": 2**20},
    )
    machines.wait(lambda rows: effects(done) == ["g1"])
    fill = f"cat /dev/zero >{machines.root}/fill; true"
    machines.inside(first, "sh", "-c", f"({fill}) 2>&-")
    gate.touch()
    wait_for(lambda: "is full" in (tmp_path / "a.log").read_text())
    machines.start_worker("b")
    row = the_row(machines.wait_for_ends(seconds=150))
    assert (row["state"], row["status"]) == ("ended", "complete"), machines.output()
    # The agent called again what was lost with the disk.
    assert effects(done) == ["g1"] * machines.calls_of(run_id)
    assert row["deaths"] <= 1


def test_clocks_of_hosts_decide_nothing(machines: Fleet, tmp_path: Path) -> None:
    done, gate, _ = begun(machines, tmp_path)
    machines.start_worker("a", clock=-7200)
    machines.wait(lambda rows: effects(done) == ["g1"])
    machines.start_worker("b", clock=7200)
    wait_for(lambda: machines.alive_workers() == ["a", "b"])
    time.sleep(_PAST_LEASE)
    row = the_row(machines.rows())
    assert (row["state"], row["token"]) == ("running", 1)
    machines.workers[0].kill()
    machines.wait(lambda rows: the_row(rows)["token"] > 1)
    gate.touch()
    assert_complete(machines, done)


def test_the_fleet_compares_times_of_the_database_alone() -> None:
    folder = Path(worker.__file__).parent
    # These show a person how long ago something happened, and decide nothing.
    views = ("batch_following.py", "batch_history.py")
    for file in (*folder.rglob("*.py"), *folder.rglob("*.sql")):
        if file.name in views:
            continue
        text = file.read_text()
        for clock in ("time.time(", "datetime.now(", "utcnow(", "date.today("):
            assert clock not in text, file
        # Inside of a transaction, the time of its start would be returned.
        assert not re.search(r"(?<!_)\bnow\(\)", text), file
