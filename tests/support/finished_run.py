"""A real run of two rounds with recorded models: its folder, its workspace, its snapshots."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.run_options import RunOptions
from goalrunner.app.session import arun
from goalrunner.goalfile.loading import load_goal
from goalrunner.records.run_folder import RunFolder
from tests.support.recordings import agent, judge, quote, recording, shell, write_file

CRITERION = "the greeting is friendly"

GOAL = """\
objective = "Write a friendly greeting."
success_criteria = ["{criterion}"]
model = "{model}"
judge = "{model}"
validator = "test -e hello.txt"
[workspace]
path = "{workspace}"
"""


@dataclass(frozen=True)
class FinishedRun:
    """A run that is over."""

    home: Path
    workspace: Path
    folder: RunFolder

    def copied(self, home: Path) -> FinishedRun:
        """The same records in another home, to be damaged."""
        shutil.copytree(self.home, home, dirs_exist_ok=True)
        return FinishedRun(
            home, self.workspace, RunFolder(home / "runs" / self.folder.run_id)
        )


def finish_run(root: Path) -> FinishedRun:
    """Round 1 writes a greeting that the judge does not find friendly; round 2 a friendly one, which ends complete."""
    workspace, home = root / "work", root / "home"
    workspace.mkdir(parents=True)
    (workspace / "notes.txt").write_text("one\ntwo\n")
    missing = "nothing shows that it is friendly"
    model = recording(
        root / "models.jsonl",
        agent(
            "",
            write_file("hello.txt", "hello\n"),
            shell("printf 'one\\n2\\nthree\\n' > notes.txt"),
        ),
        agent("It is written."),
        judge((CRITERION, []), missing=missing),
        agent(
            "",
            write_file("hello.txt", "hello, dear friend\n"),
            shell("cat hello.txt; grep -c friend hello.txt"),
        ),
        agent("Now it is friendly."),
        judge((CRITERION, [quote("o6", "hello, dear friend")])),
    )
    goal_file = root / "goal.toml"
    goal_file.write_text(
        GOAL.format(criterion=CRITERION, model=model, workspace=workspace)
    )
    outcome = asyncio.run(arun(load_goal(goal_file), RunOptions(home=home)))
    assert outcome.passed, outcome
    return FinishedRun(home, workspace, RunFolder(home / "runs" / outcome.run_id))
