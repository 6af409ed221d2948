"""The verification of a change in a copy, which is removed at its end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import NoReturn

from goalrunner.app.decisions import cancel_run
from goalrunner.app.preflight import why_clone
from goalrunner.app.run_options import RunOptions
from goalrunner.cli import goals, output, runs
from goalrunner.copies.copy_pruning import discard_copy
from goalrunner.copies.entering import goal_command, inner_command, make_copy
from goalrunner.copies.inside import copy_options
from goalrunner.copies.run_copy import RunCopy
from goalrunner.core.errors import ExitCode, GoalError
from goalrunner.receipts.change_run import ChangeCheck
from goalrunner.receipts.requests import ReceiptRequest
from goalrunner.receipts.statement import Statement, read_statement
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_search import new_run_id
from goalrunner.system.watchdog import end_with_parent


def verified(request: ReceiptRequest) -> Statement:
    """Verify a change in a new copy.

    Raise SystemExit with the exit code of the process in the copy if that failed; it
    has printed the error. Raise EnvironmentFailed if a copy is not possible here.
    """
    home = runs.home()
    run = RunFolder.create(home, new_run_id(home, "receipt"))
    with _removed_on_error(run):
        code, printed = _ask_inside(request, run, home)
    if printed:
        statement = read_statement(printed, "the result")
        if statement.predicate.result == "blocked":
            # Its copy is gone, so the run cannot go on after a decision.
            cancel_run(run, "a receipt does not wait for a decision")
        return statement
    if not run.events.exists():
        run.remove()
    raise SystemExit(code or int(ExitCode.FAILED))


@contextlib.contextmanager
def _removed_on_error(run: RunFolder) -> Iterator[None]:
    """Remove a run if an error or a signal ends the block.

    A service that stops a job sends SIGTERM, which would end this process at once, and
    leave a copy of the repository behind.
    """

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    numbers = [signal.SIGTERM]
    # `nohup` ignores it on purpose.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    earlier = [signal.signal(number, end) for number in numbers]
    try:
        yield
    except BaseException:
        with contextlib.suppress(GoalError, OSError):
            discard_copy(RunCopy.of(run))
        run.remove()
        raise
    finally:
        for number, handler in zip(numbers, earlier, strict=True):
            signal.signal(number, handler)


def _ask_inside(
    request: ReceiptRequest, run: RunFolder, home: Path
) -> tuple[int, bytes]:
    """Let a process in a new copy verify the change.

    Return its exit code, and what it printed. It ends if its standard input is closed,
    as when an error ends the wait for it.
    """
    workspace, clone = Path(request.workspace), _why_clone(request)
    copy = make_copy(run, workspace, home, os.environ, clone=clone)
    request.write(copy)
    program = goal_command(["receipt"])
    with closing(inner_command(copy, home, program, os.environ)) as inner:
        done = inner.run()
    discard_copy(copy)
    return done.returncode, done.stdout


def _why_clone(request: ReceiptRequest) -> str:
    """Return why the copy must be a clone; empty if it need not.

    The goal of the base is not read yet, so that of the work tree tells.
    """
    settings = dict(request.settings)
    file = Path(request.goal_file) if request.goal_file else None
    if file is None:
        settings |= {"objective": "a receipt", "workspace.path": request.workspace}
    try:
        return why_clone(goals.resolved(file, settings))
    except GoalError:
        # The goal of the base may be valid.
        return ""


def verify_inside(folder: Path) -> int:
    """Verify the change in the copy that this process is in, for `verified`."""
    # Validators would otherwise run on if the command outside is killed.
    end_with_parent(0)
    copy = RunCopy(folder)
    run_options = RunOptions(home=runs.home(), copy=copy_options(copy))
    statement = ChangeCheck(ReceiptRequest.read(copy), run_options).verify()
    output.say(statement.json_text())
    return 0
