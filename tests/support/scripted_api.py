"""A stand-in for the api under the command line: gives a scripted outcome and keeps what it was asked. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goalrunner.app.preflight import choose_environment, describe_checks
from goalrunner.app.run_options import RunOptions
from goalrunner.app.sandbox import workspace_of
from goalrunner.core.events import Record
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome


@dataclass
class ScriptedApi:
    """Ends each run with the next of its answers; an exception among them is raised. Loud when there is none."""

    answers: list[GoalOutcome | BaseException]
    records: Sequence[Record] = ()
    goals: list[Goal] = field(default_factory=list)
    checked: list[Goal] = field(default_factory=list)
    homes: list[Path] = field(default_factory=list)
    recordings: list[Path | None] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> ScriptedApi:
        """Take the api's place for one test."""
        # The doctor first: an import of it while `arun` is replaced would keep the replacement for other tests.
        monkeypatch.setattr("goalrunner.app.doctor.dry_run", self.check)
        monkeypatch.setattr("goalrunner.app.session.arun", self.arun)
        return self

    def check(
        self, goal: Goal, options: RunOptions
    ) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Keep the goal, and describe its checks; no model and no agent is checked."""
        self.checked.append(goal)
        workspace = workspace_of(goal)
        choice = choose_environment(goal, workspace, options.home)
        return "", tuple(
            describe_checks(goal, choice, workspace, options.environ, options.goal_file)
        )

    async def arun(
        self,
        goal: Goal,
        options: RunOptions,
    ) -> GoalOutcome:
        """The next answer, after the records were shown to the observers."""
        self.goals.append(goal)
        self.homes.append(options.home)
        self.recordings.append(options.record)
        for one in self.records:
            for observer in options.observers:
                observer.on_record(one)
        if not self.answers:
            raise AssertionError("the command line ran a goal that no test asked for")
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer
