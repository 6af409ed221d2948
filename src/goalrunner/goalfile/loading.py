"""From a goal file, options and environment to one checked goal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from goalrunner.core.errors import (
    LONGEST_PATH,
    GoalFileError,
    Problem,
    UsageError,
    nearest,
    quoted,
    quoted_list,
)
from goalrunner.core.field_types import FROM_FILE
from goalrunner.core.goal import Goal
from goalrunner.core.messages import at
from goalrunner.goalfile.agent_checks import check_agent, check_programs
from goalrunner.goalfile.invalid_values import report_invalid
from goalrunner.goalfile.layers import GoalLayer, file_layer, named_layer
from goalrunner.goalfile.place import PYPROJECT, goal_file_above, project_of
from goalrunner.goalfile.problems import Problems, ValueSource
from goalrunner.goalfile.toml_text import (
    NO_POSITIONS,
    Key,
    Positions,
    file_refusal,
    parse,
    read_text,
)

PLACEHOLDER = "Describe the work here, and how one sees that it is done."
"""The objective that `goal init` writes if nothing names the work.

A goal with it is rejected.
"""

_DEFAULT_WAIT = 6 * 3600.0
"""Seconds that a run of a goal file waits for usage limits, if it names no `wait`."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


def resolve_goal(
    table: Mapping[str, Any] = NOTHING,
    overrides: Mapping[str, Any] = NOTHING,
    environ: Mapping[str, str] = os.environ,
    base: Path | None = None,
    *,
    positions: Positions = NO_POSITIONS,
    name: str = "",
    runnable: bool = True,
    workspace: Path | None = None,
) -> Goal:
    """Return the goal of a goal file's table, options by dotted key, and environment.

    Relative paths of the table start from `base`; those of options and environment, and
    those of a table without a base, from the current folder. `name` is the file's, for
    messages. An option with the value None is ignored. `workspace` is used if neither
    the table nor an option names one; None is the current folder. With
    `runnable=False`, model, validator and judge may be missing.
    Raise GoalFileError with all problems. Whether keys fit the agent is checked only if
    all values are valid.
    """
    current_folder = resolved_current_folder()
    # All parts add their problems, so that one run of the command shows them all.
    problems = Problems()
    file_source = ValueSource(problems, base or current_folder, positions)
    file = file_layer(table, file_source)
    options = _options(overrides, current_folder, problems)
    layer = _with_environment(options, file, environ, current_folder, problems)
    # A default has no spot: problems with it are no mistakes of the file.
    layer.values.setdefault(("workspace", "path"), str(workspace or current_folder))
    goal = _validated(layer.table(), layer, problems)
    _check_workspace(layer, problems)
    _check_complete(layer, problems, runnable=runnable)
    if goal is not None:
        goal = check_agent(goal, layer, file, environ, problems)
        goal = check_programs(goal, layer, environ, problems)
    problems.raise_any(name)
    assert goal is not None, "an invalid goal has a problem"
    return goal


def resolve_limits(
    options: Mapping[str, Any],
) -> dict[str, float | tuple[str, ...] | None]:
    """Return new limits of a run by name (`tokens`), from options by dotted key.

    A dotted key is `budget.tokens`. None lifts a limit. Raise GoalFileError with all
    problems at once.
    """
    problems = Problems()
    layer = _options(options, resolved_current_folder(), problems)
    goal = _validated({"objective": "limits", **layer.table()}, layer, problems)
    problems.raise_any("")
    limits: dict[str, float | tuple[str, ...] | None] = {}
    for key in layer.values:
        dotted = ".".join(map(str, key))
        limits[str(key[-1])] = attrgetter(dotted)(goal)
    return limits


def _validated(
    table: Mapping[str, Any], layer: GoalLayer, problems: Problems
) -> Goal | None:
    """Return the goal of a table.

    If it is invalid, report the problems and return None.
    """
    try:
        return Goal.model_validate(table, context=FROM_FILE)
    except ValidationError as error:
        report_invalid(error, Goal, lambda path: layer.spot(path, problems))
        return None


OPTIONS = {
    "agent.use": "--agent",
    "agent.model": "--model",
    "judge.model": "--judge",
    "validators": "--validator",
    "success_criteria": "--criterion",
    "constraints": "--constraint",
    "workspace.path": "--workspace",
    "budget.tokens": "--tokens",
    "budget.cost_usd": "--cost",
    "budget.allow_unenforced": "--allow-unenforced",
}
"""Options with other names than their keys.

The others follow from the key: `risk_class` is `--risk-class`.
"""


