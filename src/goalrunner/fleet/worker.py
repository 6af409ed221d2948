"""A worker: it takes runs from the queue, and drives each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from goalrunner.core.errors import ExitCode, GoalError
from goalrunner.fleet import VARIABLE
from goalrunner.fleet.database import (
    Connection,
    Database,
    DatabaseUnreachable,
    require_schema,
)
from goalrunner.fleet.job import FleetJob
from goalrunner.fleet.limits import runs_over_budget
from goalrunner.fleet.queue import enqueue, queue_app, queue_name, queues_of
from goalrunner.fleet.run_place import WorkerPlace
from goalrunner.fleet.run_process import RunRequest
from goalrunner.fleet.runs import (
    LEASE,
    TakenRun,
    WorkerRow,
    answer_request,
    cancelled_runs,
    free_runs_of_dead,
    give_back,
    heartbeat,
    is_draining,
    open_requests,
    ready_runs,
    register,
    runs_of_worker,
    sign_off,
    take_run,
    update_summary,
)
from goalrunner.records.files import write_whole
from goalrunner.records.run_folder import write_json
from goalrunner.records.run_summaries import read_summary

P = ParamSpec("P")
T = TypeVar("T")
_DECISIONS = (["approve"], ["deny"], ["answer"], ["note"])
"""The commands that people may give to the worker of a run."""
_HEARTBEATS_OF_LEASE = 6
"""So many signs of life fit into a lease: some may be late, or lost."""


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker was started."""

    name: str
    jobs: int
    root: Path
    """The folder of the fleet on this machine; the same path on all of them."""
    store: str
    """The URL of the store."""
    queues: tuple[str, ...] = ("default",)
    labels: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    sandbox: str = "bwrap"
    """Of agents and validators, where a goal names none."""
    lease: float = LEASE


