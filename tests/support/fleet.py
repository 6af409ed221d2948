"""A fleet of real workers on a real PostgreSQL, with goals that need no key."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from goalrunner.batches.submission import submit
from goalrunner.core.events import RECORD, RunEnded
from goalrunner.fleet.database import Database
from goalrunner.fleet.queue import prepare_database
from goalrunner.fleet.remote_runs import log_lines
from goalrunner.fleet.runs import queue_again
from goalrunner.fleet.store import FleetStore
from goalrunner.fleet.submission import SubmitOptions, insert_runs, new_ids, new_runs
from tests.support.command_line import environment
from tests.support.recordings import agent, recording, shell
from tests.support.workspaces import git, make_repository

_WORKER = """\
import asyncio, json, sys
from pathlib import Path
from goalrunner.fleet.worker import FleetWorker, WorkerOptions
url, name, jobs, root, store, more = sys.argv[1:]
fixed = {"sandbox": "none", "lease": 6, "least_space": 2**20}
options = WorkerOptions(
    name, int(jobs), Path(root), store, **{**fixed, **json.loads(more)}
)
asyncio.run(FleetWorker(url, options, print).work())
"""
_MACHINE = (
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "machine"),
)
_DISK = (
    *("sh", "-c", 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'),
    "disk",
)
_CLOCK = """\
import time
right_time, right_nanoseconds = time.time, time.time_ns
time.time = lambda: right_time() + {difference}
time.time_ns = lambda: right_nanoseconds() + int({difference} * 1e9)
"""
ENDED = ("ended", "dead")


def can_have_machines() -> bool:
    """Whether a worker can have a root and processes of its own here."""
    if shutil.which("unshare") is None:
        return False
    mount = ["/tmp", "/tmp", "true"]
    return subprocess.run([*_MACHINE, *mount], capture_output=True).returncode == 0


@dataclass
class Fleet:
    """A fleet whose workers are processes of this machine."""

    url: str
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    other_store: FleetStore | None = None

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def store(self) -> FleetStore:
        return self.other_store or FleetStore((self.folder / "store").as_uri())

    def prepare(self) -> None:
        asyncio.run(prepare_database(self.url))
        self.store.try_out()

    def start_worker(
        self,
        name: str,
        jobs: int = 2,
        env: Mapping[str, str] | None = None,
        machine: str = "",
        disks: Mapping[Path, str] | None = None,
        clock: float = 0,
        url: str = "",
        store: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a worker; its output is in a file beside the store.

        With the name of a machine, the root of the fleet is a folder of that name, and
        processes of other machines do not exist for it; `disks` are small ones of its
        own, with their sizes. Its clock differs by `clock` seconds. `options` are others of `WorkerOptions`.
        """
        prefix: list[str] = []
        if machine:
            own_root = self.folder / machine
            own_root.mkdir(exist_ok=True)
            self.root.mkdir(exist_ok=True)
            prefix += [*_MACHINE, str(own_root), str(self.root)]
        for disk, size in (disks or {}).items():
            prefix += [*_DISK, size, str(disk)]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(*prefix, sys.executable, "-c", _WORKER, url or self.url, name),
                    *(str(jobs), str(self.root), store or self.store.url),
                    json.dumps(options or {}),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(
                    PYTHONUNBUFFERED="1", **(env or {}), **self._clock(clock)
                ),
            )
        self.workers.append(process)
        return process

    def _clock(self, difference: float) -> dict[str, str]:
        """Variables with which processes of Python have another time.

        libfaketime breaks the semaphores of Python.
        """
        if not difference:
            return {}
        folder = self.folder / f"clock{difference:g}"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_CLOCK.format(difference=difference))
        return {"PYTHONPATH": str(folder)}

    def submit(self, project: Path, options: SubmitOptions | None = None) -> list[str]:
        """Submit the goal files of a folder; return the ids of their runs."""
        options = options or SubmitOptions()
        submission = submit(sorted(project.glob("*.toml")), None, {})
        with Database(self.url) as database:
            run_ids = database.call(
                lambda connection: new_ids(connection, submission.entries)
            )
            new = new_runs(submission, self.store, options, run_ids)
            database.call(lambda connection: insert_runs(connection, new, options))
        return [run.run_id for run in new]

    def rows(self) -> dict[str, dict[str, Any]]:
        """Every run, by its id."""
        with Database(self.url) as database:
            rows = database.call(
                lambda connection: connection.execute(
                    "SELECT * FROM goal_fleet_runs"
                ).fetchall()
            )
        return {row["run_id"]: row for row in rows}

    def inside(self, worker: subprocess.Popen[bytes], *command: str | Path) -> None:
        """Run a command with the files of the machine of a worker."""
        children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text()
        namespace = ("nsenter", "--mount", "--target", children.split()[0])
        subprocess.run([*namespace, *map(str, command)], check=True)

    def process_of(self, run_id: str) -> int:
        """The process that drives a run."""
        (pid,) = self.run_processes(run_id)
        return pid

    def run_processes(self, run_id: str = "") -> list[int]:
        """The processes that drive runs of this fleet, or that run."""
        pids: list[int] = []
        request = str(self.root / "runs" / run_id)
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode()
                if "fleet.run_process" in command and request in command:
                    pids.append(int(entry.name))
        return sorted(pids)

    def run_in_database(self, statement: str) -> None:
        with Database(self.url) as database:
            database.call(lambda connection: connection.execute(statement.encode()))

    def alive_workers(self) -> list[str]:
        """The names of the workers that the database takes for alive."""
        with Database(self.url) as database:
            rows = database.call(
                lambda connection: connection.execute(
                    "SELECT name FROM goal_fleet_workers WHERE stopped_at IS NULL"
                ).fetchall()
            )
        return sorted(row["name"] for row in rows)

    def retry_dead(self) -> list[str]:
        """Queue the runs again that were given up; return their ids."""
        dead = [key for key, row in self.rows().items() if row["state"] == "dead"]
        with Database(self.url) as database:
            for run_id in dead:
                database.call(partial(queue_again, run_id=run_id))
        return dead

    def calls_of(self, run_id: str) -> int:
        """How many intents of calls of tools the database has, of all workers."""
        with Database(self.url) as database:
            row = database.call(
                lambda connection: connection.execute(
                    "SELECT count(*) AS calls FROM goal_fleet_intents "
                    "WHERE run_id = %s AND line LIKE %s",
                    [run_id, '%"type":"tool_called"%'],
                ).fetchone()
            )
        assert row is not None
        return int(row["calls"])

    def ends_of(self, run_id: str) -> list[str]:
        """The ends in the log of a run, as the database has it.

        A run that a signal has interrupted goes on.
        """
        with Database(self.url) as database:
            lines = database.call(lambda connection: log_lines(connection, run_id))
        ends: list[str] = []
        for _, line in lines:
            event = RECORD.validate_json(line).event
            if isinstance(event, RunEnded) and event.status != "cancelled":
                ends.append(str(event.status))
        return ends

    def lose(self, worker: subprocess.Popen[bytes]) -> None:
        """Let the machine of a worker fail: all of its processes are gone at once."""
        worker.kill()
        worker.wait()

    def wait(
        self,
        is_reached: Callable[[dict[str, dict[str, Any]]], bool],
        seconds: float = 90,
    ) -> dict[str, dict[str, Any]]:
        """Wait until the rows are as wanted; return them."""
        until = time.monotonic() + seconds
        while not is_reached(rows := self.rows()):
            assert time.monotonic() < until, (rows, self.output())
            time.sleep(0.2)
        return rows

    def wait_for_ends(self, seconds: float = 90) -> dict[str, dict[str, Any]]:
        """Wait until no run is queued or running."""
        return self.wait(
            lambda rows: all(row["state"] in ENDED for row in rows.values()), seconds
        )

    def output(self) -> str:
        """What workers and runs have printed."""
        files = [*self.folder.glob("*.log"), *self.root.glob("runs/*/output.log")]
        return "\n".join(f"== {file}\n{file.read_text()[-3000:]}" for file in files)

    def end(self) -> None:
        """End the workers, also stopped ones."""
        for process in self.workers:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
        for process in self.workers:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def fleet(url: str, folder: Path) -> Iterator[Fleet]:
    running = Fleet(url, folder)
    running.prepare()
    try:
        yield running
    finally:
        running.end()


