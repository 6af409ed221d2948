"""The files that a CI system reads of a run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from goalrunner.cli import main, output, runs
from goalrunner.core.errors import GoalError

if TYPE_CHECKING:
    from goalrunner.core.observation import Change
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.run_state import RunState
    from goalrunner.records.run_folder import RunFolder


@dataclass(frozen=True)
class CiFiles:
    """The files that are wanted, opened before the agent could redirect them."""

    copies: Mapping[str, output.ResultFile]  # by option: "--junit"
    environ: Mapping[str, str]
    is_step: bool = True  # whether a step of GitHub Actions gets annotations and a summary

    def write_outcome(self, outcome: GoalOutcome, stream: TextIO) -> None:
        """Write the files of a run that has ended, with no more than its outcome if its log cannot be read."""
        from goalrunner.records.run_folder import RunFolder

        if self.copies or {"GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"} & self.environ.keys():
            folder = RunFolder(Path(outcome.run_path)) if outcome.run_path else None
            self.write(folder, stream, outcome)

    def write(self, folder: RunFolder | None, stream: TextIO, known: GoalOutcome | None = None) -> None:
        """Write the files, and print annotations on `stream`. If one fails, the others are written. Raise GoalError.

        If the log cannot be read, the files have only the `known` outcome.
        """
        from goalrunner.app.export import RunChange
        from goalrunner.reports import ci
        from goalrunner.reports.next_steps import origin_of
        from goalrunner.reports.progress import LastingStream
        from goalrunner.reports.status import summary_markdown

        state: RunState | None = None
        changed: tuple[Change, ...] = ()
        try:
            if folder is not None:
                state, known = runs.result(folder)
                with contextlib.suppress(GoalError):  # no round has ended, or its snapshots are gone
                    changed = main.wait_for(RunChange(folder, state, runs.home(), os.environ).files())
        except (GoalError, OSError):
            if known is None:
                raise
        assert known is not None, "there is a run or its outcome"
        outcome, checks = known, state.validators if state else ()
        problems = ci.problems_of(outcome, checks, state.goal_file if state else "", self.environ)
        red, origin = [check for check in checks if not check.passed], origin_of(state) if state else None
        texts = {
            "--junit": lambda: ci.junit_text(outcome, checks, state.criteria if state else ()),
            "--summary": lambda: summary_markdown(outcome, files=changed, red=red, origin=origin),
            "--gitlab": lambda: ci.gitlab_text(problems),
        }
        if self.is_step and ci.is_github(self.environ):
            printed = LastingStream(stream)
            printed.write(ci.github_text(problems, outcome.labels))
            printed.flush()
        if self.is_step and (step := self.environ.get("GITHUB_STEP_SUMMARY")):
            try:
                with Path(step).open("a", encoding="utf-8", errors="replace") as file:
                    file.write(texts["--summary"]())
            except OSError as error:
                output.complain(f"Warning: GITHUB_STEP_SUMMARY cannot be written: {error.strerror or error}")
        with contextlib.ExitStack() as rest:
            for option, copy in self.copies.items():
                rest.callback(copy.write, texts[option]())


def open_files(junit: Path | None, summary: Path | None, gitlab: Path | None, *, asked_only: bool = False) -> CiFiles:
    """Return the files of these options. Raise UsageError if one cannot be written.

    From then on, no child process gets the variables of GitHub Actions through which it could change later steps.
    With `asked_only`, nothing is appended to the summary of a step, and nothing is printed.
    """
    from goalrunner.system.launcher import JOB_FILES

    environ = dict(os.environ)
    for name in JOB_FILES:
        os.environ.pop(name, None)
    given = {"--junit": junit, "--summary": summary, "--gitlab": gitlab}
    copies = {option: output.ResultFile(path, option=option) for option, path in given.items() if path is not None}
    return CiFiles(copies, environ, is_step=not asked_only)