def option_of(key: str) -> str:
    """Return the option that sets a dotted key.

    It is `--max-iterations` for `max_iterations`.
    """
    return OPTIONS.get(key, "--" + key.replace(".", "-").replace("_", "-"))


def _options(options: Mapping[str, Any], base: Path, problems: Problems) -> GoalLayer:
    entries = [
        (key, option_of(key), value)
        for key, value in options.items()
        if value is not None
    ]
    return named_layer(entries, base, problems)


def _with_environment(
    options: GoalLayer,
    file: GoalLayer,
    environ: Mapping[str, str],
    base: Path,
    problems: Problems,
) -> GoalLayer:
    """Return options over environment over file."""

    def variables(**keys: str) -> GoalLayer:
        entries = [
            (key, name, environ[name])
            for name, key in keys.items()
            if environ.get(name, "").strip()
        ]
        return named_layer(entries, base, problems)

    upper = options.over(variables(GOAL_AGENT="agent.use", GOAL_JUDGE="judge.model"))
    layer = upper.over(file)
    # GOAL_MODEL and LLM_MODEL are models of an API. External agents have other names
    # for their models.
    if not layer.is_chat:
        return layer
    layer = upper.over(variables(GOAL_MODEL="agent.model")).over(file)
    if ("agent", "model") in layer.values:
        return layer
    return layer.over(variables(LLM_MODEL="agent.model"))


def _lacks(layer: GoalLayer, problems: Problems, *paths: Key) -> bool:
    """Return whether a layer has none of these values, and no problem explains it."""
    has_value = any(layer.values.get(path) is not None for path in paths)
    return not has_value and not problems.excuses(*paths)


def _check_complete(layer: GoalLayer, problems: Problems, *, runnable: bool) -> None:
    """Check that the goal has an objective.

    To be `runnable`, it needs a model, and a validator or a judge as well.
    """
    if _lacks(layer, problems, ("objective",)):
        problems.add(
            'objective is missing; write objective = "...", or: goal run --objective',
            "objective",
        )
    if layer.values.get(("objective",)) == PLACEHOLDER:
        layer.spot(("objective",), problems).wrong(
            "is the placeholder that goal init wrote; say what the agent is to do, or:"
            " goal run --objective"
        )
    if runnable and layer.is_chat:
        _check_model(layer, problems)
    if not _lacks(layer, problems, ("judge", "model"), ("judge", "use")):
        return
    if layer.values.get(("approvals", "checks")) == "judge":
        layer.spot(("approvals", "checks"), problems).wrong(
            '"judge" needs a judge; write judge = "provider/model" (or give --judge),'
            ' or "person"'
        )
    if runnable:
        _check_proof(layer, problems)


def _check_model(layer: GoalLayer, problems: Problems) -> None:
    """Check that the built-in agent has a model."""
    if not _lacks(layer, problems, ("agent", "model"), ("model",)):
        return
    if layer.values.get(("agent", "use")) is None:
        message = (
            'neither an agent nor a model is named; write agent = "claude" (goal'
            ' agents lists all), or model = "provider/name" for the built-in'
            " agent, or give --agent or --model"
        )
    else:
        message = (
            'the built-in agent has no model; write model = "provider/name", give'
            " --model, or set GOAL_MODEL or LLM_MODEL"
        )
    problems.add(message, "model")


def _check_proof(layer: GoalLayer, problems: Problems) -> None:
    """Check that a goal without a judge's model has a validator, and no judge."""
    if ("judge",) in layer.spots or any(key[0] == "judge" for key in layer.values):
        layer.spot(("judge",), problems).wrong_key(
            '[judge] has no model; write model = "provider/name" or "agent", give'
            " --judge, or set GOAL_JUDGE"
        )
        return
    if layer.values.get(("validators",)):
        return
    if problems.excuses(("validators",), ("validator",)):
        return
    # An external agent does not share its model.
    example = "agent" if layer.is_chat else "openai/gpt-5-mini"
    problems.add(
        "the goal has neither a validator nor a judge;"
        ' write validator = "pytest -q" (or give --validator),'
        f' or judge = "{example}" (or give --judge)',
        "validator",
    )


