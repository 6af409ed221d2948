"""Where a goal belongs: the repository of a folder, the goal file of a folder, and the workspace of a goal file."""

from __future__ import annotations

import os
from pathlib import Path

from goalrunner.core.tools import PROJECT_FILES

DEFAULT = "goal.toml"
PYPROJECT = "pyproject.toml"
_GIT = ".git"


def repository_root(folder: Path) -> Path | None:
    """Return the nearest folder at or above this absolute one that holds `.git`; None outside of a repository."""
    return next(
        (place for place in (folder, *folder.parents) if _holds(place, _GIT)), None
    )


def goal_file_above(folder: Path) -> Path | None:
    """Return the goal file of the nearest folder at or above this absolute one, within its repository; None without one.

    In each folder, goal.toml comes before [tool.goal] of pyproject.toml.
    """
    for place in _folders_of_project(folder):
        if os.path.isfile(place / DEFAULT):  # noqa: PTH113 - never raises
            return place / DEFAULT
        if _has_goal(place / PYPROJECT):
            return place / PYPROJECT
    return None


def _has_goal(project_file: Path) -> bool:
    """Return whether a pyproject.toml has a goal. One that cannot be read has none."""
    try:
        return "[tool.goal" in project_file.read_text("utf-8", errors="replace")
    except OSError:
        return False


def project_of(goal_file: Path) -> Path | None:
    """Return the nearest folder at or above a goal file, within its repository, that holds `.git` or a project file.

    The folder is absolute and without links. Return None if there is no such folder.
    """
    folder = goal_file.absolute().parent.resolve()
    return next(
        (
            place
            for place in _folders_of_project(folder)
            if _holds(place, _GIT, *PROJECT_FILES)
        ),
        None,
    )


def _folders_of_project(folder: Path) -> tuple[Path, ...]:
    """Return a folder and those above it in its repository, nearest first; outside of a repository the folder alone."""
    root = repository_root(folder)
    if root is None:
        return (folder,)
    return tuple(
        place for place in (folder, *folder.parents) if place.is_relative_to(root)
    )


def _holds(folder: Path, *names: str) -> bool:
    """Return whether a folder contains one of these entries. Never raise."""
    return any(os.path.exists(folder / name) for name in names)  # noqa: PTH110 - never raises
