"""The process of one run of a fleet: it runs a goal on this machine, or resumes it.

`python -P -m goalrunner.fleet.run_process REQUEST` is started by a worker. It may be
killed at any time, and started again here or elsewhere.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import stat
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from goalrunner.app.previous_run import load_run
from goalrunner.app.run_options import RunOptions
from goalrunner.app.run_snapshots import KeptStore, RunSnapshots
from goalrunner.app.session import arun, resume_run
from goalrunner.app.stored_goal import frozen_goal
from goalrunner.cli import main, output
from goalrunner.cli.background import DetachedApprover
from goalrunner.cli.drive import open_progress, workspace_state
from goalrunner.core.errors import WorkspaceBusy
from goalrunner.core.field_types import Frozen
from goalrunner.core.outcome import GoalOutcome
from goalrunner.fleet import VARIABLE, runs
from goalrunner.fleet.database import Database, DatabaseUnreachable
from goalrunner.fleet.intents import (
    IntentRefused,
    IntentWriter,
    lines_of,
    lost_lines,
)
from goalrunner.fleet.job import FleetJob, with_sandbox
from goalrunner.fleet.limits import FleetPauses
from goalrunner.fleet.run_place import (
    AbandonedRound,
    Lines,
    WorkerPlace,
    abandoned_round,
)
from goalrunner.fleet.runs import TakenRun
from goalrunner.fleet.shipping import Shipping
from goalrunner.fleet.sources import unpack
from goalrunner.fleet.store import FleetStore, StoreUnavailable, patiently
from goalrunner.goalfile.loading import with_default_wait
from goalrunner.records.event_log import has_begun
from goalrunner.records.run_summaries import read_summary
from goalrunner.system.watchdog import end_with_parent

T = TypeVar("T")

_LONGEST_BLOCK = 600.0
"""Seconds for which the event loop may be blocked. All that takes long is awaited; the
longest wait that blocks it is the one for the database, of two minutes.
"""
HUNG = "\nTimeout ("
"""What is printed before the traceback of a process that hangs."""
_PATIENCE = 600.0
"""Seconds to try again while the store does not answer."""
TRY_AGAIN = os.EX_TEMPFAIL
"""The exit code if nothing is wrong with the run: a service does not answer, or another
worker has the run.
"""


class RunRequest(Frozen):
    """What a worker asks this process to do."""

    run_id: str
    token: int
    previous_token: int
    shipped: tuple[str, ...]
    shipped_seq: int
    shipped_token: int
    job: FleetJob
    store: str
    """The URL of the store."""
    root: str
    """The folder of the fleet on this machine."""
    sandbox: str
    """For goals that name none."""

    @property
    def taken_run(self) -> TakenRun:
        return TakenRun(
            self.run_id,
            self.token,
            self.job.model_dump(),
            self.previous_token,
            self.shipped,
            self.shipped_seq,
            self.shipped_token,
        )


@dataclass(frozen=True)
class _Drive:
    """One run on this machine."""

    request: RunRequest
    database_url: str

    @property
    def place(self) -> WorkerPlace:
        return WorkerPlace(Path(self.request.root), self.request.run_id)

    @property
    def store(self) -> FleetStore:
        return FleetStore(self.request.store)

    def to_end(self) -> int:
        """Drive the run to its end, and record the end; return the exit code."""
        with (
            Database(self.database_url) as database,
            # A thread stores archives, and would hold up the lines of the log.
            Database(self.database_url) as shipping_database,
            self.place.held(),
        ):
            abandoned = self._prepare(database)
            shipping = Shipping(
                shipping_database, self.store, self.request.taken_run, self.place
            )
            outcome = self._outcome(database, shipping, abandoned)
            if outcome.signal is not None:
                # It was interrupted, and goes on when a worker takes it again.
                return outcome.exit_code
            # The files first: after its end, no worker has the run, and nothing would
            # store them.
            shipping.finish(_PATIENCE)
            summary = read_summary(self.place.run)
            database.call(
                lambda connection: runs.end_run(
                    connection,
                    self.request.taken_run,
                    str(outcome.status),
                    outcome.exit_code,
                    summary,
                )
            )
        return outcome.exit_code

    def _prepare(self, database: Database) -> AbandonedRound:
        """Make the place as it was; return what was lost with another machine."""
        request, place = self.request, self.place
        taken_run = request.taken_run
        previous_lines = database.call(
            lambda connection: lines_of(
                connection, request.run_id, request.previous_token
            )
        )
        source = request.job.source.source()
        if place.has_newest_records(taken_run, previous_lines):
            # A process that was killed early has perhaps not made the workspace.
            patiently(lambda: unpack(source, self.store, place.project), _PATIENCE)
            place.note_holder(taken_run, is_new=False)
            place.add_lines(previous_lines)
            self._add_to_database(database, previous_lines)
            return AbandonedRound()
        lost = database.call(lambda connection: lost_lines(connection, taken_run))
        abandoned = abandoned_round(request.run_id, lost)
        patiently(lambda: place.fetch(taken_run, self.store), _PATIENCE)
        workspace = patiently(
            lambda: unpack(source, self.store, place.project), _PATIENCE
        )
        if has_begun(place.run.events):
            self._restore(workspace)
        # The last step: until then, the files here do not count as those of the run.
        place.note_holder(taken_run, is_new=True)
        return abandoned

    def _add_to_database(self, database: Database, lines: Lines) -> None:
        """Write the lines that the log here has after the last one of the database.

        No effect followed them when the process was killed.
        """
        if not lines:
            return
        missing_lines = self.place.lines_after(lines[-1][0])
        if missing_lines:
            write = IntentWriter(database, self.request.run_id, self.request.token)
            write(missing_lines)

    def _restore(self, workspace: Path) -> None:
        """Give the workspace the files with which the last stored round ended."""
        loaded = load_run(self.place.run)
        _, snapshot = RunSnapshots.of(loaded).end(None)
        snapshots_here = KeptStore(
            workspace, self.place.home, os.environ, start=self.place.run.start
        )
        try:
            main.wait_for(snapshots_here.perform(snapshot))
        finally:
            snapshots_here.store.close()

    def _outcome(
        self,
        database: Database,
        shipping: Shipping,
        abandoned: AbandonedRound,
    ) -> GoalOutcome:
        """Run the goal, or resume its run."""
        request, place = self.request, self.place
        pauses = FleetPauses(database, request.run_id)
        with open_progress(sys.stdout, place=workspace_state) as progress:
            options = RunOptions(
                home=place.home,
                goal_file=place.project / request.job.goal_file,
                run_id=request.run_id,
                observers=(progress, shipping, pauses),
                # People decide from other machines.
                approver=DetachedApprover(),
                log_mirror=IntentWriter(database, request.run_id, request.token),
                refuse_call=pauses.refuse_call,
                lost_usage=abandoned.usage,
                abandoned_calls=abandoned.calls,
            )
            if has_begun(place.run.events):
                loaded = load_run(place.run)
                if loaded.state.is_over:
                    # Its process was killed before it recorded the end for the fleet.
                    return loaded.outcome(place.run)
                recorded_goal = frozen_goal(place.run, os.environ, loaded.goal_file)
                goal = with_sandbox(recorded_goal, request.sandbox)
                start = resume_run(place.run, options, {}, goal=goal)
            else:
                # What a process left that was killed before the run began.
                if place.run.path.exists():
                    place.run.remove()
                goal = request.job.goal(place.project, request.sandbox)
                start = arun(with_default_wait(goal), options)
            outcome = main.wait_for(unless_hung(start, _LONGEST_BLOCK))
            progress.finish(outcome)
        return outcome


async def unless_hung(work: Coroutine[Any, Any, T], limit: float) -> T:
    """Return the result of a coroutine; end the process if it blocks the event loop.

    After `limit` seconds in which the loop could do nothing else, no limit of the goal
    holds, and no request of a person is heard. A traceback is printed, the exit code is
    1, and the run goes on in another process.
    """
    postponing = asyncio.create_task(_postpone_end(limit))
    # The work may block the loop before it awaits anything.
    await asyncio.sleep(0)
    try:
        return await work
    finally:
        postponing.cancel()
        faulthandler.cancel_dump_traceback_later()


async def _postpone_end(limit: float) -> None:
    """Show again and again that the event loop does its work."""
    while True:
        # Its thread is not one of Python: it also ends a process in which a search by a
        # regular expression never ends.
        faulthandler.dump_traceback_later(limit, exit=True, file=2)
        await asyncio.sleep(limit / 10)


def drive_requested_run() -> int:
    """Do what the request says; return the exit code of the run."""
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        handle = os.dup(0)
        # Programs of the agent do not inherit the pipe of the worker.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        end_with_parent(handle)
    # Neither may they reach the database.
    database_url = os.environ.pop(VARIABLE)
    request = RunRequest.model_validate_json(Path(sys.argv[1]).read_bytes())
    try:
        return _Drive(request, database_url).to_end()
    except (
        DatabaseUnreachable,
        IntentRefused,
        StoreUnavailable,
        WorkspaceBusy,
    ) as error:
        output.complain(main.error_text(error))
        return TRY_AGAIN


if __name__ == "__main__":
    main.program(drive_requested_run)