def _check_workspace(layer: GoalLayer, problems: Problems) -> None:
    """Check that the folder to work in exists."""
    key: Key = ("workspace", "path")
    path, spot = layer.values[key], layer.spots.get(key)
    if spot is None or not isinstance(path, str) or problems.excuses(key):
        return
    name = quoted(path, LONGEST_PATH)
    if not os.path.exists(path):  # noqa: PTH110 - never raises
        spot.wrong(f"{name} does not exist; create the folder, or name another")
    elif not os.path.isdir(path):  # noqa: PTH112 - never raises
        spot.wrong(f"{name} is not a folder")
    elif not os.access(path, os.R_OK | os.X_OK):
        spot.wrong(f"{name} cannot be entered or read: permission denied")


def resolved_current_folder() -> Path:
    """Return the current folder. Raise UsageError if it was removed."""
    try:
        return Path.cwd().resolve()
    except OSError as error:
        raise UsageError(
            "the current folder does not exist any more", "change to another folder"
        ) from error


def load_goal(
    path: Path | str,
    overrides: Mapping[str, Any] = NOTHING,
    environ: Mapping[str, str] | None = None,
    *,
    runnable: bool = True,
    workspace: Path | None = None,
) -> Goal:
    """Return the goal of a file, options and environment; see `resolve_goal`.

    `overrides` are values by dotted key ("budget.tokens"), over those of `environ`
    (None: `os.environ`), over those of the file. With `runnable=False`, model,
    validator and judge may be missing.

    The default of `workspace` is the nearest folder at or above the file, within its
    repository, that holds `.git` or a project file such as pyproject.toml or
    package.json; without one, the current folder.
    Raise GoalFileError, also if the file is missing, unreadable or not TOML.

    >>> from pathlib import Path
    >>> from goalrunner import load_goal
    >>> text = 'objective = "Fix it."\\nmodel = "a/b"\\nvalidator = "pytest -q"'
    >>> written = Path("goal.toml").write_text(text)
    >>> load_goal("goal.toml", {"budget.tokens": 9000}).budget.tokens
    9000
    """
    path = Path(path)
    return load_goal_text(
        read_goal_text(path),
        str(path),
        overrides,
        os.environ if environ is None else environ,
        base=path.absolute().parent,
        runnable=runnable,
        workspace=workspace or project_of(path),
    )


def with_default_wait(goal: Goal) -> Goal:
    """Return the goal with the time to wait for usage limits that commands use."""
    if "wait" in goal.model_fields_set:
        return goal
    return goal.model_copy(update={"wait": _DEFAULT_WAIT})


def read_goal_text(path: Path) -> str:
    """Return the text of a goal file.

    Raise GoalFileError; for a missing file, it names one that may be meant.
    """
    return read_text(path, missing=lambda: _near_files(path))


def load_goal_text(
    text: str,
    name: str,
    overrides: Mapping[str, Any] = NOTHING,
    environ: Mapping[str, str] = os.environ,
    *,
    base: Path | None = None,
    runnable: bool = True,
    workspace: Path | None = None,
) -> Goal:
    """Return the goal of a text; `name` is the file's, for messages.

    See `resolve_goal`.
    """
    table, positions = parse(text, name)
    if Path(name).name == PYPROJECT:
        goal_table = at(table, "tool", "goal")
        if not isinstance(goal_table, dict):
            raise file_refusal(
                name,
                'has no table [tool.goal]; write one with objective = "...", or name'
                " another file",
            )
        table, positions = goal_table, positions.below(("tool", "goal"))
    return resolve_goal(
        table,
        overrides,
        environ,
        base,
        positions=positions,
        name=name,
        runnable=runnable,
        workspace=workspace,
    )


def error_at(path: Path, key: Key, message: str) -> GoalFileError:
    """Return the error that a value of a goal file is wrong.

    The file was loaded before without a problem.
    """
    _, positions = parse(read_text(path), str(path))
    line, column = positions.value(key)
    problem = Problem(message=message, key=str(key[-1]), line=line, column=column)
    return GoalFileError(str(path), (problem,))


def _near_files(path: Path) -> str:
    """Return a hint for a missing goal file.

    It names the file with the nearest name beside it or above it, else all beside it.
    """
    # The folder itself may be mistyped.
    names: list[str] = []
    if path.parent.is_dir():
        names = sorted(entry.name for entry in path.parent.glob("*.toml"))
    near = nearest(path.name, names)
    if near:
        return f"; did you mean {quoted(str(path.parent / near), LONGEST_PATH)}?"
    above = goal_file_above(path.absolute().parent.resolve())
    if above is not None and nearest(path.name, [above.name]):
        return f"; did you mean {quoted(os.path.relpath(above), LONGEST_PATH)}?"
    if names:
        return f"; goal files may be {quoted_list(names[:5])}"
    return '; write one, or: goal run --objective "..."'