class FleetWorker:
    """Takes runs until a signal ends it."""

    def __init__(
        self, url: str, options: WorkerOptions, say: Callable[[str], None]
    ) -> None:
        """`say` prints a line for people."""
        self._url = url
        self._options = options
        self._say = say
        self._app = queue_app(url, self._drive)
        self._worker_id = 0
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._at_work: set[str] = set()
        self._stopped: set[str] = set()
        """Runs that this worker ended, which did not fail."""
        self._is_ending = False

    async def work(self) -> None:
        """Take runs until SIGTERM or SIGINT; then let those at work end in order.

        Raise GoalError if the worker cannot begin.
        """
        options = self._options
        names = queues_of(options.queues, options.labels, options.secrets)
        await self._ask(require_schema)
        await self._register()
        async with self._app.open_async():
            queue = asyncio.create_task(
                self._app.run_worker_async(
                    queues=names,
                    name=options.name,
                    concurrency=options.jobs,
                    delete_jobs="always",
                    install_signal_handlers=False,
                )
            )
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._end, queue)
            life = asyncio.create_task(self._live(queue))
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    await queue
            finally:
                life.cancel()
                with contextlib.suppress(DatabaseUnreachable):
                    await self._ask(sign_off, self._worker_id)

    async def _register(self) -> None:
        row = WorkerRow(
            self._options.name,
            socket.gethostname(),
            os.getpid(),
            self._options.jobs,
            self._options.queues,
            self._options.labels,
            self._options.secrets,
        )
        self._worker_id = await self._ask(register, row)

    async def _ask(
        self,
        work: Callable[Concatenate[Connection, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Return what a short transaction returns. Raise DatabaseUnreachable."""

        def call() -> T:
            with Database(self._url) as database:
                return database.call(
                    lambda connection: work(connection, *arguments, **named)
                )

        return await asyncio.to_thread(call)

    def _end(self, queue: asyncio.Task[None]) -> None:
        """End the runs at work in order, and take no further one."""
        self._is_ending = True
        queue.cancel()
        for process in self._processes.values():
            _signal(process, signal.SIGTERM)

    async def _live(self, queue: asyncio.Task[None]) -> None:
        """Show that this worker is alive, and do what is to be done now and then."""
        while True:
            # Nothing here is lost if the database does not answer for a while.
            with contextlib.suppress(DatabaseUnreachable):
                if not await self._ask(heartbeat, self._worker_id):
                    await self._begin_again()
                await self._ask(free_runs_of_dead, self._options.lease)
                await self._give_back_forgotten()
                await self._enqueue_ready()
                await self._report_progress()
                await self._stop_runs_over_budget()
                await self._cancel_runs()
                await self._perform_requests()
                if await self._ask(is_draining, self._worker_id):
                    self._end_when_idle(queue)
            await asyncio.sleep(self._options.lease / _HEARTBEATS_OF_LEASE)

    async def _begin_again(self) -> None:
        """Register anew after this worker was taken for dead.

        It was stopped for longer than a lease, and its runs belong to others.
        """
        self._say(f"worker {self._options.name} was taken for dead; it begins again")
        for process in self._processes.values():
            _signal(process, signal.SIGKILL)
        await self._register()

    def _end_when_idle(self, queue: asyncio.Task[None]) -> None:
        # The queue takes nothing more, and waits for the runs at work.
        self._is_ending = True
        queue.cancel()

    async def _enqueue_ready(self) -> None:
        for run in await self._ask(ready_runs):
            name = queue_name(run.queue, run.labels, run.secrets)
            await enqueue(self._app, run.run_id, name, run.priority)

    async def _give_back_forgotten(self) -> None:
        """Give runs back that nothing here drives.

        The database did not answer when their process had ended.
        """
        for taken_run in await self._ask(runs_of_worker, self._worker_id):
            if taken_run.run_id not in self._at_work:
                reason = f"its process on {self._options.name} has ended"
                await self._ask(give_back, taken_run, reason, died=True)

    async def _report_progress(self) -> None:
        """Record the figures of the runs at work, for `goal fleet status`."""
        for run_id in list(self._processes):
            run = WorkerPlace(self._options.root, run_id).run
            if run.summary.exists():
                summary = read_summary(run)
                await self._ask(update_summary, run_id, self._worker_id, summary)

    async def _stop_runs_over_budget(self) -> None:
        """End the runs in order whose day's dollars are spent; they go on tomorrow."""
        for run_id in await self._ask(runs_over_budget, self._worker_id):
            if run_id in self._processes:
                self._stopped.add(run_id)
                _signal(self._processes[run_id], signal.SIGTERM)

    async def _cancel_runs(self) -> None:
        for run_id, reason in (
            await self._ask(cancelled_runs, self._worker_id)
        ).items():
            run = WorkerPlace(self._options.root, run_id).run
            if run.path.exists():
                write_json(run.cancellation, {"said": reason})

    async def _perform_requests(self) -> None:
        for request in await self._ask(open_requests, self._worker_id):
            if request.arguments[:1] not in _DECISIONS:
                answer = "a worker performs only decisions about a run\n"
                await self._ask(answer_request, request.request_id, answer)
                continue
            home = WorkerPlace(self._options.root, request.run_id).home
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "goalrunner", *request.arguments),
                env={**self._environ(), "GOAL_HOME": str(home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            answer = output.decode(errors="replace")
            await self._ask(answer_request, request.request_id, answer)

    def _environ(self) -> dict[str, str]:
        environ = dict(os.environ)
        environ.pop(VARIABLE, None)
        return environ

    async def _drive(self, run_id: str) -> None:
        """Take a run and drive it in a process, unless another worker has it."""
        if self._is_ending or run_id in self._at_work:
            return
        self._at_work.add(run_id)
        try:
            await self._take_and_drive(run_id)
        finally:
            self._at_work.remove(run_id)

    async def _take_and_drive(self, run_id: str) -> None:
        taken_run = await self._ask(take_run, run_id, self._worker_id)
        if taken_run is None:
            return
        self._say(f"{run_id} begins")
        try:
            code = await self._run_process(taken_run)
        except (GoalError, OSError) as error:
            self._say(f"{run_id}: {error}")
            code = int(ExitCode.FAILED)
        was_interrupted = -code in (signal.SIGTERM, signal.SIGINT)
        was_stopped = self._is_ending or was_interrupted or run_id in self._stopped
        self._stopped.discard(run_id)
        reason = f"its process on {self._options.name} ended with exit code {code}"
        state = await self._ask(give_back, taken_run, reason, died=not was_stopped)
        # Without a state, its process has recorded the end, or another one has the run.
        self._say(f"{run_id}: {state or f'ended with exit code {code}'}")
        await self._enqueue_ready()

    async def _run_process(self, taken_run: TakenRun) -> int:
        """Run the process of a run to its end; return its exit code."""
        options = self._options
        place = WorkerPlace(options.root, taken_run.run_id)
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        request = RunRequest(
            run_id=taken_run.run_id,
            token=taken_run.token,
            previous_token=taken_run.previous_token,
            shipped=taken_run.shipped,
            shipped_seq=taken_run.shipped_seq,
            job=FleetJob.model_validate(taken_run.job),
            store=options.store,
            root=str(options.root),
            sandbox=options.sandbox,
        )
        file = place.folder / "request.json"
        write_whole(file, request.model_dump_json().encode())
        module = "goalrunner.fleet.run_process"
        with (place.folder / "output.log").open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", module, str(file)),
                env={**os.environ, VARIABLE: self._url},
                # When this worker is killed, the pipe ends, and the process does.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes[taken_run.run_id] = process
        try:
            return await process.wait()
        finally:
            del self._processes[taken_run.run_id]


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
