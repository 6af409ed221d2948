"""From a goal file, options and environment to one checked goal, and from a goal back to TOML."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

from goalrunner.core.errors import (
    LONGEST_PATH,
    GoalFileError,
    Problem,
    UsageError,
    nearest,
    quoted,
    quoted_list,
)
from goalrunner.core.field_types import FROM_FILE, Unlimited
from goalrunner.core.goal import Goal
from goalrunner.core.messages import at
from goalrunner.goalfile.agents import (
    CHAT_KEYS,
    PROGRAM_KEYS,
    check_agent,
    check_programs,
)
from goalrunner.goalfile.layers import (
    GoalLayer,
    Problems,
    ValueSource,
    file_layer,
    named_layer,
    report_invalid,
)
from goalrunner.goalfile.place import PYPROJECT, goal_file_above, project_of
from goalrunner.goalfile.toml_text import (
    NO_POSITIONS,
    Key,
    Positions,
    file_refusal,
    parse,
    read_text,
)

PLACEHOLDER = "Describe the work here, and how one sees that it is done."
"""The objective that `goal init` writes where nothing says what the work is. No goal has it."""

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
    """Return the goal of a goal file's table, options by dotted key, and the environment.

    Relative paths of the table start from `base`; those of options and environment, and those of a table without a
    base, from the current folder. `name` is the file's, for messages. An option with the value None is ignored.
    `workspace` is used if neither the table nor an option names one; None is the current folder.
    With `runnable=False`, model, validator and judge may be missing.
    Raise GoalFileError with all problems. Whether keys fit the agent is checked only if all values are valid.
    """
    here = resolved_current_folder()
    problems = Problems()
    file = file_layer(table, ValueSource(problems, base or here, positions))
    layer = _with_environment(
        _options(overrides, here, problems), file, environ, here, problems
    )
    layer.values.setdefault(("workspace", "path"), str(workspace or here))
    goal = _validated(layer.table(), layer, problems)
    _check_workspace(layer, problems)
    _check_complete(layer, problems, runnable=runnable)
    if goal is not None:
        goal = check_agent(goal, layer, file, environ, problems)
        goal = check_programs(goal, layer, environ, problems)
    problems.raise_any(name)
    assert goal is not None
    return goal


def resolve_limits(
    options: Mapping[str, Any],
) -> dict[str, float | tuple[str, ...] | None]:
    """Return new limits of a run by name (`tokens`), from options by dotted key (`budget.tokens`). None lifts a limit.

    Raise GoalFileError with all problems at once.
    """
    problems = Problems()
    layer = _options(options, resolved_current_folder(), problems)
    goal = _validated({"objective": "limits", **layer.table()}, layer, problems)
    problems.raise_any("")
    return {
        str(key[-1]): attrgetter(".".join(map(str, key)))(goal) for key in layer.values
    }


def _validated(
    table: Mapping[str, Any], layer: GoalLayer, problems: Problems
) -> Goal | None:
    """Return the goal of a table. If it is invalid, report the problems and return None."""
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
"""Options with other names than their keys. The others follow from the key: `risk_class` is `--risk-class`."""


def option_of(key: str) -> str:
    """Return the option that sets a dotted key: `--max-iterations` for `max_iterations`."""
    return OPTIONS.get(key, "--" + key.replace(".", "-").replace("_", "-"))


def _options(given: Mapping[str, Any], base: Path, problems: Problems) -> GoalLayer:
    entries = [
        (key, option_of(key), value)
        for key, value in given.items()
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
    """Return options over environment over file. GOAL_MODEL and LLM_MODEL apply only to the built-in agent."""

    def variables(**names: str) -> GoalLayer:
        given = [
            (key, name, environ[name])
            for name, key in names.items()
            if environ.get(name, "").strip()
        ]
        return named_layer(given, base, problems)

    upper = options.over(variables(GOAL_AGENT="agent.use", GOAL_JUDGE="judge.model"))
    if not upper.over(file).is_chat:
        return upper.over(file)
    layer = upper.over(variables(GOAL_MODEL="agent.model")).over(file)
    return (
        layer
        if ("agent", "model") in layer.values
        else layer.over(variables(LLM_MODEL="agent.model"))
    )


def _check_complete(layer: GoalLayer, problems: Problems, *, runnable: bool) -> None:
    """Check that the goal has an objective and, to be `runnable`, a model, and a validator or a judge."""

    def lacks(*paths: Key) -> bool:
        return not any(
            layer.values.get(path) is not None for path in paths
        ) and not problems.excuses(*paths)

    if lacks(("objective",)):
        problems.add(
            'objective is missing; write objective = "...", or give --objective',
            "objective",
        )
    if layer.values.get(("objective",)) == PLACEHOLDER:
        message = "is the placeholder that goal init wrote; say what the agent is to do, or give --objective"
        layer.spot(("objective",), problems).wrong(message)
    if runnable and layer.is_chat and lacks(("agent", "model"), ("model",)):
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
    if not lacks(("judge", "model"), ("judge", "use")):
        return
    if layer.values.get(("approvals", "checks")) == "judge":
        message = '"judge" needs a judge; write judge = "provider/model" (or give --judge), or "person"'
        layer.spot(("approvals", "checks"), problems).wrong(message)
    if not runnable:
        return
    if ("judge",) in layer.spots or any(key[0] == "judge" for key in layer.values):
        message = '[judge] has no model; write model = "provider/name" or "agent", give --judge, or set GOAL_JUDGE'
        layer.spot(("judge",), problems).wrong_key(message)
    elif not layer.values.get(("validators",)) and not problems.excuses(
        ("validators",), ("validator",)
    ):
        example = (
            "agent" if layer.is_chat else "openai/gpt-5-mini"
        )  # an external agent does not share its model
        ways = f'write validator = "pytest -q" (or give --validator), or judge = "{example}" (or give --judge)'
        problems.add(
            f"the goal has neither a validator nor a judge; {ways}", "validator"
        )


def _check_workspace(layer: GoalLayer, problems: Problems) -> None:
    """Check that the folder to work in exists."""
    path, spot = (
        layer.values["workspace", "path"],
        layer.spots.get(("workspace", "path")),
    )
    if (
        spot is None
        or not isinstance(path, str)
        or problems.excuses(("workspace", "path"))
    ):
        return
    shown = quoted(path, LONGEST_PATH)
    if not os.path.exists(path):  # noqa: PTH110 - never raises
        spot.wrong(f"{shown} does not exist; create the folder, or name another")
    elif not os.path.isdir(path):  # noqa: PTH112 - never raises
        spot.wrong(f"{shown} is not a folder")
    elif not os.access(path, os.R_OK | os.X_OK):
        spot.wrong(f"{shown} cannot be entered or read: permission denied")


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
    environ: Mapping[str, str] = os.environ,
    *,
    runnable: bool = True,
    workspace: Path | None = None,
) -> Goal:
    """Return the goal of a file, options and environment; see `resolve_goal`.

    The default of `workspace` is the nearest folder at or above the file, within its repository, that holds `.git` or a
    project file such as pyproject.toml or package.json; without one, the current folder.
    Raise GoalFileError, also if the file is missing, unreadable or not TOML.
    """
    path, name = Path(path), str(path)
    text = read_text(path, missing=lambda: _near_files(path))
    base, workspace = path.absolute().parent, workspace or project_of(path)
    return load_goal_text(
        text,
        name,
        overrides,
        environ,
        base=base,
        runnable=runnable,
        workspace=workspace,
    )


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
    """Return the goal of a text; `name` is the file's, for messages. See `resolve_goal`."""
    table, positions = parse(text, name)
    if Path(name).name == PYPROJECT:
        table, positions = at(table, "tool", "goal"), positions.below(("tool", "goal"))
        if not isinstance(table, dict):
            raise file_refusal(
                name,
                'has no table [tool.goal]; write one with objective = "...", or name another file',
            )
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
    """Return the error that a value of a goal file, which was loaded before, turned out to be wrong."""
    line, column = parse(read_text(path), str(path))[1].value(key)
    return GoalFileError(
        str(path),
        (Problem(message=message, key=str(key[-1]), line=line, column=column),),
    )


