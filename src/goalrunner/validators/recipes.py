"""The commands that Makefiles and package.json run."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from goalrunner.core.tools import MAKEFILES

_LONGEST = 4_000_000
"""Maximum number of bytes that are read of a file; no script is longer."""
_TARGET = re.compile(r"^([\w./-][\w./ -]*):(?!=).*$", re.MULTILINE)
_WORD = re.compile(r"[\w./:-]+")
INCLUDE = re.compile(r"^[ ]*-?s?include[ \t]+([^#\n]+)", re.MULTILINE)
PHONY = re.compile(r"^\.PHONY[ \t]*:(.*)$", re.MULTILINE)


def makefile_in(folder: Path) -> str:
    """Return the name of the Makefile that make reads in a folder; empty if none."""
    return next((name for name in MAKEFILES if (folder / name).is_file()), "")


def make_targets(text: str) -> dict[str, str]:
    """Return the targets of a Makefile with their prerequisites and recipes."""
    targets: dict[str, str] = {}
    starts = [*_TARGET.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=False):
        # What follows the colon: prerequisites, and on the next lines the recipe.
        rule = text[start.end(1) + 1 : end]
        for name in start[1].split():
            # A name with a dot first is a setting of make, such as .PHONY.
            if not name.startswith("."):
                targets[name] = f"{targets.get(name, '')}{rule}\n"
    return targets


def recipes_of(text: str, words: Sequence[str]) -> list[str]:
    """Return the lines of the recipes of a Makefile that a command runs.

    The recipes are those of targets that words of the command name, or of the first
    target. Prerequisites are followed from targets without a recipe: those of other
    targets build what is checked.
    """
    targets = make_targets(text)
    names = [word for word in words if word in targets] or [*targets][:1]
    recipes: list[str] = []
    for name in names:  # grows while it is read
        prerequisites, *lines = targets[name].replace("\\\n", " ").split("\n")
        recipe = [
            line.lstrip("\t@+- ").replace("$$", "$")
            for line in lines
            if line.startswith("\t")
        ]
        recipes += recipe
        if recipe:
            continue
        for word in _WORD.findall(prerequisites):
            if word in targets and word not in names:
                names.append(word)
    return recipes


def package_scripts(text: str) -> dict[str, str]:
    """Return the scripts of a package.json; none if the text is not valid."""
    try:
        scripts = json.loads(text)["scripts"]
        return {str(name): str(script) for name, script in scripts.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def file_text(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        # A pipe or device would block the read.
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_LONGEST).decode(errors="replace")
    except OSError:
        return ""
