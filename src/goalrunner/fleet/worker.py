"""A worker: it takes runs from the queue, and drives each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from procrastinate.exceptions import ConnectorException

from goalrunner.core.errors import ExitCode, GoalError, UsageError, os_errors
from goalrunner.fleet import DEFAULT_QUEUE, LEASE, VARIABLE
from goalrunner.fleet.database import (
    AsyncDatabase,
    DatabaseUnreachable,
    require_schema,
)
from goalrunner.fleet.job import FleetJob
from goalrunner.fleet.limits import runs_over_budget
from goalrunner.fleet.queue import (
    enqueue,
    queue_app,
    queue_name,
    queues_of,
    remove_stalled_jobs,
)
from goalrunner.fleet.run_place import WorkerPlace
from goalrunner.fleet.run_process import HUNG, TRY_AGAIN, RunRequest
from goalrunner.fleet.runs import (
    TakenRun,
    WorkerRow,
    answer_request,
    cancelled_runs,
    free_runs_of_dead,
    give_back,
    has_followers,
    heartbeat,
    is_draining,
    open_requests,
    ready_runs,
    register,
    runs_of_worker,
    sign_off,
    take_run,
    take_upkeep,
    update_summary,
)
from goalrunner.records.files import write_whole
from goalrunner.records.run_folder import write_json
from goalrunner.records.run_summaries import read_summary

_DECISIONS = (["approve"], ["deny"], ["answer"], ["note"])
"""The commands that people may give to the worker of a run."""
_LONGEST_DECISION = 60.0
_END_OF_OUTPUT = 4_000
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
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    labels: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    sandbox: str = "bwrap"
    """Of agents and validators, where a goal names none."""
    lease: float = LEASE
    least_space: int = 256 * 2**20
    """Bytes that the disk of `root` must have free for another run."""


class FleetWorker:
    """Takes runs until a signal ends it."""

    def __init__(
        self, url: str, options: WorkerOptions, say: Callable[[str], None]
    ) -> None:
        """`say` prints a line for people."""
        self._url = url
        self._options = options
        self._say = say
        self._app = queue_app(url, self._drive, lambda: self._is_ending)
        # A connection of their own: what takes long must not delay the signs of life.
        self._heartbeats = AsyncDatabase(url)
        self._ask = AsyncDatabase(url).ask
        self._worker_id = 0
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._at_work: set[str] = set()
        self._interrupted: set[str] = set()
        """Runs that this worker ended, which did not fail."""
        self._stopped_since: dict[str, float] = {}
        """When a process was first seen that a signal such as SIGSTOP has stopped."""
        self._reported: dict[str, dict[str, Any]] = {}
        """The figures of runs as they were last recorded."""
        self._is_ending = False
        self._error: GoalError | None = None
        """Why this worker cannot go on."""

    @property
    def name(self) -> str:
        """Its name in the fleet."""
        return self._options.name

    @property
    def runs_at_work(self) -> int:
        """How many runs it has now."""
        return len(self._at_work)

    async def work(self) -> None:
        """Take runs until SIGTERM or SIGINT; then let those at work end in order.

        Raise GoalError if the worker cannot begin, or cannot go on.
        """
        options = self._options
        names = queues_of(options.queues, options.labels, options.secrets)
        with os_errors(
            f"cannot use {options.root}", "choose another --root", UsageError
        ):
            options.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._ask(require_schema)
        await self._register()
        async with self._app.open_async():
            await remove_stalled_jobs(self._app)
            queue = asyncio.create_task(
                self._app.run_worker_async(
                    queues=names,
                    name=options.name,
                    concurrency=options.jobs,
                    # How a run ended is in its own row.
                    delete_jobs="always",
                    # Its handlers would not end the processes of runs.
                    install_signal_handlers=False,
                )
            )
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._end, queue)
            life = asyncio.gather(self._live(queue), self._keep_house(queue))
            try:
                # It is cancelled to end it, and then still waits for the runs at work,
                # for which the signs of life go on.
                with contextlib.suppress(asyncio.CancelledError):
                    await queue
            finally:
                life.cancel()
                # Otherwise its runs are taken over after a lease.
                with contextlib.suppress(DatabaseUnreachable):
                    await self._ask(sign_off, self._worker_id)
        if self._error is not None:
            raise self._error

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

    def _end(self, queue: asyncio.Task[None]) -> None:
        """End the runs at work in order, and take no further one."""
        self._is_ending = True
        queue.cancel()
        for process in self._processes.values():
            _signal(process, signal.SIGTERM)

    async def _live(self, queue: asyncio.Task[None]) -> None:
        """Show that this worker is alive."""
        while True:
            with contextlib.suppress(DatabaseUnreachable):
                is_alive = await self._heartbeats.ask(
                    heartbeat, self._worker_id, self._options.lease
                )
                if not is_alive:
                    await self._begin_again(queue)
            await asyncio.sleep(self._pause)

    async def _keep_house(self, queue: asyncio.Task[None]) -> None:
        """Do what is to be done now and then; an error of one thing delays no other."""
        while True:
            for chore in (
                self._look_after_all_runs,
                self._give_back_forgotten,
                self._kill_stopped,
                self._report_progress,
                self._stop_runs_over_budget,
                self._cancel_runs,
                self._perform_requests,
            ):
                try:
                    await chore()
                except DatabaseUnreachable:
                    # Nothing is lost: it is done when the database answers.
                    continue
                except (GoalError, OSError, ConnectorException) as error:
                    self._say(f"worker {self._options.name}: {error}")
            await self._look_whether_to_end(queue)
            await asyncio.sleep(self._pause)

    @property
    def _pause(self) -> float:
        return self._options.lease / _HEARTBEATS_OF_LEASE

    async def _look_whether_to_end(self, queue: asyncio.Task[None]) -> None:
        try:
            # Another version of the program may have changed it meanwhile.
            await self._ask(require_schema)
            if await self._ask(is_draining, self._worker_id):
                self._end_when_idle(queue)
        except DatabaseUnreachable:
            return
        except UsageError as error:
            self._error = error
            self._end_when_idle(queue)

    async def _begin_again(self, queue: asyncio.Task[None]) -> None:
        """Register anew after this worker was taken for dead.

        It was stopped for longer than a lease, and its runs belong to others.
        """
        self._say(f"worker {self._options.name} was taken for dead; it begins again")
        # Their lines are refused, and this ends calls that are still at work.
        for process in self._processes.values():
            _signal(process, signal.SIGKILL)
        try:
            await self._register()
        except UsageError as error:
            # Another worker has the name now.
            self._error = error
            self._end_when_idle(queue)

    def _end_when_idle(self, queue: asyncio.Task[None]) -> None:
        # The queue takes nothing more, and waits for the runs at work.
        self._is_ending = True
        queue.cancel()

    async def _look_after_all_runs(self) -> None:
        """Do for all workers what one of them does at a time."""
        if await self._ask(take_upkeep, self._pause):
            await self._ask(free_runs_of_dead, self._options.lease, self._worker_id)
            await self._enqueue_ready()

    async def _enqueue_ready(self) -> None:
        for run in await self._ask(ready_runs):
            name = queue_name(run.queue, run.labels, run.secrets)
            await enqueue(self._app, run.run_id, name, run.priority)

    async def _give_back_forgotten(self) -> None:
        """Give runs back that nothing here drives.

        The database had given them, and its answer was lost.
        """
        for taken_run in await self._ask(runs_of_worker, self._worker_id):
            # A run is noted as at work before the database is asked for it, so this
            # does not give back what is just taken.
            if taken_run.run_id not in self._at_work:
                reason = f"worker {self._options.name} did not begin it"
                await self._ask(give_back, taken_run, reason, died=False)

    async def _kill_stopped(self) -> None:
        """Kill processes that a signal has stopped for a lease; their runs go on.

        To a process that works or waits, however long its call takes, this does not
        apply.
        """
        now = time.monotonic()
        for run_id, process in self._processes.items():
            if not _is_stopped(process.pid):
                self._stopped_since.pop(run_id, None)
                continue
            since = self._stopped_since.setdefault(run_id, now)
            if now - since >= self._options.lease:
                _signal(process, signal.SIGKILL)

    async def _report_progress(self) -> None:
        """Record the figures of the runs at work, for `goal fleet status`."""
        for run_id in list(self._processes):
            run = WorkerPlace(self._options.root, run_id).run
            if run.summary.exists():
                summary = read_summary(run)
                if summary == self._reported.get(run_id):
                    continue
                await self._ask(update_summary, run_id, self._worker_id, summary)
                self._reported[run_id] = summary

    async def _stop_runs_over_budget(self) -> None:
        """End the runs in order whose day's dollars are spent; they go on tomorrow."""
        for run_id in await self._ask(runs_over_budget, self._worker_id):
            if run_id in self._processes:
                self._interrupted.add(run_id)
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
            # Who can write into the database must not get to run any command here.
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
            try:
                output, _ = await asyncio.wait_for(
                    process.communicate(), _LONGEST_DECISION
                )
                answer = output.decode(errors="replace")
            except TimeoutError:
                process.kill()
                answer = f"it took longer than {_LONGEST_DECISION:g} s\n"
            await self._ask(answer_request, request.request_id, answer)

    def _environ(self) -> dict[str, str]:
        environ = dict(os.environ)
        # The run is one of this machine here, and must not be looked for in the fleet.
        environ.pop(VARIABLE, None)
        return environ

    async def _drive(self, run_id: str) -> None:
        """Take a run and drive it in a process, unless another worker has it."""
        # The queue delivers at least once. What this worker does not do now is queued
        # again by `_enqueue_ready`.
        if self._is_ending or run_id in self._at_work:
            return
        self._at_work.add(run_id)
        try:
            await self._take_and_drive(run_id)
        finally:
            self._at_work.remove(run_id)
            self._reported.pop(run_id, None)
            self._stopped_since.pop(run_id, None)

    async def _take_and_drive(self, run_id: str) -> None:
        if not await self._has_space():
            return
        try:
            taken_run = await self._ask(take_run, run_id, self._worker_id)
        except DatabaseUnreachable:
            # It is queued again when the database answers.
            return
        if taken_run is None:
            return
        self._say(f"{run_id} begins")
        try:
            code = await self._run_process(taken_run)
        except (GoalError, OSError) as error:
            self._say(f"{run_id}: {error}")
            code = int(ExitCode.FAILED)
        signals = (signal.SIGTERM, signal.SIGINT)
        # asyncio reports a signal as a negative number; a program that handles it exits
        # with 128 and the number.
        was_interrupted = -code in signals or code - 128 in signals
        was_ended = self._is_ending or was_interrupted or run_id in self._interrupted
        self._interrupted.discard(run_id)
        died = not was_ended and code != TRY_AGAIN
        reason = self._why_it_ended(run_id, code)
        state = await self._give_back(taken_run, reason, died=died)
        # Without a state, its process has recorded the end, or another one has the run.
        self._say(f"{run_id}: {state or f'ended with exit code {code}'}")
        with contextlib.suppress(DatabaseUnreachable, ConnectorException):
            if state == "queued" or await self._ask(has_followers, run_id):
                await self._enqueue_ready()

    def _why_it_ended(self, run_id: str, code: int) -> str:
        """Return why the process of a run ended before the run did."""
        process = f"its process on {self._options.name}"
        if run_id in self._stopped_since:
            return f"{process} was stopped by a signal, and killed after a while"
        reason = f"{process} ended with exit code {code}"
        error_message = _last_error(WorkerPlace(self._options.root, run_id).output)
        # A process that was killed has printed none.
        return f"{reason}: {error_message}" if error_message and code > 0 else reason

    async def _give_back(
        self, taken_run: TakenRun, reason: str, *, died: bool
    ) -> str | None:
        """Give a run back, when the database answers; return its state."""
        while True:
            try:
                return await self._ask(give_back, taken_run, reason, died=died)
            except DatabaseUnreachable as error:
                if self._is_ending:
                    # Another worker takes it after a lease.
                    return str(error)
                await asyncio.sleep(self._pause)

    async def _has_space(self) -> bool:
        """Wait until the disk has space for a run; return False if the worker ends."""
        was_full = False
        while not self._is_ending:
            if shutil.disk_usage(self._options.root).free >= self._options.least_space:
                return True
            if not was_full:
                was_full = True
                self._say(
                    f"worker {self._options.name}: the disk of {self._options.root} "
                    "is full; it takes no run until there is space"
                )
            # The run that is at hand can be taken by others meanwhile.
            await asyncio.sleep(self._pause)
        return False

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
            shipped_token=taken_run.shipped_token,
            job=FleetJob.model_validate(taken_run.job),
            store=options.store,
            root=str(options.root),
            sandbox=options.sandbox,
        )
        file = place.folder / "request.json"
        write_whole(file, request.model_dump_json().encode())
        module = "goalrunner.fleet.run_process"
        with place.output.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", module, str(file)),
                env={**os.environ, VARIABLE: self._url},
                # When this worker is killed, the pipe ends, and the process does.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                # Ctrl-C at the terminal of this worker must not end it: a run ends in
                # order, after it has given up its calls.
                start_new_session=True,
            )
        self._processes[taken_run.run_id] = process
        try:
            return await process.wait()
        finally:
            del self._processes[taken_run.run_id]


def _last_error(output: Path) -> str:
    """Return the last error message of a run's process; empty if there is none."""
    try:
        end = output.read_bytes()[-_END_OF_OUTPUT:].decode(errors="replace")
    except OSError:
        return ""
    _, hung, later_output = f"\n{end}".rpartition(HUNG)
    if hung and "\nError: " not in later_output:
        return f"it hung, and {output} says where"
    _, _, message = f"\n{end}".rpartition("\nError: ")
    return message.partition("\n")[0] if message != f"\n{end}" else ""


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _is_stopped(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        # It has ended.
        return False
