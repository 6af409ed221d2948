"""Driving a run, with its progress printed and its outcome written."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from goalrunner.cli import main, output, runs
from goalrunner.cli.background import DetachedApprover, announcer
from goalrunner.cli.result_file import ResultFile
from goalrunner.cli.terminal_approver import terminal_approver
from goalrunner.core.errors import RecordError
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.reports.ci_log import is_github, json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from goalrunner.app.run_options import RunOptions
    from goalrunner.core.agent_ports import Approver, Observer
    from goalrunner.core.observation import TranscriptRef
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.exports.result_files import ResultFiles
    from goalrunner.reports.progress import Progress


@dataclass(frozen=True)
class Results:
    """How a run is shown, and where its outcome goes.

    The files were opened before the agent could redirect them.
    """

    copy: ResultFile | None
    """The file of `--output`, for a copy of the outcome."""
    files: ResultFiles
    json: bool
    """Whether the outcome is printed on stdout, and the progress on stderr."""
    quiet: bool = False
    """Whether only the last lines of the progress are printed."""
    verbose: bool = False
    """Whether all that an external agent says is printed."""

    @property
    def progress_stream(self) -> TextIO:
        """Where the progress is printed. With --json, stdout has JSON alone."""
        return sys.stderr if self.json else sys.stdout


def drive(
    start: Callable[[RunOptions], Coroutine[Any, Any, GoalOutcome]],
    options: RunOptions,
    results: Results,
) -> int:
    """Start a run, print its progress, write its outcome, and return its exit code."""
    stream = results.progress_stream
    with open_progress(
        stream, quiet=results.quiet, verbose=results.verbose, place=workspace_state
    ) as progress:
        announcing = announcer(options.home)
        approver: Approver | None
        if announcing is None:
            observers: tuple[Observer, ...] = (progress,)
            approver = terminal_approver(stream, progress.suspended)
        else:
            # It names the run to the command that started this process.
            observers = (progress, announcing)
            approver = DetachedApprover()
        failure: RecordError | None = None
        try:
            outcome = main.wait_for(
                start(replace(options, observers=observers, approver=approver))
            )
        except RecordError as error:
            # Without an outcome, the run never began.
            if error.outcome is None:
                raise
            outcome, failure = error.outcome, error
        _write_results(outcome, results, progress, stream, is_recorded=failure is None)
        if failure is not None:
            # A run that failed has printed why, and its records often fail for the
            # same reason: a full disk.
            is_printed = str(failure) in outcome.message
            if outcome.status.value != "failed" and not is_printed:
                raise failure
            return int(failure.exit_code)
    return outcome.exit_code


def _write_results(
    outcome: GoalOutcome,
    results: Results,
    progress: Progress,
    stream: TextIO,
    *,
    is_recorded: bool,
) -> None:
    """Write the outcome to all places, and the last lines of the progress."""
    text = json_text(outcome.model_dump(mode="json"))
    copied_to = ""
    printed = outcome
    if not is_recorded and not runs.is_file(f"{outcome.run_path}/outcome.json"):
        # The last lines name the folder only if the outcome is in it.
        printed = outcome.model_copy(update={"run_path": ""})
    copy = results.copy
    # The callbacks run from the last one to the first. If one fails, the others still
    # run.
    with contextlib.ExitStack() as stack:
        folder = RunFolder(Path(outcome.run_path)) if outcome.run_path else None
        stack.callback(results.files.write, folder, stream, outcome)
        if results.json:
            stack.callback(output.say, text)
        if copy is not None and copy.is_stream:
            stack.callback(copy.write, text)
        # A function, because `copied_to` is known only after the copy is written.
        stack.callback(lambda: progress.finish(printed, copied_to))
        if copy is not None and not copy.is_stream:
            copy.write(text)
            copied_to = str(copy.path)


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
        # A pipe does not need Rich, which takes long to import.
        from goalrunner.reports.live import LiveProgress

        return LiveProgress(
            stream, place, environ=environ, read_message=_message, verbose=verbose
        )
    has_colours = _is_set(environ, "FORCE_COLOR") and not environ.get("NO_COLOR")
    return Progress(
        stream,
        place,
        quiet=quiet,
        colours=has_colours and not quiet,
        github=is_github(environ),
        read_message=_message,
        verbose=verbose,
    )


def _message(run_id: str, message: TranscriptRef) -> str:
    """Return the text of a message of a run."""
    return runs.message_text(RunFolder(runs.home() / RUNS / run_id).transcript, message)


def can_redraw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether the stream is a terminal whose lines can be redrawn.

    Return False in CI.
    """
    try:
        is_terminal = stream.isatty()
    except ValueError:
        # The stream is closed.
        return False
    is_capable = environ.get("TERM", "") not in ("dumb", "unknown")
    return is_terminal and is_capable and not _is_set(environ, "CI")


def _is_set(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() not in ("", "0", "false")


def workspace_state(workspace: str) -> str:
    """Return the state of a workspace in git: "git, clean"."""
    from goalrunner.snapshots.repositories import describe

    return describe(Path(workspace))