def _near_files(path: Path) -> str:
    """Return a hint for a missing file: the goal file with the nearest name beside it or above it, else all beside it."""
    names = (
        sorted(entry.name for entry in path.parent.glob("*.toml"))
        if path.parent.is_dir()
        else []
    )
    if near := nearest(path.name, names):
        return f"; did you mean {quoted(str(path.parent / near), LONGEST_PATH)}?"
    above = goal_file_above(path.absolute().parent.resolve())
    if above is not None and nearest(path.name, [above.name]):
        return f"; did you mean {quoted(os.path.relpath(above), LONGEST_PATH)}?"
    return (
        f"; goal files may be {quoted_list(names[:5])}"
        if names
        else '; write one, or give --objective "..."'
    )


def dump_goal(goal: Goal, redact: Callable[[str], str] = str) -> str:
    """Return the goal as the text of a goal file in the long form; loading it gives the same goal.

    A lifted limit is written as `inf`. `redact` replaces secrets in every value but those of `[redact]`, which a resumed
    run needs. Raise UsageError for a parameter that TOML cannot express.
    """
    import tomli_w

    table = _table(goal, redact)
    if not goal.has_judge:
        table.pop("judge")
    for account, config in goal.model_tables.items():
        if account != "agent" and config == type(config)():
            table.pop(account, None)
    if table["agent"].pop("fallbacks", None):
        table["agent"]["use"] = list(goal.agent.names)
    unfit = CHAT_KEYS if goal.agent.external else PROGRAM_KEYS
    table["agent"] = {
        key: value for key, value in table["agent"].items() if key not in unfit
    }
    if len(goal.agent.command) == 1:
        table["agent"]["command"] = goal.agent.command[0]
    for validator in table.get("validators", ()):
        if "python" in validator:
            validator.pop("expect")
    try:
        return tomli_w.dumps(table)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the goal cannot be written as TOML: {error}",
            "params may contain only JSON values",
        ) from error


def _table(model: BaseModel, redact: Callable[[str], str]) -> dict[str, Any]:
    """Return the fields of a model, without those that are None or empty: a goal file leaves them out."""
    table = {}
    for name, field in type(model).model_fields.items():
        value = _plain(getattr(model, name), str if name == "redact" else redact)
        if value is None and Unlimited in field.metadata:
            value = math.inf
        if value is not None and value not in ("", [], {}):
            table[name] = value
    return table


def _plain(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a value as tables, lists and redacted strings; in a table, None is the same as a missing key."""
    match value:
        case BaseModel():
            return _table(value, redact)
        case Mapping():
            return {
                str(key): _plain(item, redact)
                for key, item in value.items()
                if item is not None
            }
        case list() | tuple():
            return [_plain(item, redact) for item in value]
        case str():
            return redact(value)
        case _:
            return value
