"""Runs in the background: `--detach` starts the same command line again.

The new process has a session of its own, so the run does not end with the terminal.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.cli.main import COMMAND_LINE
from goalrunner.core.errors import UsageError, os_errors
from goalrunner.core.events import GoalCreated, RunResumed, RunStarted
from goalrunner.records.run_search import find_run

if TYPE_CHECKING:
    from goalrunner.core.agent_ports import (
        ApprovalAnswer,
        ApprovalRequest,
        QuestionReply,
    )
    from goalrunner.core.events import Record
    from goalrunner.core.run_state import RunState

_DETACHED = "_GOAL_DETACHED"
"""The variable of the new process: a handle for the id of its run, and its log."""


def is_detached() -> bool:
    """Return whether `start_detached` started this process."""
    return _DETACHED in os.environ


def start_detached(home: Path, *, json: bool) -> int:
    """Start the command line at hand in the background, in the same folder.

    Print the id of the run when it has begun. If it does not begin, print the output of
    the process, and return its exit code.
    """
    log = home / f"detached-{os.urandom(4).hex()}.log"
    reader, writer = os.pipe()
    with open(reader, "rb") as pipe:  # noqa: PTH123 - no Path, a handle
        # The pipe ends when the new process, which has the other writer, closes it.
        try:
            process = _started(home, log, writer)
        finally:
            os.close(writer)
        try:
            run = pipe.read().decode()
        except KeyboardInterrupt:
            process.terminate()
            raise
    if not run:
        code = process.wait()
        output.complain(log.read_text(encoding="utf-8", errors="replace"))
        log.unlink(missing_ok=True)
        return code
    folder = find_run(home, run)
    if json:
        output.say({"run_id": run, "path": str(folder.path), "log": str(folder.output)})
    else:
        output.say(_STARTED.format(run=run, log=folder.output))
    return 0


def _started(home: Path, log: Path, writer: int) -> subprocess.Popen[bytes]:
    """Start the process. Its arguments are the same; a variable tells it apart."""
    with os_errors(
        f"cannot write {log}",
        "set GOAL_HOME to a folder that can be written",
        UsageError,
    ):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        handle = os.open(log, flags, 0o600)
    with open(handle, "wb") as stream:  # noqa: PTH123
        # With -P, no file of the current folder is imported in place of a module.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "goalrunner", *COMMAND_LINE.get()],
            env={**os.environ, _DETACHED: f"{writer} {log}"},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            pass_fds=(writer,),
            start_new_session=True,
        )


_STARTED = """{run} runs in the background
goal watch {run}    follows it; Ctrl-C ends only the view
goal cancel {run}   ends it
{log}
"""


class Announcer:
    """Sends the id of the run to the process that started this one.

    It moves the log into the run's folder before.
    """

    def __init__(self, home: Path, handle: int, log: Path) -> None:
        self._home, self._handle, self._log = home, handle, log
        self._run_id = ""

    def on_state(self, state: RunState) -> None:
        """Note the id of a run that is about to be resumed."""
        self._run_id = state.goal.run_id

    def on_record(self, record: Record) -> None:
        """Send the id of a run when it has begun, or goes on."""
        match record.event:
            case GoalCreated(goal=goal):
                self._run_id = goal.run_id
            case RunStarted() | RunResumed():
                self._send(self._run_id)

    def _send(self, run_id: str) -> None:
        if self._handle < 0:
            return
        self._log.replace(find_run(self._home, run_id).output)
        handle, self._handle = self._handle, -1
        # The other process may have ended.
        with contextlib.suppress(OSError), open(handle, "wb") as pipe:  # noqa: PTH123
            pipe.write(run_id.encode())


def announcer(home: Path) -> Announcer | None:
    """Return the announcer of a process that `start_detached` started.

    Return None in any other process.
    """
    handle, _, log = os.environ.pop(_DETACHED, "").partition(" ")
    if not handle:
        return None
    # A program of the agent that inherits it would keep the pipe open.
    os.set_inheritable(int(handle), False)
    return Announcer(home, int(handle), Path(log))


class DetachedApprover:
    """Lets a run in the background wait for a decision from any terminal.

    It waits until the approval expires.
    """

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Wait until the approval expires."""
        # The help of `goal run` imports this module, and does not need asyncio.
        import asyncio

        expires = request.approval.expires_at
        if expires is None:
            await asyncio.Event().wait()
            return None
        while (remaining := _seconds_until(expires)) >= 0:  # noqa: ASYNC110
            await asyncio.sleep(min(remaining + 0.1, _CLOCK_CHECK))
        return None

    async def answer(self, question: str) -> QuestionReply | None:
        """Wait for ever."""
        import asyncio

        await asyncio.Event().wait()
        return None


_CLOCK_CHECK = 20.0
"""Seconds between two looks at the clock, which may be set."""


def _seconds_until(when: str) -> float:
    return (datetime.fromisoformat(when) - datetime.now(UTC)).total_seconds()
