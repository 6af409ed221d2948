"""Driving a run with its progress shown, asking at its terminal, and handing over its outcome."""

from __future__ import annotations

import contextlib
import os
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from goalrunner.cli import main, output, runs
from goalrunner.core.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from goalrunner.app.run_options import RunOptions
    from goalrunner.cli.ci import CiFiles
    from goalrunner.core.agent_ports import ApprovalAnswer, ApprovalRequest, QuestionReply
    from goalrunner.core.outcome import GoalOutcome

_MAX_BYTES = 1 << 16  # bytes of a typed line that are read


def drive(
    start: Callable[[RunOptions], Coroutine[Any, Any, GoalOutcome]],
    options: RunOptions,
    copy: output.ResultFile | None,
    files: CiFiles,
    *,
    json: bool,
    quiet: bool,
) -> int:
    """Start a run and drive it with its progress shown, hand over its outcome, and return its exit code.

    `copy` is a copy of the outcome; it and the files for CI were opened before the agent could redirect them.
    """
    from goalrunner.reports.figures import outcome_text
    from goalrunner.reports.progress import open_progress
    from goalrunner.system.watchdog import claim_adopted

    if main.is_program:
        claim_adopted()
    stream = sys.stderr if json else sys.stdout
    with open_progress(stream, quiet=quiet, place=workspace_state) as progress:
        approver = terminal_approver(stream, progress.suspended)
        failure: RecordError | None = None
        try:
            outcome = main.wait_for(start(replace(options, observers=(progress,), approver=approver)))
        except RecordError as error:
            if error.outcome is None:  # the run never began
                raise
            outcome, failure = error.outcome, error
        text, copied = outcome_text(outcome), ""
        written = failure is None or runs.is_file(f"{outcome.run_path}/outcome.json")
        shown = outcome if written else outcome.model_copy(update={"run_path": ""})
        with contextlib.ExitStack() as rest:  # if one of these fails, the others are still done
            rest.callback(files.write_outcome, outcome, stream)
            if json:
                rest.callback(output.say, text)
            if copy is not None and copy.is_stream:
                rest.callback(copy.write, text)
            rest.callback(lambda: progress.finish(shown, copied))
            if copy is not None and not copy.is_stream:
                copy.write(text)
                copied = str(copy.path)
        if failure is not None:
            if str(failure) not in outcome.message:
                raise failure
            return int(failure.exit_code)
    return outcome.exit_code


def workspace_state(workspace: str) -> str:
    """Return the state of a workspace in git: "git, clean"."""
    from goalrunner.snapshots.git import describe

    return describe(Path(workspace))


def terminal_approver(stream: TextIO, suspended: Callable[[], AbstractContextManager[None]]) -> TerminalApprover | None:
    """Return an approver, or None unless both stdin and `stream` are a terminal. `suspended` stops the live progress."""
    try:
        interactive = sys.stdin.isatty() and stream.isatty()
    except (AttributeError, ValueError):  # closed
        return None
    return TerminalApprover(sys.stdin.fileno(), stream, suspended) if interactive else None


class TerminalApprover:
    """Asks on `stream` and reads from `handle`. Ctrl-C ends the question and the run; Ctrl-D leaves the question open."""

    def __init__(self, handle: int, stream: TextIO, suspended: Callable[[], AbstractContextManager[None]]) -> None:
        self._handle = handle
        self._stream = stream
        self._suspended = suspended

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Show the request and ask until the answer is a yes or a no."""
        from goalrunner.app.sandbox import person
        from goalrunner.core.agent_ports import ApprovalAnswer
        from goalrunner.reports import review

        columns = output.columns(self._stream)
        with self._suspended():
            self._say(review.approval_text(request, columns=columns))
            while (line := await self._ask(review.prompt_text(request))) is not None:
                typed = review.read_typed(line)
                if typed.decision is not None:
                    return ApprovalAnswer(
                        "approved" if typed.decision else "denied", person(), typed.reason, typed=True
                    )
                if typed.everything:
                    self._say(review.approval_text(request, most=sys.maxsize, columns=columns))
                elif line.strip():
                    self._say(review.choices_text(columns))
        return None

    async def answer(self, question: str) -> QuestionReply | None:
        """Ask until something is typed."""
        from goalrunner.app.sandbox import person
        from goalrunner.core.agent_ports import QuestionReply
        from goalrunner.reports import review

        with self._suspended():
            self._say(review.question_text(question, output.columns(self._stream)))
            while (line := await self._ask(review.ANSWER)) is not None:
                if line.strip():
                    return QuestionReply(line.strip(), person())
        return None

    async def _ask(self, prompt: str) -> str | None:
        """Return the line that is typed after the prompt; None on Ctrl-D, and in the background."""
        import termios

        try:
            # The terminal stops a background job that reads. What was typed before the question is discarded.
            if os.tcgetpgrp(self._handle) != os.getpgrp():
                return None
            termios.tcflush(self._handle, termios.TCIFLUSH)
        except (OSError, termios.error):
            return None
        self._say(prompt)
        data = b""
        try:
            data = await self._read()
        finally:
            if not data:
                self._say("\n")
        return data.decode(errors="replace") if data else None

    async def _read(self) -> bytes:
        """Return a typed line; empty on Ctrl-D, and if the terminal is gone."""
        from goalrunner.system.launcher import in_thread

        def read() -> bytes:
            with contextlib.suppress(OSError):
                return os.read(self._handle, _MAX_BYTES)
            return b""

        return bytes(await in_thread(read))

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()
