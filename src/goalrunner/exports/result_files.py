"""The files that a run writes at its end: `--junit`, `--summary` and `--gitlab`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from goalrunner.cli import main, output, runs
from goalrunner.cli.result_file import ResultFile
from goalrunner.core.errors import GoalError
from goalrunner.reports.ci_log import is_github

if TYPE_CHECKING:
    from goalrunner.core.observation import Change
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.run_state import RunState
    from goalrunner.core.verdict import ValidatorResult
    from goalrunner.records.run_folder import RunFolder

# In a step of GitHub Actions: for annotations and a summary.
_STEP = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY")


@dataclass(frozen=True)
class ResultFiles:
    """The files that options name, opened before the agent could redirect them."""

    copies: Mapping[str, ResultFile]
    """By option: "--junit"."""
    environ: Mapping[str, str]

    def write(
        self,
        folder: RunFolder | None,
        stream: TextIO,
        fallback: GoalOutcome | None = None,
    ) -> None:
        """Write the files, and print annotations on `stream`.

        If one fails, the others are written. If the log cannot be read, the files have
        only the `fallback`. Raise GoalError.
        """
        if not (self.copies or self.environ.keys() & _STEP):
            return
        # Slow to import, and most runs write no such file.
        from goalrunner.exports import annotations
        from goalrunner.exports.junit import junit_text
        from goalrunner.exports.markdown import summary_markdown

        result = _run_result(folder, fallback)
        outcome, state = result.outcome, result.state
        results: tuple[ValidatorResult, ...] = ()
        criteria: tuple[str, ...] = ()
        goal_file = ""
        if state is not None:
            results, criteria = state.validators, state.criteria
            goal_file = state.goal_file
        problems = annotations.problems_of(outcome, results, goal_file, self.environ)
        if is_github(self.environ):
            # The reader of the output may have gone; the files matter more.
            with contextlib.suppress(OSError, ValueError):
                stream.write(annotations.github_text(problems, outcome.labels))
                stream.flush()
        summary = summary_markdown(outcome, files=result.changes, state=state)
        self._append_to_step(summary)
        texts = {
            "--junit": junit_text(outcome, results, criteria),
            "--summary": summary,
            "--gitlab": annotations.gitlab_text(problems),
        }
        # The stack calls all of them, also after an error.
        with contextlib.ExitStack() as writes:
            for option, copy in self.copies.items():
                writes.callback(copy.write, texts[option])

    def _append_to_step(self, summary: str) -> None:
        path = self.environ.get("GITHUB_STEP_SUMMARY")
        if not path:
            return
        try:
            with Path(path).open("a", encoding="utf-8", errors="replace") as file:
                file.write(summary)
        except OSError as error:
            reason = error.strerror or error
            output.complain(f"Warning: GITHUB_STEP_SUMMARY cannot be written: {reason}")


@dataclass(frozen=True)
class _RunResult:
    """What is reported of a run that has ended."""

    outcome: GoalOutcome
    state: RunState | None = None
    """None: the log cannot be read."""
    changes: tuple[Change, ...] = ()


def _run_result(folder: RunFolder | None, fallback: GoalOutcome | None) -> _RunResult:
    """Return the result of a run, or the `fallback` alone if its log cannot be read.

    Raise GoalError and OSError without a fallback.
    """
    from goalrunner.app.previous_run import load_run

    if folder is not None:
        try:
            loaded = load_run(folder)
            changes = changed_files(folder, loaded.state)
            return _RunResult(loaded.outcome(folder), loaded.state, changes)
        except (GoalError, OSError):
            if fallback is None:
                raise
    assert fallback is not None, "there is a run or its outcome"
    return _RunResult(fallback)


def changed_files(folder: RunFolder, state: RunState) -> tuple[Change, ...]:
    """Return the files that the run changed, sorted by path.

    Return no files if no round has ended, or if the snapshots are gone.
    """
    from goalrunner.exports.change import RunChange

    try:
        return main.wait_for(RunChange(folder, state, runs.home(), os.environ).files())
    except (GoalError, OSError):
        # A report without its list of files is better than none.
        return ()


def open_files(
    junit: Path | None,
    summary: Path | None,
    gitlab: Path | None,
    *,
    asked_only: bool = False,
) -> ResultFiles:
    """Return the files of these options. Raise UsageError if one cannot be written.

    From then on, no child process gets the variables of GitHub Actions through which it
    could change later steps. With `asked_only`, nothing is appended to the summary of a
    step, and nothing is printed.
    """
    from goalrunner.system.child_environment import JOB_FILES

    environ = dict(os.environ)
    for name in JOB_FILES:
        os.environ.pop(name, None)
    if asked_only:
        for name in _STEP:
            environ.pop(name, None)
    copies = {}
    paths = {"--junit": junit, "--summary": summary, "--gitlab": gitlab}
    for option, path in paths.items():
        if path is not None:
            copies[option] = ResultFile(path, option=option)
    return ResultFiles(copies, environ)
