"""Many goals on four workers, while one part after another fails."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
_GOALS = int(os.environ.get("FLEET_GOALS", "60"))
_MACHINES = ("", "", "second", "third")
_PAST_LEASE = 8.0
_COST = 0.01
"""Dollars of each reply of the model."""


@pytest.fixture
def machines(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    with fleet(database_url, tmp_path) as running:
        yield running
    assert processes_left(tmp_path) == []


@dataclass
class Faults:
    """What fails, drawn from a fixed seed."""

    machines: Fleet
    postgres: Server
    proxy: subprocess.Popen[str]
    proxy_url: str
    draw: random.Random = field(default_factory=lambda: random.Random(20261127))
    names: Iterator[int] = field(default_factory=count)
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    """By the number of their place."""
    coming: list[Callable[[], None]] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)

    def start(self, place: int) -> None:
        # The last one of each kind of place reaches the database through the proxy.
        url = self.proxy_url if place % 2 else ""
        machine = _MACHINES[place] if can_have_machines() else ""
        name = f"w{next(self.names)}"
        self.workers[place] = self.machines.start_worker(name, machine=machine, url=url)

    def next(self) -> None:
        """Let something fail, and repair it."""
        if not self.coming:
            self.coming = [
                self.kill_worker,
                self.kill_process,
                self.kill_both,
                self.stop_worker,
                self.stop_process,
                self.stop_both,
                self.restart_database,
                self.stop_proxy,
                self.lose_store,
                self.lose_machine,
            ]
            self.draw.shuffle(self.coming)
        fault = self.coming.pop()
        fault()
        self.happened[fault.__name__] += 1

    def kill_worker(self) -> None:
        place = self.draw.choice([0, 1])
        self.send([self.workers[place].pid], signal.SIGKILL)
        self.workers[place].wait()
        self.start(place)

    def kill_process(self) -> None:
        self.send(self.a_process(), signal.SIGKILL)

    def kill_both(self) -> None:
        self.send(self.a_process(), signal.SIGKILL)
        self.kill_worker()

    def stop_worker(self) -> None:
        self.stop([self.workers[self.draw.choice([0, 1])].pid])

    def stop_process(self) -> None:
        self.stop(self.a_process())

    def stop_both(self) -> None:
        worker = self.workers[self.draw.choice([0, 1])]
        self.stop([worker.pid, *self.a_process()])

    def stop(self, pids: list[int]) -> None:
        self.send(pids, signal.SIGSTOP)
        time.sleep(_PAST_LEASE)
        self.send(pids, signal.SIGCONT)

    def restart_database(self) -> None:
        self.postgres.stop()
        time.sleep(1)
        self.postgres.start()

    def stop_proxy(self) -> None:
        self.stop([self.proxy.pid])

    def lose_store(self) -> None:
        store = self.machines.folder / "store"
        elsewhere = store.with_name("elsewhere")
        store.rename(elsewhere)
        time.sleep(3)
        elsewhere.rename(store)

    def lose_machine(self) -> None:
        place = self.draw.choice([2, 3])
        self.machines.lose(self.workers[place])
        self.start(place)

    def a_process(self) -> list[int]:
        pids = self.machines.run_processes()
        return [self.draw.choice(pids)] if pids else []

    @staticmethod
    def send(pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def test_every_goal_ends_once_whatever_fails(
    machines: Fleet, postgres: Server, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    names = [f"g{number}" for number in range(_GOALS)]
    command = f"echo $NAME >>{done}; touch $NAME"
    folder = project(tmp_path / "p", names, command, turns=3, cost=_COST)
    run_ids = machines.submit(folder)
    with proxy(postgres.port) as (process, port):
        proxy_url = machines.url.replace(str(postgres.port), str(port))
        faults = Faults(machines, postgres, process, proxy_url)
        for place in range(len(_MACHINES)):
            faults.start(place)
        until = time.monotonic() + 1500
        retried: list[str] = []
        while not all(row["state"] == "ended" for row in machines.rows().values()):
            assert time.monotonic() < until, machines.output()
            time.sleep(faults.draw.uniform(1, 4))
            faults.next()
            retried += machines.retry_dead()
        rows = machines.rows()
        written = Counter(effects(done))
        print(faults.happened, Counter(row["status"] for row in rows.values()))
        print("calls again:", sum(written.values()) - len(names), "retried:", retried)

        assert len(rows) == len(run_ids) == _GOALS
        # Three workers that had it were killed: as a person would.
        assert len(retried) <= max(1, _GOALS // 20)
        for row in rows.values():
            assert row["status"] == "complete", row
            assert machines.ends_of(row["run_id"]) == ["complete"]
            # Of an intent, there is one effect or none.
            assert 1 <= written[row["name"]] <= machines.calls_of(row["run_id"])
            assert row["summary"]["cost_usd"] <= 6 * _COST + 1e-9
