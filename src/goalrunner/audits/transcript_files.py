"""The files of transcripts that a command names, and the goal file of each."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.errors import UsageError
from goalrunner.transcripts import check_format, reason_to_skip

# Suffixes of transcripts in a folder.
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj", ".eval")


@dataclass(frozen=True)
class TranscriptFiles:
    """The transcripts that a command names."""

    paths: list[Path]
    from_folders: frozenset[Path]
    """Those that were found in a folder."""
    skipped: dict[Path, str]
    """Other files in the folders with such a suffix -> why they are no transcripts."""


def find_transcripts(names: Sequence[str], *, skip: bool = True) -> TranscriptFiles:
    """Return the transcripts that files, folders and patterns name, each once.

    A folder may be a transcript itself (a run, events of OpenHands). Of any other
    folder, these are the files with the suffix of a transcript, also in subfolders that
    are not hidden. Without `skip`, all of these are transcripts. Raise UsageError if a
    name has none.
    """
    # The same file may be named twice, also by a link.
    by_real_path: dict[str, Path] = {}
    from_folders: set[Path] = set()
    skipped: dict[Path, str] = {}
    for name in names:
        has_transcripts = False
        for path, is_from_folder in _named(name):
            reason = reason_to_skip(path) if is_from_folder and skip else ""
            if reason:
                skipped[path] = reason
                continue
            has_transcripts = True
            by_real_path[os.path.realpath(path)] = path
            if is_from_folder:
                from_folders.add(path)
        if not has_transcripts:
            suffixes = ", ".join(_SUFFIXES)
            raise UsageError(
                f"{name}: no transcript was found",
                f"name files, or a folder with files ({suffixes})",
            )
    paths = list(by_real_path.values())
    return TranscriptFiles(paths, frozenset(from_folders), skipped)


def _named(name: str) -> Iterator[tuple[Path, bool]]:
    """Yield paths, and whether each was found in a folder."""
    if os.path.lexists(name) or file_of_part(name):
        matches = [name]
    else:
        # Unlike the method of Path, this function accepts absolute patterns.
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207
    for match in matches:
        path = Path(match)
        if not path.is_dir():
            yield path, False
            continue
        for inner in _inside(path):
            yield inner, inner != path


def file_of_part(path: str) -> str:
    """Return FILE if a path is FILE#NAME, one conversation of a file; else empty."""
    file, _, _ = path.rpartition("#")
    # The methods of Path raise errors for some invalid names.
    is_part = os.path.isfile(file) and not os.path.lexists(path)  # noqa: PTH113
    return file if is_part else ""


def _inside(folder: Path) -> Iterator[Path]:
    """Yield the transcripts of a folder, or the folder if it is a transcript itself."""
    try:
        check_format(folder)
    except UsageError:
        pass
    else:
        yield folder
        return
    for path in sorted(folder.iterdir()):
        # A link to a folder could lead into a circle.
        is_subfolder = path.is_dir() and not path.is_symlink()
        if is_subfolder and not path.name.startswith("."):
            yield from _inside(path)
        elif path.suffix in _SUFFIXES and path.is_file():
            yield path


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files with the suffix of a transcript in a folder and below it.

    Hidden folders are left out.
    """
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(_SUFFIXES):
                yield Path(parent, name)


def goal_beside(path: Path) -> Path:
    """Return the goal file of a transcript. Raise UsageError if none exists.

    It is NAME.toml beside the transcript, or goal.toml in its folder.
    """
    file = Path(file_of_part(str(path)) or path)
    places = [file / "goal.toml"]
    if not file.is_dir():
        places = [file.with_suffix(".toml"), file.with_name("goal.toml")]
    for place in places:
        if place.is_file():
            return place
    missing_files = " and no ".join(map(str, places))
    raise UsageError(
        f"{path}: no goal to judge it by; there is no {missing_files}",
        "add --objective TEXT or --goal FILE, which hold for all transcripts",
    )
