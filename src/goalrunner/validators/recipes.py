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
    """Return the name of the Makefile that make reads in a folder; empty if there is none."""
    return next((name for name in MAKEFILES if (folder / name).is_file()), "")


def make_targets(text: str) -> dict[str, str]:
    """Return the targets of a Makefile with their prerequisites and recipes."""
    found: dict[str, str] = {}
    starts = [*_TARGET.finditer(text)]
    for start, end in zip(
        starts, [*(later.start() for later in starts[1:]), len(text)], strict=False
    ):
        for name in start[1].split():
            if not name.startswith("."):
                found[name] = f"{found.get(name, '')}{text[start.end(1) + 1 : end]}\n"
    return found


def recipes_of(text: str, words: Sequence[str]) -> list[str]:
    """Return the lines of the recipes of a Makefile's targets that words of a command name, or of the first target.

    Prerequisites are followed from targets without a recipe: other ones build what is checked.
    """
    parts = make_targets(text)
    names = [word for word in words if word in parts] or [*parts][:1]
    found: list[str] = []
    for name in names:  # grows
        lines = parts[name].replace("\\\n", " ").split("\n")
        recipe = [
            line.lstrip("\t@+- ").replace("$$", "$")
            for line in lines[1:]
            if line.startswith("\t")
        ]
        found += recipe
        if not recipe:
            names += [
                word
                for word in _WORD.findall(lines[0])
                if word in parts and word not in names
            ]
    return found


def package_scripts(text: str) -> dict[str, str]:
    """Return the scripts of a package.json."""
    try:
        scripts = json.loads(text)["scripts"]
        return {str(name): str(script) for name, script in scripts.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def file_text(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_LONGEST).decode(errors="replace")
    except OSError:
        return ""
