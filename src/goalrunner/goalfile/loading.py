"""From a goal file to a goal. Owns finding the file and what is told where it is not there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from goalrunner.errors import GoalFileError
from goalrunner.goalfile.parsing import parse, read_text
from goalrunner.goalfile.positions import Key
from goalrunner.goalfile.resolving import NOTHING, resolve_goal
from goalrunner.goalfile.wording import LONGEST_PATH, listed, nearest, quoted
from goalrunner.model.goal import Goal


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
