"""Where programs are looked up in a workspace. Owns which of its files are found before a program of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

BROUGHT_FIRST = ("node_modules/.bin", ".venv/bin")
"""Folders of a checkout whose programs come first after its `setup`."""


@dataclass(frozen=True)
class Way:
    """A folder of the workspace on PATH ("" for itself), and the machine's folders that come `earlier` and `later` there."""

    folder: str
    earlier: tuple[Path, ...]
    later: tuple[Path, ...]

    def first(self, name: str) -> bool:
        """Whether a program of that name in the folder would be found in place of one of the machine's."""
        return not any(_can_run(place / name) for place in self.earlier) and any(
            _can_run(place / name) for place in self.later
        )


@dataclass(frozen=True)
class Lookup:
    """`ways` are those of all checks. `named` are programs of the workspace that checks are started by, each with the
    reason why it is theirs.
    """

    ways: tuple[Way, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)

    def before(self, path: str) -> str | None:
        """What a program at `path` is found before ("the program grep"); None: nothing of the machine's."""
        folder, _, name = path.rpartition("/")
        found = any(way.folder.casefold() == folder.casefold() and way.first(name) for way in self.ways)
        return f"the program {name}" if found else None

    def leads(self, path: str) -> bool:
        """Whether a link at `path` would lead PATH elsewhere."""
        path = path.casefold()
        folders = {way.folder.casefold() for way in self.ways}
        return any(folder == path or folder.startswith(f"{path}/") for folder in folders)


def lookup_of(
    searched: Iterable[tuple[str, Path]], workspace: Path, named: Mapping[str, str], first: Iterable[str] = ()
) -> Lookup:
    """`searched` are values of PATH, each with the folder in which it is used. `first` are folders of the workspace in
    which programs are looked up before PATH.
    """
    root = Path(os.path.realpath(workspace))
    ways: dict[Way, None] = {}
    for text, start in searched:
        places = [(place, _within(place, root)) for place in entries(text, start)]
        machine = [place for place, folders in places if not folders]
        ways |= dict.fromkeys(Way(folder, (), tuple(machine)) for folder in first)
        for at, (_, folders) in enumerate(places):
            earlier = [place for place, inside in places[:at] if not inside]
            later = [place for place, inside in places[at:] if not inside]
            ways |= dict.fromkeys(Way(folder, tuple(earlier), tuple(later)) for folder in folders)
    return Lookup(tuple(ways), dict(named))


def _within(place: Path, root: Path) -> set[str]:
    """The folder of PATH as the workspace names it: as it is written, and where it leads; empty for one outside."""
    spelled = [path for path in (place, Path(os.path.realpath(place))) if path.is_relative_to(root)]
    return {"" if path == root else path.relative_to(root).as_posix() for path in spelled}


def entries(text: str, start: Path) -> list[Path]:
    """The folders of a PATH that is used in `start`. An empty entry is the folder itself."""
    return [Path(os.path.normpath(start / entry)) for entry in text.split(os.pathsep)]


def _can_run(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
