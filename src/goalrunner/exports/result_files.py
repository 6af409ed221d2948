"""The files that `--junit`, `--summary` and `--gitlab` name, and what a step of GitHub Actions shows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from goalrunner.cli import main, output, runs
from goalrunner.core.errors import GoalError
from goalrunner.reports.figures import is_github

if TYPE_CHECKING:
    from goalrunner.core.observation import Change
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.run_state import RunState
    from goalrunner.records.run_folder import RunFolder

_STEP = (
    "GITHUB_ACTIONS",
    "GITHUB_STEP_SUMMARY",
)  # in a step of GitHub Actions: for annotations and a summary


@dataclass(frozen=True)
class ResultFiles:
    """The files that options name, opened before the agent could redirect them."""

    copies: Mapping[str, output.ResultFile]  # by option: "--junit"
    environ: Mapping[str, str]

    def write(
        self, folder: RunFolder | None, stream: TextIO, known: GoalOutcome | None = None
    ) -> None:
        """Write the files, and print annotations on `stream`. If one fails, the others are written. Raise GoalError.

        If the log cannot be read, the files have only the `known` outcome.
        """
        if not (self.copies or self.environ.keys() & _STEP):
            return
        from goalrunner.app.previous_run import load_run
        from goalrunner.exports import annotations
        from goalrunner.exports.junit import junit_text
        from goalrunner.exports.markdown import summary_markdown

        state: RunState | None = None
        changed: tuple[Change, ...] = ()
        outcome = known
        try:
            if folder is not None:
                loaded = load_run(folder)
                state, outcome = loaded.state, loaded.outcome(folder)
                changed = changed_files(folder, state)
        except (GoalError, OSError):
            if known is None:
                raise
        assert outcome is not None, "there is a run or its outcome"
        results = state.validators if state else ()
        criteria = state.criteria if state else ()
        goal_file = state.goal_file if state else ""
        problems = annotations.problems_of(outcome, results, goal_file, self.environ)
        if is_github(self.environ):
            with contextlib.suppress(OSError, ValueError):
                stream.write(annotations.github_text(problems, outcome.labels))
                stream.flush()
        summary = summary_markdown(outcome, files=changed, state=state)
        self._append_to_step(summary)
        texts = {
            "--junit": junit_text(outcome, results, criteria),
            "--summary": summary,
            "--gitlab": annotations.gitlab_text(problems),
        }
        with contextlib.ExitStack() as rest:
            for option, copy in self.copies.items():
                rest.callback(copy.write, texts[option])

    def _append_to_step(self, summary: str) -> None:
        path = self.environ.get("GITHUB_STEP_SUMMARY")
        if not path:
            return
        try:
            with Path(path).open("a", encoding="utf-8", errors="replace") as file:
                file.write(summary)
        except OSError as error:
            output.complain(
                f"Warning: GITHUB_STEP_SUMMARY cannot be written: {error.strerror or error}"
            )


def changed_files(folder: RunFolder, state: RunState) -> tuple[Change, ...]:
    """Return the files that the run changed; none if no round has ended, or if the snapshots are gone."""
    from goalrunner.exports.change import RunChange

    try:
        return main.wait_for(RunChange(folder, state, runs.home(), os.environ).files())
    except GoalError:
        return ()


def open_files(
    junit: Path | None,
    summary: Path | None,
    gitlab: Path | None,
    *,
    asked_only: bool = False,
) -> ResultFiles:
    """Return the files of these options. Raise UsageError if one cannot be written.

    From then on, no child process gets the variables of GitHub Actions through which it could change later steps.
    With `asked_only`, nothing is appended to the summary of a step, and nothing is printed.
    """
    from goalrunner.system.child_environment import JOB_FILES

    environ = dict(os.environ)
    for name in JOB_FILES:
        os.environ.pop(name, None)
    for name in _STEP if asked_only else ():
        environ.pop(name, None)
    given = {"--junit": junit, "--summary": summary, "--gitlab": gitlab}
    copies = {
        option: output.ResultFile(path, option=option)
        for option, path in given.items()
        if path is not None
    }
    return ResultFiles(copies, environ)
