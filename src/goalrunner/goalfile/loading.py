"""From a goal file, options and environment to one checked goal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from goalrunner.core.errors import GoalFileError, UsageError
from goalrunner.core.goal import CHAT, Goal
from goalrunner.goalfile.fitting import check_agent, chosen
from goalrunner.goalfile.layers import (
    AGENT_VARIABLES,
    CHAT_VARIABLES,
    FALLBACK_VARIABLES,
    VARIABLES,
    Layer,
    file_layer,
    named_layer,
    option_of,
)
from goalrunner.goalfile.parsing import parse, read_text
from goalrunner.goalfile.positions import Key, Positions
from goalrunner.goalfile.problems import LONGEST_PATH, Problems, Source, Spot, listed, nearest, quoted
from goalrunner.goalfile.tables import named

NOTHING: Mapping[str, Any] = MappingProxyType({})


def resolve_goal(
    table: Mapping[str, Any] = NOTHING,
    overrides: Mapping[str, Any] = NOTHING,
    environ: Mapping[str, str] = os.environ,
    base: Path | None = None,
    *,
    positions: Positions | None = None,
    name: str = "",
    runnable: bool = True,
) -> Goal:
    """A goal of a table as a goal file has it, options by dotted key, and the environment.

    Relative paths of the table start from `base`; those of options and environment, and those of a table without a
    base, from the current folder. `name` is the file's, for messages. An option of None is one that was not given.
    With `runnable=False` a goal that nothing can run yet - no model, no validator, no judge - passes too.
    Raises GoalFileError with every problem at once.
    """
    here = _current_folder()
    problems = Problems()
    file = file_layer(table, Source(base=base or here, positions=positions), problems)
    given = {key: value for key, value in overrides.items() if value is not None}
    options = _options(given, here, problems)
    layer = _with_environment(options, file, environ, here, problems)
    _check_workspace(layer)
    _check_conflicts(layer)
    _check_objective(layer, problems)
    wrong_preset = check_agent(layer, file, environ, problems)
    if runnable:
        _check_model(layer, problems)
        _check_proof(layer, problems)
    problems.raise_any(name)
    if wrong_preset is not None:
        raise wrong_preset
    return _build(layer, problems, name)


def resolve_limits(options: Mapping[str, Any]) -> dict[str, float | tuple[str, ...] | None]:
    """New limits of a run from options by the goal's dotted keys, by the limit's own name; None lifts one.

    Raises GoalFileError with every problem at once.
    """
    problems = Problems()
    given = {key: value for key, value in options.items() if value is not None}
    layer = _options(given, _current_folder(), problems)
    problems.raise_any("")
    limits: dict[str, Any] = {str(key[-1]): value for key, value in layer.values.items()}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in limits.items()}


def _options(given: Mapping[str, object], base: Path, problems: Problems) -> Layer:
    names: dict[Key, str] = {tuple(key.split(".")): option_of(key) for key in given}
    return named_layer(given, Source(base=base, names=names, textual=True), problems)


def _environment(variables: Mapping[str, str], environ: Mapping[str, str], base: Path, problems: Problems) -> Layer:
    """Variables that are set to something; an empty one counts as not set."""
    given = {key: name for name, key in variables.items() if environ.get(name, "").strip()}
    names: dict[Key, str] = {tuple(key.split(".")): name for key, name in given.items()}
    values = {key: environ[name] for key, name in given.items()}
    return named_layer(values, Source(base=base, names=names, textual=True), problems)


def _with_environment(options: Layer, file: Layer, environ: Mapping[str, str], base: Path, problems: Problems) -> Layer:
    """Options over environment over file."""
    if chosen(options.over(_environment(AGENT_VARIABLES, environ, base, problems).over(file))) != CHAT:
        environ = {name: value for name, value in environ.items() if name not in CHAT_VARIABLES}
    layer = options.over(_environment(VARIABLES, environ, base, problems).over(file))
    if ("agent", "model") not in layer.values and not problems.excuses(("agent", "model"), ("model",)):
        layer = layer.over(_environment(FALLBACK_VARIABLES, environ, base, problems))
    return layer


def _check_objective(layer: Layer, problems: Problems) -> None:
    if ("objective",) not in layer.values and not problems.excuses(("objective",)):
        problems.add('objective is missing; write objective = "...", or give --objective', "objective")


def _check_model(layer: Layer, problems: Problems) -> None:
    if chosen(layer) != CHAT or ("agent", "model") in layer.values:
        return
    if not problems.excuses(("agent", "model"), ("model",), ("agent", "use")):
        problems.add(
            'the agent has no model; write model = "provider/name", give --model, or set GOAL_MODEL or LLM_MODEL',
            "model",
        )


def _check_proof(layer: Layer, problems: Problems) -> None:
    """A goal needs somebody who checks it, and a judge needs a model."""
    if ("judge", "model") in layer.values or problems.excuses(("judge", "model")):
        return
    judge = layer.spots.get(("judge",))
    if judge is not None or any(key[0] == "judge" for key in layer.values):
        message = '[judge] has no model; write model = "provider/name" or "agent", give --judge, or set GOAL_JUDGE'
        _say(message, judge, problems)
    elif not layer.values.get(("validators",)) and not problems.excuses(("validators",), ("validator",)):
        problems.add(
            "nothing checks this goal; "
            'write validator = "pytest -q" (or give --validator), or judge = "agent" (or give --judge)',
            "validator",
        )


def _say(message: str, spot: Spot | None, problems: Problems) -> None:
    if spot is None:
        problems.add(message, "judge")
    else:
        spot.wrong_key(message)


def _check_workspace(layer: Layer) -> None:
    """The folder to work in is there; nothing said is the current one."""
    path, spot = layer.values.get(("workspace", "path")), layer.spots.get(("workspace", "path"))
    if path is None or spot is None:
        layer.values["workspace", "path"] = str(_current_folder())
        return
    try:
        folder = Path(str(path))
        if not folder.exists():
            spot.wrong(f"{quoted(str(path), LONGEST_PATH)} does not exist; create the folder, or name another")
        elif not folder.is_dir():
            spot.wrong(f"{quoted(str(path), LONGEST_PATH)} is no folder")
        elif not os.access(folder, os.R_OK | os.X_OK):
            spot.wrong(f"{quoted(str(path), LONGEST_PATH)} may not be entered or read: permission denied")
    except OSError as error:
        spot.wrong(f"{quoted(str(path))} cannot be read: {error.strerror}")


def _check_conflicts(layer: Layer) -> None:
    """Keys of [workspace] that exclude each other; the message stands at the one that is to be removed."""
    values = {key[1]: value for key, value in layer.values.items() if len(key) == 2 and key[0] == "workspace"}
    check = layer.spots.get(("workspace", "check"))
    if values.get("setup") and values.get("check") not in (None, "checkout") and check is not None:
        check.wrong_key(
            f"{check.label} = {quoted(str(values['check']))} cannot be combined with setup, which prepares a fresh checkout; "
            "remove one of the two"
        )
    protect = layer.spots.get(("workspace", "protect"))
    if values.get("editable") and values.get("protect") and protect is not None:
        protect.wrong_key(
            f"{protect.label} cannot be combined with editable, which protects everything that it does not name; "
            "remove one of the two"
        )


def _build(layer: Layer, problems: Problems, name: str) -> Goal:
    fields: dict[str, Any] = {}
    for key, value in layer.values.items():
        match key:
            case (str(table), str(item)):
                fields.setdefault(table, {})[item] = value
            case _:
                fields[str(key[0])] = value
    fields["validators"] = named(fields.get("validators", ()))
    try:
        return Goal.model_validate(fields)
    except ValidationError as error:
        # The readers let pass what the model refuses: still a message, never a traceback.
        for detail in error.errors(include_url=False, include_input=False):
            label = ".".join(str(part) for part in detail["loc"])
            problems.add(f"{label}: {detail['msg']}", label)
        problems.raise_any(name)
        raise


def _current_folder() -> Path:
    try:
        return Path.cwd().resolve()
    except OSError as error:
        raise UsageError("the current folder does not exist any more", "change to another folder") from error


def load_goal(
    path: Path | str,
    overrides: Mapping[str, Any] = NOTHING,
    environ: Mapping[str, str] = os.environ,
    *,
    runnable: bool = True,
) -> Goal:
    """The goal that a file holds, with options and environment laid over it; see `resolve_goal`.

    Raises GoalFileError with every problem at once, also where the file is missing, unreadable or no TOML.
    """
    path, name = Path(path), str(path)
    text = read_text(path, missing=lambda: _near_files(path), folder=lambda: _files_in(path))
    return load_goal_text(text, name, overrides, environ, base=path.absolute().parent, runnable=runnable)


def load_goal_text(
    text: str,
    name: str,
    overrides: Mapping[str, Any] = NOTHING,
    environ: Mapping[str, str] = os.environ,
    *,
    base: Path | None = None,
    runnable: bool = True,
) -> Goal:
    """The same for a text; `name` stands for the file in messages, relative paths start from `base`."""
    table, positions = parse(text, name)
    return resolve_goal(table, overrides, environ, base, positions=positions, name=name, runnable=runnable)


def place_in(path: Path, key: Key) -> str:
    """Where a value stands in a goal file, for messages: `goal.toml:4:1`. The file's name alone where nobody knows."""
    with suppress(GoalFileError):
        line, column = parse(read_text(path), str(path))[1].value(key)
        if line:
            return f"{path}:{line}:{column}"
    return str(path)


def _near_files(path: Path) -> str:
    """Of a path that is no file: the goal file beside it with the nearest name, else all of them."""
    near = nearest(path.name, _goal_files(path.parent))
    if near:
        return f"; did you mean {quoted(str(path.parent / near), LONGEST_PATH)}?"
    return _files_in(path.parent) or '; write one, or give --objective "..."'


def _files_in(folder: Path) -> str:
    names = _goal_files(folder)
    return f"; goal files may be {listed(names[:5])} in {folder}" if names else ""


def _goal_files(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".toml")
    except OSError:
        return []
