"""The process of one entry of a batch: it runs a goal in a copy, or resumes its run.

`python -P -m goalrunner.batches.worker BATCH_FOLDER KEY RUN_ID` is also what a job of a
cluster executes. It may be killed and started again at any time.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.plan import BatchEntry
from goalrunner.cli import main
from goalrunner.copies import INSIDE
from goalrunner.copies.run_copy import RunCopy
from goalrunner.core.errors import RecordError, UsageError, WorkspaceBusy
from goalrunner.goalfile.place import PYPROJECT
from goalrunner.records.event_log import has_begun
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.system.watchdog import end_with_parent

if TYPE_CHECKING:
    from goalrunner.core.goal import Goal

_PATIENCE = 60.0
"""Seconds for an earlier process of the same entry to end."""


@dataclass(frozen=True)
class Assignment:
    """What a worker was started for."""

    batch: BatchFolder
    entry: BatchEntry
    run: RunFolder

    @classmethod
    def of(cls, folder: str, key: str, run_id: str) -> Assignment:
        """Return the assignment of a command line. Raise RecordError."""
        batch = BatchFolder(Path(folder))
        run = RunFolder(batch.home / RUNS / run_id)
        return cls(batch, batch.plan().entry(key), run)

    def goal(self) -> Goal:
        """Return the goal as it was submitted. Raise GoalFileError."""
        from goalrunner.batches.frozen_goal import goal_of

        text = self.batch.goal_file(self.entry.key).read_text("utf-8")
        return goal_of(self.entry, text)

    @property
    def goal_file(self) -> Path | None:
        """The file of the goal; None if it is in no file of its own."""
        path = Path(self.entry.source)
        return path if self.entry.source and path.name != PYPROJECT else None


def command_line(batch: BatchFolder, key: str, run_id: str) -> list[str]:
    """Return the command line of the worker of an entry."""
    module = "goalrunner.batches.worker"
    # With -P, no file of the workspace is imported in place of a module.
    return [sys.executable, "-P", "-m", module, str(batch.path), key, run_id]


def work() -> int:
    """Do what the command line of this process says; return the exit code."""
    end_with_scheduler()
    assignment = Assignment.of(*sys.argv[1:])
    # Removed, so that no `goal` that an agent starts takes itself for this process.
    if os.environ.pop(INSIDE, ""):
        return _drive(assignment)
    return _enter(assignment, sys.argv[1:])


def end_with_scheduler() -> None:
    """End this process when the scheduler does, also by kill -9.

    The scheduler holds the other end of the pipe that is stdin here.
    """
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        # A cluster started this process.
        return
    if INSIDE not in os.environ:
        handle = 0  # the program that is started by exec needs it as well
    else:
        handle = os.dup(0)
        # Programs of the agent do not inherit the pipe.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
    end_with_parent(handle)


def _enter(assignment: Assignment, arguments: list[str]) -> int:
    """Become a process in the copy of the run, which is made if it has none."""
    from goalrunner.copies.entering import inner_command, make_copy

    batch, entry, run = assignment.batch, assignment.entry, assignment.run
    # Also held after exec. The earlier process of a killed scheduler may still work.
    lock = _lock(batch.path / f"worker-{entry.key}.lock")
    os.set_inheritable(lock, True)
    if not has_begun(run.events):
        # It was killed before its first event: there is nothing to resume.
        if run.path.exists():
            run.remove()
        RunFolder.create(batch.home, run.run_id)
        workspace = Path(entry.workspace)
        why = "its goal needs one" if entry.clone else ""
        make_copy(run, workspace, batch.home, os.environ, clone=why)
    elif not RunCopy.of(run).exists:
        raise UsageError(
            f"the copy of run {run.run_id} was removed, so it cannot go on",
            f"goal show {run.run_id} shows what it did",
        )
    program = command_line(batch, entry.key, run.run_id)
    command = inner_command(RunCopy.of(run), batch.home, program, os.environ)
    command.replace_process()


def _lock(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise WorkspaceBusy(
                    "an earlier process of this goal has not ended",
                    f"it holds {path}",
                ) from None
            time.sleep(0.05)
        else:
            return handle


def _drive(assignment: Assignment) -> int:
    """Run the goal, or resume its run, to the end."""
    from goalrunner.app.run_options import RunOptions
    from goalrunner.app.session import arun, resume_run
    from goalrunner.batches.shared_budget import BudgetObserver, SpentFile
    from goalrunner.batches.shared_pauses import BatchPauses
    from goalrunner.cli.background import DetachedApprover
    from goalrunner.cli.drive import open_progress, workspace_state
    from goalrunner.copies.inside import copy_options, set_up
    from goalrunner.goalfile.loading import with_default_wait

    batch, entry, run = assignment.batch, assignment.entry, assignment.run
    state = batch.state()
    budget = BudgetObserver(SpentFile(batch.spent, state), entry.key, state.limits)
    pauses = BatchPauses(batch.pauses, run.run_id)
    with open_progress(sys.stdout, place=workspace_state) as progress:
        run_options = RunOptions(
            home=batch.home,
            observers=(progress, budget, pauses),
            # stdin is the pipe of the scheduler: people decide in other terminals.
            approver=DetachedApprover(),
            copy=copy_options(RunCopy.of(run)),
            refuse_call=pauses.refuse_call,
        )
        if has_begun(run.events):
            start = resume_run(run, run_options, {})
        else:
            goal = with_default_wait(assignment.goal())
            run_options = replace(run_options, goal_file=assignment.goal_file)
            set_up(goal, run_options)
            start = arun(goal, run_options)
        try:
            outcome = main.wait_for(start)
        except RecordError as error:
            # The outcome may be nowhere on the disk, so the output has to show it.
            if error.outcome is not None:
                progress.finish(error.outcome)
            raise
        progress.finish(outcome)
    return outcome.exit_code


if __name__ == "__main__":
    main.program(work)
