"""What a fleet costs its database, measured on a real PostgreSQL.

`python -m tests.bench.fleet_measures` writes `fleet_measures.json` beside this file, from
which `scale_model` takes its numbers. Costs are seconds of processor time of all processes
of the server, which other work on the machine lengthens less than the time on a clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from goalrunner.fleet import listing, runs
from goalrunner.fleet.database import Database, connect
from goalrunner.fleet.intents import IntentWriter
from goalrunner.fleet.limits import FleetPauses, hold_of
from goalrunner.fleet.queue import enqueue, prepare_database, queue_app
from tests.support import fleet_rows
from tests.support.fleet import Fleet, project
from tests.support.postgres import Server, server, server_program

FILE = Path(__file__).with_name("fleet_measures.json")
SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "shared_buffers": "512MB",
    "max_connections": "400",
    "autovacuum": "off",
    "max_wal_size": "8GB",
}
LINE = "x" * 1200
DEPTHS = (0, 10_000, 100_000, 1_000_000)
"""Queued runs that wait in a queue that the measured workers do not serve."""


@dataclass
class Cost:
    """What some work took of the server."""

    cpu_ms: float
    wal_bytes: float
    commits: float
    sessions: float
    wall_ms: float


@dataclass
class Bench:
    """One database of a running server, and what was measured with it."""

    running: Server
    url: str
    folder: Path
    values: dict[str, dict[str, Any]] = field(default_factory=dict)

    def note(self, name: str, value: float | dict[str, float], unit: str) -> None:
        rounded = (
            {key: float(f"{one:.4g}") for key, one in value.items()}
            if isinstance(value, dict)
            else float(f"{value:.4g}")
        )
        self.values[name] = {"value": rounded, "unit": unit}
        print(f"{name:28} {rounded} {unit}", flush=True)

    def cpu(self) -> float:
        """Processor seconds of the server, with those of ended connections."""
        assert self.running.process is not None
        main = psutil.Process(self.running.process.pid)
        # The parent has the time of connections that have ended, in hundredths.
        total = sum(main.cpu_times()[2:4])
        for process in (main, *main.children()):
            with contextlib.suppress(psutil.NoSuchProcess, OSError):
                text = Path(f"/proc/{process.pid}/schedstat").read_text()
                total += int(text.split()[0]) / 1e9
        return total

    def counters(self) -> dict[str, float]:
        with connect(self.url, 300) as connection:
            time.sleep(0.02)
            row = connection.execute(
                "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float AS wal,"
                " xact_commit::float AS commits, sessions::float AS sessions"
                " FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        assert row is not None
        return dict(row)

    def cost(self, work: Callable[[], object], times: int) -> Cost:
        """Return what one of `times` pieces of work took; `work` does all of them."""
        before, cpu, began = self.counters(), self.cpu(), time.perf_counter()
        work()
        wall, used = time.perf_counter() - began, self.cpu() - cpu
        # Sessions and commits are reported when a connection is idle for a second.
        time.sleep(1.2)
        after = self.counters()
        return Cost(
            1000 * used / times,
            (after["wal"] - before["wal"]) / times,
            (after["commits"] - before["commits"]) / times,
            (after["sessions"] - before["sessions"]) / times,
            1000 * wall / times,
        )

    def note_cost(self, name: str, work: Callable[[], object], times: int) -> Cost:
        cost = self.cost(work, times)
        shown = {
            "cpu_ms": cost.cpu_ms,
            "wal_bytes": cost.wal_bytes,
            "wall_ms": cost.wall_ms,
        }
        self.note(name, shown, f"each, of {times}")
        return cost


def _repeat(times: int, work: Callable[[int], object]) -> Callable[[], None]:
    def all_of_it() -> None:
        for number in range(times):
            work(number)

    return all_of_it


def measure_statements(bench: Bench) -> None:
    """The statements of a run, one connection, in the order of its life."""
    times = 1000
    job = json.dumps({"goal_text": "x" * 1500, "source": "y" * 300})
    with Database(bench.url) as database:
        worker = fleet_rows.worker(database, "statements")
        database.call(
            lambda connection: connection.execute(
                "INSERT INTO goal_fleet_runs (run_id, name, objective, job)"
                " SELECT 'r' || n, 'g', 'Make it.', %s"
                " FROM generate_series(0, 999) AS n",
                [job],
            )
        )
        taken: list[runs.TakenRun] = []
        summary = {"round": 1, "score": 0.5, "text": "z" * 700}

        def take(number: int) -> None:
            taken.append(fleet_rows.taken(database, worker, f"r{number}"))

        bench.note_cost("take_run", _repeat(times, take), times)

        def ship(number: int) -> None:
            database.call(
                lambda connection: runs.record_shipped(
                    connection, taken[number], f"runs/r{number}/1-1.tar", 20, summary
                )
            )

        bench.note_cost("record_shipped", _repeat(times, ship), times)

        def write(number: int) -> None:
            writer = IntentWriter(database, "r1", taken[1].token)
            writer([(number, LINE.encode())])

        bench.note_cost("intent", _repeat(2 * times, write), 2 * times)

        def beat(_: int) -> None:
            database.call(lambda connection: runs.heartbeat(connection, worker))

        bench.note_cost("heartbeat_statement", _repeat(2 * times, beat), 2 * times)

        def read(_: int) -> None:
            FleetPauses(database, "r1").read("measured")

        bench.note_cost("pause_read", _repeat(times, read), times)

        def report(number: int) -> None:
            database.call(
                lambda connection: runs.update_summary(
                    connection, f"r{number}", worker, summary
                )
            )

        bench.note_cost("update_summary", _repeat(times, report), times)

        def end(number: int) -> None:
            database.call(
                lambda connection: runs.end_run(
                    connection, taken[number], "complete", 0, summary
                )
            )

        bench.note_cost("end_run", _repeat(times, end), times)

    def open_one(_: int) -> None:
        with Database(bench.url) as new:
            new.call(lambda connection: connection.execute("SELECT 1"))

    bench.note_cost("connection", _repeat(300, open_one), 300)


def measure_queue(bench: Bench) -> None:
    """The way of a job through the queue."""
    times = 500
    app = queue_app(bench.url)

    async def deliver(name: str, work: Callable[[Any, int], Any]) -> None:
        before = bench.cpu()
        for number in range(times):
            await work(app, number)
        bench.note(name, 1000 * (bench.cpu() - before) / times, "ms of CPU each")

    async def all_of_it() -> None:
        async with app.open_async():
            manager = app.job_manager
            worker = await manager.register_worker()
            fetched: list[Any] = []

            async def put(_: Any, number: int) -> None:
                await enqueue(app, f"q{number}", "measured", number % 3)

            async def fetch(*_: Any) -> None:
                job = await manager.fetch_job(queues=["measured"], worker_id=worker)
                fetched.append(job)

            async def finish(_: Any, number: int) -> None:
                status = "succeeded"
                await app.connector.execute_query_async(
                    "SELECT procrastinate_finish_job_v1(%(job)s, %(status)s, true)",
                    job=fetched[number].id,
                    status=status,
                )

            async def fetch_nothing(*_: Any) -> None:
                job = await manager.fetch_job(queues=["empty"], worker_id=worker)
                assert job is None

            async def live(*_: Any) -> None:
                await manager.update_heartbeat(worker)

            await deliver("enqueue", put)
            await deliver("fetch_job", fetch)
            await deliver("finish_job", finish)
            await deliver("fetch_nothing", fetch_nothing)
            await deliver("queue_heartbeat", live)

    asyncio.run(all_of_it())


def measure_notifications(bench: Bench) -> None:
    """A notice to many idle listeners: PostgreSQL wakes each of them."""
    times, costs = 300, {}
    for listeners in (0, 50, 200):
        open_ones = [connect(bench.url) for _ in range(listeners)]
        for connection in open_ones:
            connection.execute("LISTEN measured")
        with connect(bench.url) as speaker:
            before = bench.cpu()
            for number in range(times):
                speaker.execute("SELECT pg_notify('measured', %s)", [str(number)])
            time.sleep(0.3)
            costs[str(listeners)] = 1000 * (bench.cpu() - before) / times
        for connection in open_ones:
            connection.close()
    bench.note("notice_by_listeners", costs, "ms of CPU each")


def _fill(bench: Bench, number: int) -> None:
    """Queue runs of a queue that no measured worker serves, up to a number."""
    with connect(bench.url, 600) as connection:
        connection.execute("ALTER TABLE procrastinate_jobs DISABLE TRIGGER USER")
        connection.execute(
            "INSERT INTO goal_fleet_runs (run_id, name, objective, job, queue)"
            " SELECT 'w' || n, 'g', 'Make it.', '{}', 'other'"
            " FROM generate_series(1, %s) AS n ON CONFLICT DO NOTHING",
            [number],
        )
        connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, queueing_lock)"
            " SELECT 'other', 'goal.run', 'w' || n FROM generate_series(1, %s) AS n"
            " WHERE NOT EXISTS (SELECT FROM procrastinate_jobs"
            "   WHERE queueing_lock = 'w' || n)",
            [number],
        )
        connection.execute("ALTER TABLE procrastinate_jobs ENABLE TRIGGER USER")
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    # What this left to the processes in the background is not to be measured.
    time.sleep(2)


def measure_depth(bench: Bench) -> None:
    """What grows with the number of queued runs."""
    ready, fetch, status = {}, {}, {}
    app = queue_app(bench.url)

    async def fetch_of(queue: str, times: int) -> float:
        async with app.open_async():
            worker = await app.job_manager.register_worker()
            before = bench.cpu()
            for _ in range(times):
                await app.job_manager.fetch_job(queues=[queue], worker_id=worker)
            return 1000 * (bench.cpu() - before) / times

    for depth in DEPTHS:
        _fill(bench, depth)
        times = 50 if depth < 100_000 else 5
        with Database(bench.url, 300) as database:

            def look(_: int, database: Database = database) -> None:
                database.call(runs.ready_runs)

            ready[str(depth)] = bench.cost(_repeat(times, look), times).cpu_ms
            began = time.perf_counter()
            database.call(lambda connection: listing.list_runs(connection, 50))
            database.call(listing.count_runs)
            database.call(listing.list_workers)
            status[str(depth)] = 1000 * (time.perf_counter() - began)
        fetch[str(depth)] = asyncio.run(fetch_of("empty", times))
    bench.note("ready_runs_by_depth", ready, "ms of CPU each")
    bench.note("fetch_nothing_by_depth", fetch, "ms of CPU each")
    bench.note("status_by_depth", status, "ms, 50 rows shown")


def measure_worker(bench: Bench, name: str, runs_at_work: int = 0) -> None:
    """What each sign of life of a real worker costs, without work or with runs."""
    folder = bench.folder / name
    folder.mkdir()
    (folder / "store").mkdir()
    fleet = Fleet(bench.url, folder)
    process = fleet.start_worker(name, max(1, runs_at_work))
    try:
        with Database(bench.url) as database:
            while not database.call(listing.list_workers):
                time.sleep(0.1)
            names = [f"{name}{number}" for number in range(runs_at_work)]
            if names:
                fleet.submit(project(folder / "p", names, "sleep 60; touch $NAME"))
            while (
                len(list(folder.glob("root/runs/*/home/runs/*/events.jsonl")))
                < runs_at_work
            ):
                time.sleep(0.1)
        with connect(bench.url) as connection:
            # Of many workers, one has the turn: what it does is measured by itself.
            connection.execute("UPDATE goal_fleet_upkeep SET at = 'infinity'")
        time.sleep(5)
        with connect(bench.url) as connection:
            row = connection.execute(
                "SELECT count(*) AS number FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchone()
            assert row is not None
            connection.execute("SELECT pg_stat_statements_reset()")
        bench.note(
            f"{name}_connections", row["number"], f"held, {runs_at_work} runs at work"
        )
        # With a lease of 6 seconds it gives a sign of life each second.
        cost = bench.cost(lambda: time.sleep(20), 1)
        with connect(bench.url) as connection:
            row = connection.execute(
                "SELECT coalesce(max(calls), 0) AS beats FROM pg_stat_statements"
                r" WHERE query ~ '^UPDATE goal_fleet_workers\s+SET\s+seen_at'"
            ).fetchone()
            total = connection.execute(
                "SELECT sum(calls) AS calls FROM pg_stat_statements"
                " WHERE toplevel AND query NOT LIKE '%pg_stat%'"
            ).fetchone()
        assert row is not None
        assert total is not None
        beats = max(row["beats"], 1)
        shown = {
            "cpu_ms": cost.cpu_ms / beats,
            "wal_bytes": cost.wal_bytes / beats,
            "commits": cost.commits / beats,
            "new_connections": cost.sessions / beats,
            "statements": float(total["calls"]) / beats,
        }
        bench.note(f"{name}_beat", shown, f"each, of {beats} signs of life")
    finally:
        process.terminate()
        process.wait(30)
        with connect(bench.url) as connection:
            connection.execute("UPDATE goal_fleet_upkeep SET at = '-infinity'")


def measure_runs(bench: Bench) -> None:
    """Whole runs of a scripted agent: lines, archives, statements."""
    for calls in (1, 21):
        folder = bench.folder / f"calls{calls}"
        (folder / "store").mkdir(parents=True)
        url = bench.running.new_database(f"runs{calls}")
        fleet = Fleet(url, folder)
        fleet.prepare()
        work = project(folder / "p", ["g1", "g2"], "touch $NAME", calls)
        fleet.submit(work)
        process = fleet.start_worker("whole")
        try:
            rows = fleet.wait_for_ends(180)
        finally:
            process.terminate()
            process.wait(30)
        assert {row["status"] for row in rows.values()} == {"complete"}, rows
        with connect(url) as connection:
            row = connection.execute(
                "SELECT count(*) AS lines, count(DISTINCT xmin::text) AS calls,"
                " avg(length(line)) AS size FROM goal_fleet_intents"
            ).fetchone()
        assert row is not None
        archives = list((folder / "store").glob("runs/*/*.tar"))
        stored = sum(path.stat().st_size for path in archives)
        shown = {
            "lines": row["lines"] / 2,
            "writes": row["calls"] / 2,
            "line_bytes": float(row["size"]),
            "archives": len(archives) / 2,
            "stored_bytes": stored / 2,
        }
        bench.note(f"run_of_{calls}_calls", shown, "each, of 2 runs of one round")
        shown_time = sum(
            (row["ended_at"] - row["started_at"]).total_seconds()
            for row in rows.values()
        )
        bench.note(
            f"run_of_{calls}_calls_seconds",
            shown_time / 2,
            "s from its start to its end",
        )


def measure_limits(bench: Bench) -> None:
    """Taking a run of an account with a limit of dollars a day, and freeing runs."""
    account, costs = "measured", {}
    with Database(bench.url, 300) as database:
        for spent in (0, 10_000, 100_000):

            def fill(connection: Any, spent: int = spent) -> None:
                connection.execute("DELETE FROM goal_fleet_limits")
                connection.execute(
                    "INSERT INTO goal_fleet_limits (kind, name, runs, cost_per_day)"
                    " VALUES ('account', 'measured', 1000000, 1e9)"
                )
                connection.execute(
                    "INSERT INTO goal_fleet_runs (run_id, name, objective, job, state, status)"
                    " SELECT 's' || n, 'g', 'Make it.', '{}', 'ended', 'complete'"
                    " FROM generate_series(1, %s) AS n ON CONFLICT DO NOTHING",
                    [spent],
                )
                connection.execute(
                    "INSERT INTO goal_fleet_spending (run_id, day, account, queue, cost_usd)"
                    " SELECT 's' || n, (clock_timestamp() AT TIME ZONE 'utc')::date,"
                    " 'measured', 'default', 0.1"
                    " FROM generate_series(1, %s) AS n ON CONFLICT DO NOTHING",
                    [spent],
                )
                connection.execute("ANALYZE")

            database.call(fill)

            def ask(_: int, database: Database = database) -> None:
                database.call(
                    lambda connection: hold_of(connection, "default", account)
                )

            costs[str(spent)] = bench.cost(_repeat(20, ask), 20).cpu_ms
        bench.note(
            "limit_by_spending_rows", costs, "ms of CPU each, with the row locked"
        )

        def many_workers(connection: Any) -> None:
            connection.execute("DELETE FROM goal_fleet_limits")
            connection.execute("DELETE FROM goal_fleet_spending")
            connection.execute("DELETE FROM goal_fleet_runs WHERE run_id LIKE 's%'")
            connection.execute(
                "INSERT INTO goal_fleet_workers (name, host, pid, jobs)"
                " SELECT 'many' || n, 'h', 1, 1 FROM generate_series(1, 10000) AS n"
            )

        database.call(many_workers)

        def free(_: int) -> None:
            database.call(runs.free_runs_of_dead)

        bench.note_cost("free_runs_of_10000_workers", _repeat(50, free), 50)
        database.call(
            lambda connection: connection.execute(
                "DELETE FROM goal_fleet_workers WHERE name LIKE 'many%'"
            )
        )


def measure_memory(bench: Bench) -> None:
    """Memory of a connection of the server."""

    def own() -> float:
        assert bench.running.process is not None
        total = 0.0
        for child in psutil.Process(bench.running.process.pid).children():
            total += child.memory_full_info().pss
        return total / 2**20

    before = own()
    connections = [connect(bench.url) for _ in range(100)]
    for connection in connections:
        connection.execute(
            "SELECT run_id FROM goal_fleet_runs WHERE state = 'running' LIMIT 1"
        )
    bench.note("connection_memory", (own() - before) / 100, "MiB, proportional")
    for connection in connections:
        connection.close()


def measure_writes(folder: Path) -> dict[str, dict[str, float]]:
    """Intents of many connections at once, on disk: pgbench, with fsync."""
    pgbench = server_program("pgbench")
    assert pgbench is not None
    results = {}
    settings = {**SETTINGS, "fsync": "on"}
    with server(folder / "synced", settings) as running:
        url = running.new_database("writes")
        asyncio.run(prepare_database(url))
        with Database(url) as database:
            worker = fleet_rows.worker(database, "w")
            for number in range(64):
                fleet_rows.submit(database, f"r{number}")
                fleet_rows.taken(database, worker, f"r{number}")
        script = folder / "intent.sql"
        script.write_text(
            "\\set seq random(1, 2000000000)\n"
            "WITH lease AS (SELECT run_id, token FROM goal_fleet_runs"
            " WHERE run_id = 'r' || :client_id AND token = 1 AND state = 'running'"
            " FOR SHARE) INSERT INTO goal_fleet_intents (run_id, token, seq, line)"
            f" SELECT run_id, token, :seq, '{LINE}' FROM lease ON CONFLICT DO NOTHING;\n"
        )
        for clients in (1, 16, 64):
            ended = subprocess.run(
                [pgbench, "-n", "-M", "prepared", "-T", "6", "-c", str(clients), "-f", str(script), url],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            (line,) = [
                row for row in ended.stdout.splitlines() if row.startswith("tps")
            ]
            results[str(clients)] = float(line.split()[2])
    return results  # type: ignore[return-value]


@contextlib.contextmanager
def _bench() -> Iterator[Bench]:
    folder = Path(tempfile.mkdtemp(prefix="goal-measures-"))
    folder.chmod(0o755)
    try:
        with server(folder / "server", SETTINGS) as running:
            url = running.new_database("measures")
            asyncio.run(prepare_database(url))
            with connect(url) as connection:
                connection.execute("CREATE EXTENSION pg_stat_statements")
            yield Bench(running, url, folder)
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def _machine() -> str:
    one, _, _ = os.getloadavg()
    return f"{os.cpu_count()} processors, load {one:.0f} when it ended"


def main() -> None:
    # The server is to be ended as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _bench() as bench:
        measure_worker(bench, "idle_worker")
        measure_worker(bench, "busy_worker", 1)
        measure_statements(bench)
        measure_queue(bench)
        measure_notifications(bench)
        measure_memory(bench)
        measure_limits(bench)
        measure_runs(bench)
        writes = measure_writes(bench.folder)
        bench.note("synced_intents_a_second", writes, "by connections at once")  # type: ignore[arg-type]
        measure_depth(bench)
        measure_worker(bench, "idle_worker_deep")
        measured_on = {"value": time.strftime("%Y-%m-%d"), "unit": _machine()}
        values = {"measured_on": measured_on, **bench.values}
        FILE.write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main()
