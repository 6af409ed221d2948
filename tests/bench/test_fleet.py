"""What a fleet costs beyond a batch on one machine: processor time, and the intents."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("procrastinate", reason="the extra `fleet` is not installed")

from goalrunner.fleet.database import Database, migrate
from goalrunner.fleet.intents import IntentWriter
from tests.bench.measuring import GOAL, cpu_seconds, hold, pairs, remark, run_process
from tests.support.fleet import fleet, project
from tests.support.fleet_rows import submit, taken, worker
from tests.support.postgres import Server, server, server_program

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

GOALS = int(os.environ.get("FLEET_GOALS", "24"))
PAIRS = int(os.environ.get("FLEET_PAIRS", "3"))
LINES = 500


@pytest.fixture
def postgres() -> Iterator[Server]:
    if server_program("initdb") is None:
        pytest.skip("PostgreSQL is not installed here")
    folder = Path(tempfile.mkdtemp(prefix="goal-postgres-"))
    folder.chmod(0o755)
    with server(folder / "server") as running:
        yield running
    folder.rmdir()


def test_a_goal_of_a_fleet_against_one_of_a_batch(
    postgres: Server, tmp_path: Path
) -> None:
    names = [f"g{number}" for number in range(GOALS)]
    goals = project(tmp_path / "p", names, "touch $NAME")
    numbers = itertools.count()
    database_seconds: list[float] = []

    def batch() -> None:
        number = next(numbers)
        home = {"GOAL_HOME": str(tmp_path / f"home{number}")}
        command = [GOAL, "batch", ".", "--jobs", "2", "--name", f"b{number}"]
        run_process(command, cwd=goals, env=home)

    def on_fleet() -> float:
        """Processor seconds of a goal, without those of this process, which waits."""
        number = next(numbers)
        folder = tmp_path / f"fleet{number}"
        folder.mkdir()
        before, database_before = _of_children(), _of_database(postgres)
        with fleet(postgres.new_database(f"bench{number}"), folder) as machines:
            submitting = cpu_seconds(lambda: machines.submit(goals))
            process = machines.start_worker("a", jobs=2)
            rows = machines.wait_for_ends(seconds=900)
            process.send_signal(signal.SIGTERM)
            process.wait()
        assert {row["status"] for row in rows.values()} == {"complete"}
        database_seconds.append((_of_database(postgres) - database_before) / GOALS)
        return (_of_children() - before + submitting) / GOALS

    measured = pairs(on_fleet, lambda: cpu_seconds(batch) / GOALS, PAIRS)
    remark("the database, a goal", database_seconds)
    hold("a goal of a fleet / a goal of a batch", measured)


def _of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _of_database(postgres: Server) -> float:
    assert postgres.process is not None
    process = psutil.Process(postgres.process.pid)
    return sum(sum(one.cpu_times()) for one in (process, *process.children()))


def test_an_intent(postgres: Server) -> None:
    url = postgres.new_database("intents")
    with Database(url) as database:
        database.call(migrate)
        submit(database)
        write = IntentWriter(
            database, "r1", taken(database, worker(database, "a")).token
        )
        seqs = itertools.count(1)
        line = b'{"text":"' + b"x" * 500 + b'"}'

        def milliseconds() -> float:
            began = time.perf_counter()
            for _ in range(LINES):
                write([(next(seqs), line)])
            return 1000 * (time.perf_counter() - began) / LINES

        hold(
            "an intent in the database / 3 ms",
            pairs(milliseconds, lambda: 3.0, 5),
            "ms",
        )
