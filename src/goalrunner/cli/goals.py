"""The goal of a command line: a file, a sentence, or the goal file of the project."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import dialog, output
from goalrunner.copies import INSIDE
from goalrunner.core.errors import UsageError
from goalrunner.goalfile.place import DEFAULT, PYPROJECT, goal_file_above, project_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goalrunner.app.project import InstalledAgent
    from goalrunner.core.goal import Goal


@dataclass(frozen=True)
class LoadedGoal:
    """The goal of a command line, and what it was made of."""

    goal: Goal
    path: Path | None
    """The file that it was read from; None for options alone."""
    options: Mapping[str, Any]
    """The options by dotted key, with what was chosen in addition: a validator, or an
    agent.
    """

    @property
    def own_file(self) -> Path | None:
        """The file, if it is a goal file and nothing else."""
        if self.path is None or self.path.name == PYPROJECT:
            return None
        return self.path


def load(
    named: str | None, overrides: Mapping[str, Any], *, runnable: bool = True
) -> LoadedGoal:
    """Return the goal of a command line.

    `named` is a path or, if it has spaces and no file has that name, an objective.
    Without both, the goal is in goal.toml or [tool.goal] of pyproject.toml in the
    current folder, or in a folder above it in its repository. For an objective without
    a validator and a judge, the project's test command becomes the validator. With
    `runnable=False` a goal without a model passes. Raise GoalFileError and UsageError.
    """
    values = {key: value for key, value in overrides.items() if value not in (None, [])}
    path = _named_path(named, values)
    has_objective = named is not None and path is None
    if path is None:
        path = _default_path(values)
    if has_objective and not _is_checked(values):
        values["validators"] = [_proposed(values)]
    # Wrong values are reported before a person is asked.
    # First without requiring a model, to see whether an agent or a model is named.
    goal = resolved(path, values)
    if not (goal.agent.model or "use" in goal.agent.model_fields_set):
        _choose_installed(values)
    goal = resolved(path, values, runnable=runnable)
    if path is not None:
        _note_workspace(goal, path)
    return LoadedGoal(goal, path, values)


def _named_path(named: str | None, values: dict[str, Any]) -> Path | None:
    """Return the goal file that is named, or add the objective that is named."""
    if named is None:
        return None
    if not _is_sentence(named):
        return Path(named)
    if "objective" in values:
        raise UsageError(
            "the objective is given twice",
            "remove --objective, or the text before it",
        )
    values["objective"] = named.strip()
    return None


def _default_path(values: Mapping[str, Any]) -> Path | None:
    """Return the goal file of the project; None if there is an objective."""
    path = of_folder()
    if "objective" in values:
        if path is not None:
            _note(f"{path} is not used: the objective is given on the command line")
        return None
    if path is None:
        raise UsageError(
            f"there is no goal: no {DEFAULT} and no [tool.goal] in {PYPROJECT}, here or"
            " above in the repository",
            'goal init writes one; or goal run "what to do"; goal demo shows a run',
        )
    table = " [tool.goal]" if path.name == PYPROJECT else ""
    _note(f"Using {path}{table}")
    return path


def _is_checked(values: Mapping[str, Any]) -> bool:
    """Return whether options or the environment name a validator or a judge."""
    if "validators" in values or "judge.model" in values:
        return True
    return bool(os.environ.get("GOAL_JUDGE"))


def _choose_installed(values: dict[str, Any]) -> None:
    """Add an installed agent to the options, if there is one."""
    from goalrunner.app.project import installed_agents

    installed = installed_agents(os.environ)
    chosen = choose_agent(installed, ask=dialog.is_interactive())
    if chosen is None:
        return
    message = (
        f"Using the agent {chosen.name}, since neither an agent nor a model is named"
    )
    for agent in installed:
        if agent.note and agent != chosen:
            message += f"; {agent.name} is {agent.note}"
    output.complain(message)
    values["agent.use"] = chosen.name


def _is_sentence(text: str) -> bool:
    """Return whether a text is an objective and not the name of a file."""
    # os.path.exists never raises, also for a text that is too long for a name.
    is_file = text.endswith(".toml") or os.path.exists(text)  # noqa: PTH110
    return len(text.split()) > 1 and not is_file


def resolved(
    path: Path | None, values: Mapping[str, Any], *, runnable: bool = False
) -> Goal:
    """Return the goal of a file, or of options alone.

    Options that are None are left out. Raise GoalFileError.
    """
    from goalrunner.goalfile.loading import load_goal, resolve_goal

    options = {key: value for key, value in values.items() if value is not None}
    if path is not None:
        return load_goal(path, options, os.environ, runnable=runnable)
    return resolve_goal({}, options, os.environ, runnable=runnable)


def of_folder() -> Path | None:
    """Return the goal file of the current folder, or of the nearest one above it.

    Only folders in the same repository count; None without a file.
    """
    from goalrunner.goalfile.loading import resolved_current_folder

    folder = resolved_current_folder()
    path = goal_file_above(folder)
    return Path(os.path.relpath(path, folder)) if path is not None else None


def _note_workspace(goal: Goal, path: Path) -> None:
    """Print where the goal works if that follows from the place of its file."""
    from goalrunner.goalfile.loading import resolved_current_folder
    from goalrunner.reports.short_forms import home_path

    workspace = goal.workspace.path
    if workspace != str(project_of(path)):
        return
    if workspace != str(resolved_current_folder()):
        command = shlex.join(("goal", "run", "--workspace", ".", str(path)))
        _note(
            f"The workspace is {home_path(workspace)}, the project of {path}. "
            f"To work in this folder: {command}"
        )


def _note(text: str) -> None:
    """Print a note, once: a command that goes on in a copy has printed it before."""
    if INSIDE not in os.environ:
        output.complain(text)


def _proposed(values: Mapping[str, Any]) -> str:
    """Return the test command of the project as the validator.

    A person at a terminal can reject it.
    """
    from goalrunner.app.project import Project, detect_project
    from goalrunner.goalfile.loading import resolved_current_folder

    folder = resolved_current_folder() / (values.get("workspace.path") or "")
    project = detect_project(folder, os.environ) if folder.is_dir() else Project()
    if not project.commands:
        reason = (
            f"no test command was found in {folder}, so nothing can verify the result"
        )
        raise UsageError(
            "; ".join((reason, *project.problems)),
            'give one: --validator "CMD", or a judge: --judge provider/model',
        )
    first = project.commands[0]
    output.complain(f"Validator: {first.command} ({first.why})")
    # Without a terminal, the printed line is all that a script can have.
    if dialog.is_interactive() and not dialog.agreed("Use this validator? [Y/n]"):
        raise UsageError(
            "the validator was rejected", 'give another one: --validator "CMD"'
        )
    return first.command


def choose_agent(
    agents: Sequence[InstalledAgent], *, ask: bool
) -> InstalledAgent | None:
    """Return the only agent, or the one that a person chooses; None if there is none.

    If it cannot ask, return the only one that is signed in, or raise UsageError.
    """
    from goalrunner.app.project import only_signed_in

    if len(agents) < 2 or not ask:
        return only_signed_in(agents)
    rows = [f"  {number}  {agent}" for number, agent in enumerate(agents, 1)]
    output.complain("\n".join(["Agents that can be used here:", *rows]))
    # Of agents with one name, the first one counts.
    by_answer = {agent.name: agent for agent in reversed(agents)}
    by_answer |= {str(number): agent for number, agent in enumerate(agents, 1)}
    answer = dialog.typed(
        f"Agent [1-{len(agents)}, default 1]: ", "1", by_answer.__contains__
    )
    return by_answer[answer]
