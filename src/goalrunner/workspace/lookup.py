"""Where programs are looked up in a workspace. Owns which of its files are found before a program of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

BROUGHT_FIRST = ("node_modules/.bin", ".venv/bin")
"""Folders of a checkout whose programs come first after its `setup`."""


@dataclass(frozen=True)
class Lookup:
    """`folders` of the workspace that PATH names ("" for itself), and those that it names `outside` of it.

    `named` are programs of the workspace that checks are started by, each with the reason why it is theirs.
    """

    folders: frozenset[str] = frozenset()
    outside: tuple[Path, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)

    def before(self, path: str) -> str | None:
        """What a program at `path` is found before, or in place of ("the program grep"); None: nothing of the machine's."""
        folder, _, name = path.rpartition("/")
        if folder.casefold() not in self.folders or not any(_can_run(place / name) for place in self.outside):
            return None
        return f"the program {name}"

    def leads(self, path: str) -> bool:
        """Whether a link at `path` would lead PATH elsewhere."""
        path = path.casefold()
        return any(folder == path or folder.startswith(f"{path}/") for folder in self.folders)


def lookup_of(
    searched: Iterable[tuple[str, Path]], workspace: Path, named: Mapping[str, str], more: Iterable[str] = ()
) -> Lookup:
    """`searched` are values of PATH, each with the folder in which it is used; `more` are folders of the workspace."""
    root, inside = Path(os.path.realpath(workspace)), set(more)
    outside: dict[Path, None] = {}
    for text, start in searched:
        for place in entries(text, start):
            within = [path for path in (place, Path(os.path.realpath(place))) if path.is_relative_to(root)]
            inside.update("" if path == root else path.relative_to(root).as_posix() for path in within)
            if not within:
                outside[place] = None
    return Lookup(frozenset(folder.casefold() for folder in inside), tuple(outside), dict(named))


def entries(text: str, start: Path) -> list[Path]:
    """The folders of a PATH that is used in `start`. An empty entry is the folder itself."""
    return [Path(os.path.normpath(start / entry)) for entry in text.split(os.pathsep)]


def _can_run(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
