"""A goal as it was when a batch was submitted, and its entry in the plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goalrunner.app.preflight import why_clone
from goalrunner.batches.plan import BatchEntry
from goalrunner.core.errors import UsageError, one_line
from goalrunner.core.field_types import SCRIPTED
from goalrunner.core.goal import Goal
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.loading import load_goal, load_goal_text
from goalrunner.goalfile.toml_text import read_text
from goalrunner.reports.short_forms import model_name


@dataclass(frozen=True)
class FrozenGoal:
    """The text of a goal file, and the options with which it is loaded."""

    goal: Goal
    """The goal that text and options make."""
    text: str
    """Empty for a goal of options alone."""
    source: str
    """The goal file, absolute; empty if there is none."""
    options: Mapping[str, Any]
    """What replaces keys of the goal file, by dotted key."""

    @classmethod
    def of_file(
        cls, path: Path, options: Mapping[str, Any], environ: Mapping[str, str]
    ) -> FrozenGoal:
        """Return the goal of a file. Raise GoalFileError."""
        goal = load_goal(path, options, environ)
        return cls(goal, read_text(path), str(path.absolute()), options)

    @classmethod
    def of_object(cls, goal: Goal, options: Mapping[str, Any]) -> FrozenGoal:
        """Return a goal that a program made. Raise GoalFileError, and UsageError if a
        part of it cannot be written.
        """
        if goal.judge.instance is not None:
            raise UsageError(
                "a run of a batch has a process of its own, which cannot use "
                f"the judge {goal.judge.words} of this program",
                'name a model instead: judge="provider/name"',
            )
        if goal.callables:
            raise UsageError(
                "a run of a batch has a process of its own, which cannot call the "
                "validators that are functions of this program",
                "write a ValidatorSpec: "
                'validators=[ValidatorSpec(python="package.module:function")]',
            )
        # A worker gets this text alone, so the goal is loaded from it here as well.
        folder = Path(goal.workspace.path or os.curdir).absolute()
        if goal.workspace.path:
            # In the text, a relative path would begin in the workspace itself.
            settings = goal.workspace.model_copy(update={"path": str(folder)})
            goal = goal.model_copy(update={"workspace": settings})
        text = dump_goal(goal)
        return cls(_loaded(text, "", options, folder), text, "", options)

    def with_options(self, options: Mapping[str, Any]) -> FrozenGoal:
        """Return the goal with further options. Raise GoalFileError."""
        merged = {**self.options, **options}
        workspace = Path(self.goal.workspace.path)
        goal = _loaded(self.text, self.source, merged, workspace)
        return replace(self, goal=goal, options=merged)

    @property
    def agent_name(self) -> str:
        """The agent of the goal, or the model of the built-in one."""
        agent = self.goal.agent
        if agent.external:
            return ",".join(agent.names)
        return model_name(agent.model)

    def entry(
        self,
        number: int,
        name: str,
        after: tuple[str, ...] = (),
    ) -> BatchEntry:
        """Return an entry of a plan."""
        return BatchEntry(
            key=str(number),
            name=name,
            source=self.source,
            objective=one_line(self.goal.objective),
            workspace=self.goal.workspace.path,
            clone=bool(why_clone(self.goal)),
            options=self._options_of_any_folder(),
            after=after,
        )

    def _options_of_any_folder(self) -> dict[str, Any]:
        """Return the options without paths that depend on the current folder.

        The process of a run starts in its workspace.
        """
        options = dict(self.options)
        if "workspace.path" in options:
            options["workspace.path"] = self.goal.workspace.path
        models = {
            "agent.model": self.goal.agent.model,
            "judge.model": self.goal.judge.model,
        }
        for key, model in models.items():
            if str(options.get(key, "")).startswith(SCRIPTED):
                options[key] = model
        return options


def goal_of(entry: BatchEntry, text: str) -> Goal:
    """Return the goal of an entry, whose goal file has this text.

    Raise GoalFileError.
    """
    return _loaded(text, entry.source, entry.options, Path(entry.workspace))


def _loaded(
    text: str, source: str, options: Mapping[str, Any], workspace: Path
) -> Goal:
    """Return a goal. Relative paths of options start from the current folder."""
    return load_goal_text(
        text,
        source,
        options,
        base=Path(source).parent if source else workspace,
        workspace=workspace,
    )
