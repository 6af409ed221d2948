"""Driving a run with its progress shown, asking at its terminal, and writing its outcome."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from goalrunner.cli import main, output, runs
from goalrunner.cli.background import DetachedApprover, announcer
from goalrunner.core.agent_ports import ApprovalAnswer, ApprovalRequest, QuestionReply
from goalrunner.core.errors import RecordError
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.reports import questions
from goalrunner.reports.ci_log import is_github, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from goalrunner.app.run_options import RunOptions
    from goalrunner.core.agent_ports import Approver
    from goalrunner.core.observation import TranscriptRef
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.exports.result_files import ResultFiles
    from goalrunner.reports.progress import Progress

_MAX_BYTES = 1 << 16  # bytes of a typed line that are read


def drive(
    start: Callable[[RunOptions], Coroutine[Any, Any, GoalOutcome]],
    options: RunOptions,
    copy: output.ResultFile | None,
    files: ResultFiles,
    *,
    json: bool,
    quiet: bool,
    verbose: bool = False,
) -> int:
    """Start a run, show its progress, write its outcome, and return its exit code.

    `copy` gets a copy of the outcome. It and `files` were opened before the agent could redirect them.
    """
    stream = sys.stderr if json else sys.stdout
    with open_progress(
        stream, quiet=quiet, verbose=verbose, place=workspace_state
    ) as progress:
        announcing = announcer(options.home)
        observers = (progress,) if announcing is None else (progress, announcing)
        approver: Approver | None = DetachedApprover()
        if announcing is None:
            approver = terminal_approver(stream, progress.suspended)
        failure: RecordError | None = None
        try:
            outcome = main.wait_for(
                start(replace(options, observers=observers, approver=approver))
            )
        except RecordError as error:
            if error.outcome is None:  # the run never began
                raise
            outcome, failure = error.outcome, error
        text, copied = json_text(outcome.model_dump(mode="json")), ""
        written = failure is None or runs.is_file(f"{outcome.run_path}/outcome.json")
        shown = outcome if written else outcome.model_copy(update={"run_path": ""})
        with (
            contextlib.ExitStack() as rest
        ):  # called from the last one; if one fails, the others are still called
            folder = RunFolder(Path(outcome.run_path)) if outcome.run_path else None
            rest.callback(files.write, folder, stream, outcome)
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


def open_progress(
    stream: TextIO,
    *,
    quiet: bool = False,
    verbose: bool = False,
    place: Callable[[str], str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Progress:
    """Return live progress for a terminal, and plain lines for other streams."""
    from goalrunner.reports.progress import Progress

    if can_redraw(stream, environ) and not quiet:
        from goalrunner.reports.live import (
            LiveProgress,  # not at the top: a pipe does not need Rich
        )

        return LiveProgress(
            stream, place, environ=environ, read_message=_said, verbose=verbose
        )
    colours = (
        not quiet and _is_set(environ, "FORCE_COLOR") and not environ.get("NO_COLOR")
    )
    return Progress(
        stream,
        place,
        quiet=quiet,
        colours=colours,
        github=is_github(environ),
        read_message=_said,
        verbose=verbose,
    )


def _said(run_id: str, message: TranscriptRef) -> str:
    """Return the text of a message of a run."""
    return runs.message_text(RunFolder(runs.home() / RUNS / run_id).transcript, message)


def can_redraw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether the stream is a terminal whose lines can be redrawn; false in CI."""
    try:
        return (
            stream.isatty()
            and environ.get("TERM", "") not in ("dumb", "unknown")
            and not _is_set(environ, "CI")
        )
    except ValueError:
        return False


def _is_set(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() not in ("", "0", "false")


def workspace_state(workspace: str) -> str:
    """Return the state of a workspace in git: "git, clean"."""
    from goalrunner.snapshots.repositories import describe

    return describe(Path(workspace))


def terminal_approver(
    stream: TextIO, suspended: Callable[[], AbstractContextManager[None]]
) -> TerminalApprover | None:
    """Return an approver, or None unless both stdin and `stream` are a terminal. `suspended` stops the live progress."""
    return (
        TerminalApprover(sys.stdin.fileno(), stream, suspended)
        if sys.stdin.isatty() and stream.isatty()
        else None
    )


class TerminalApprover:
    """Asks on `stream` and reads from `handle`. Ctrl-C ends the question and the run; Ctrl-D leaves the question open."""

    def __init__(
        self,
        handle: int,
        stream: TextIO,
        suspended: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._handle = handle
        self._stream = stream
        self._suspended = suspended

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Show the request and ask until the answer is a yes or a no."""
        from goalrunner.app.sandbox import person

        columns = output.columns(self._stream)
        with self._suspended():
            self._say(questions.approval_text(request, columns=columns))
            while (line := await self._ask(questions.prompt_text(request))) is not None:
                decision, reason = questions.read_typed(line)
                if decision in ("approved", "denied"):
                    return ApprovalAnswer(decision, person(), reason, typed=True)
                if decision == "all":
                    self._say(
                        questions.approval_text(
                            request, most=sys.maxsize, columns=columns
                        )
                    )
                elif line.strip():
                    self._say(questions.choices_text(columns))
        return None

    async def answer(self, question: str) -> QuestionReply | None:
        """Ask until something is typed."""
        from goalrunner.app.sandbox import person

        with self._suspended():
            self._say(questions.question_text(question, output.columns(self._stream)))
            while (line := await self._ask(questions.ANSWER)) is not None:
                if line.strip():
                    return QuestionReply(line.strip(), person())
        return None

    async def _ask(self, prompt: str) -> str | None:
        """Return the line that is typed after the prompt; None on Ctrl-D, and in the background."""
        import termios

        from goalrunner.system.event_loop import in_thread

        try:
            # The terminal stops a background job that reads. What was typed before the question is discarded.
            if os.tcgetpgrp(self._handle) != os.getpgrp():
                return None
            termios.tcflush(self._handle, termios.TCIFLUSH)
        except (OSError, termios.error):
            return None
        self._say(prompt)
        data = b""
        withdrawn, withdraw = (
            os.pipe()
        )  # so that a thread whose question is withdrawn does not read what is typed later
        try:
            data = await in_thread(_typed, self._handle, withdrawn)
        finally:
            os.close(withdraw)
            if not data:
                self._say("\n")
        return data.decode(errors="replace") if data else None

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def _typed(handle: int, withdrawn: int) -> bytes:
    """Return the line that is typed; nothing at the end of input, or when the other end of `withdrawn` is closed."""
    try:
        with contextlib.suppress(OSError):  # the terminal is gone
            ready, _, _ = select.select([handle, withdrawn], [], [])
            return b"" if withdrawn in ready else os.read(handle, _MAX_BYTES)
    finally:
        os.close(withdrawn)
    return b""
