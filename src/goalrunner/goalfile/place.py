"""Where a goal belongs: its repository, its goal file, and its workspace."""

from __future__ import annotations

import os
from pathlib import Path

from goalrunner.core.tools import PROJECT_FILES

DEFAULT = "goal.toml"
PYPROJECT = "pyproject.toml"
_GIT = ".git"


def repository_root(folder: Path) -> Path | None:
    """Return the nearest folder at or above this absolute one that holds `.git`.

    Return None outside of a repository.
    """
    return _nearest_holding((folder, *folder.parents), (_GIT,))


def goal_file_above(folder: Path) -> Path | None:
    """Return the goal file of the nearest folder at or above this absolute one.

    Only folders within its repository count; None without a file. In each folder,
    goal.toml comes before [tool.goal] of pyproject.toml.
    """
    for place in _folders_of_project(folder):
        if os.path.isfile(place / DEFAULT):  # noqa: PTH113 - never raises
            return place / DEFAULT
        if _has_goal(place / PYPROJECT):
            return place / PYPROJECT
    return None


def _has_goal(project_file: Path) -> bool:
    """Return whether a pyproject.toml has a goal.

    One that cannot be read has none.
    """
    # Reading the text is enough: every command looks for a goal, and parsing a large
    # file would delay it.
    try:
        return "[tool.goal" in project_file.read_text("utf-8", errors="replace")
    except OSError:
        return False


def project_of(goal_file: Path) -> Path | None:
    """Return the project of a goal file, absolute and without links.

    It is the nearest folder at or above the file, within its repository, that holds
    `.git` or a project file. Return None if there is no such folder.
    """
    folder = goal_file.absolute().parent.resolve()
    return _nearest_holding(_folders_of_project(folder), (_GIT, *PROJECT_FILES))


def _folders_of_project(folder: Path) -> tuple[Path, ...]:
    """Return a folder and those above it in its repository, nearest first.

    Outside of a repository, return the folder alone.
    """
    root = repository_root(folder)
    if root is None:
        return (folder,)
    folders = (folder, *folder.parents)
    return tuple(place for place in folders if place.is_relative_to(root))


def _nearest_holding(folders: tuple[Path, ...], names: tuple[str, ...]) -> Path | None:
    """Return the first folder that contains one of these entries. Never raise."""
    for folder in folders:
        if any(os.path.exists(folder / name) for name in names):  # noqa: PTH110
            return folder
    return None
