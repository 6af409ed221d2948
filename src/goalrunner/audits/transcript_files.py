"""Which files are transcripts, and the goal file of each."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from goalrunner.core.errors import UsageError
from goalrunner.transcripts import check_format

_SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj", ".eval")
"""Suffixes of transcripts in a folder."""


def find_transcripts(names: Sequence[str]) -> list[Path]:
    """Return the transcripts that files, folders and patterns name, each once. Raise UsageError if a name has none.

    A folder may be a transcript itself (a run, events of OpenHands). Of any other folder, these are the files with the
    suffix of a transcript, also in subfolders that are not hidden.
    """
    transcripts: dict[str, Path] = {}  # by real path
    for name in names:
        named = list(_named(name))
        if not named:
            suffixes = ", ".join(_SUFFIXES)
            raise UsageError(
                f"{name}: no transcript was found",
                f"name files, or a folder with files ({suffixes})",
            )
        for path in named:
            transcripts[os.path.realpath(path)] = path
    return list(transcripts.values())


def _named(name: str) -> Iterator[Path]:
    is_path = os.path.lexists(name) or file_of_part(name)
    matches = [name] if is_path else sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - absolute ones as well
    for match in matches:
        path = Path(match)
        if path.is_dir():
            yield from _inside(path)
        else:
            yield path


def file_of_part(path: str) -> str:
    """Return FILE of a path FILE#NAME, which names one conversation of the file; empty for other paths."""
    file, _, _ = path.rpartition("#")
    is_part = os.path.isfile(file) and not os.path.lexists(path)  # noqa: PTH113
    return file if is_part else ""


def _inside(folder: Path) -> Iterator[Path]:
    try:
        check_format(folder)
    except UsageError:
        for path in sorted(folder.iterdir()):
            if (
                path.is_dir()
                and not path.is_symlink()
                and not path.name.startswith(".")
            ):
                yield from _inside(path)
            elif path.suffix in _SUFFIXES and path.is_file():
                yield path
    else:
        yield folder


def goal_beside(path: Path) -> Path:
    """Return the goal file of a transcript: NAME.toml beside it, or goal.toml in its folder. Raise UsageError if none exists."""
    file = Path(file_of_part(str(path)) or path)
    places = [file / "goal.toml"]
    if not file.is_dir():
        places = [file.with_suffix(".toml"), file.with_name("goal.toml")]
    for place in places:
        if place.is_file():
            return place
    raise UsageError(
        f"{path}: no goal to judge it by; there is no {' and no '.join(map(str, places))}",
        "add --objective TEXT or --goal FILE, which hold for all transcripts",
    )