def project(
    folder: Path,
    names: list[str],
    command: str,
    calls: int = 1,
    turns: int = 1,
    cost: float = 0,
) -> Path:
    """A repository with a goal for each name, whose agent runs a command with $NAME.

    It runs it in so many calls of each turn; each reply costs so many dollars.
    """
    usage = {"usage": {"cost_usd": cost}} if cost else {}
    goals = {
        f"{name}.toml": (
            f'objective = "Make the file {name}."\nvalidator = "test -e {name}"\n'
            f'model = "scripted/{name}.jsonl"\nmax_iterations = 3\n'
        )
        for name in names
    }
    make_repository(folder, goals)
    for name in names:
        work = shell(f"NAME={name}; {command}")
        turn = [agent("", work, **usage) for _ in range(calls)]
        turn.append(agent("Done.", **usage))
        recording(folder / f"{name}.jsonl", *(turn * turns))
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "replies")
    return folder


def effects(file: Path) -> list[str]:
    """The lines that commands of agents have written, in order."""
    return file.read_text().split() if file.exists() else []


def processes_left(folder: Path) -> list[str]:
    """The command lines of processes that still work in a folder after some seconds."""
    until = time.monotonic() + 5
    while (left := processes_of(folder)) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that work in a folder of a fleet."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if str(folder) in command and int(entry.name) != os.getpid():
                found.append(command)
    return found
