"""What no snapshot holds of a workspace: modes, empty folders, pipes and sockets; and which of its files are outputs."""

# Paths are strings here, as in the journal.

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.checking.moves import lstat, make_parents
from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.ignore_rules import CACHES
from goalrunner.snapshots.objects import shown
from goalrunner.snapshots.restore import remove

_CACHE_FOLDERS = frozenset(pattern.rstrip("/") for pattern in CACHES if pattern.endswith("/"))


@dataclass
class Folders:
    """Paths are relative to the workspace; the workspace itself is an empty string."""

    modes: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    """Files whose mode is neither 0644 nor 0755; a snapshot tells these two apart."""
    special: list[str] = field(default_factory=list)
    """Pipes, sockets and devices."""
    repositories: list[str] = field(default_factory=list)
    """Folders with a `.git`."""


def look(workspace: str, skip: Collection[str], *, enter: bool = False) -> Folders:
    """Return the folders below a workspace, but for those in `skip` and for caches.

    `enter`: folders that cannot be read are made readable first.
    """
    found = Folders()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        place = os.path.join(workspace, folder)
        with contextlib.suppress(OSError):
            found.modes[folder] = stat.S_IMODE(os.lstat(place).st_mode)
            if enter and found.modes[folder] & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(place, found.modes[folder] | stat.S_IRWXU)
            with os.scandir(place) as entries:
                for entry in entries:
                    path = os.path.join(folder, entry.name)
                    if entry.name == ".git":
                        found.repositories.append(folder)
                    elif entry.is_dir(follow_symlinks=False):
                        if path not in skip and entry.name not in _CACHE_FOLDERS:
                            waiting.append(path)
                    elif not entry.is_symlink():
                        mode = entry.stat(follow_symlinks=False).st_mode
                        if not stat.S_ISREG(mode):
                            found.special.append(path)
                        elif stat.S_IMODE(mode) not in (0o644, 0o755):
                            found.files[path] = stat.S_IMODE(mode)
    return found


def make_accessible(workspace: str, modes: dict[str, int]) -> None:
    """Give back access to the recorded folders whose mode a check changed, so that files in them can be restored."""
    for path, mode in sorted(modes.items()):
        place = os.path.join(workspace, path)
        with contextlib.suppress(OSError):
            info = os.lstat(place)
            if stat.S_ISDIR(info.st_mode) and stat.S_IMODE(info.st_mode) != mode:
                os.chmod(place, mode | stat.S_IRWXU)


def restore_modes(workspace: str, folders: dict[str, int], files: dict[str, int], changed: Sequence[str]) -> None:
    """Make missing folders, and give recorded folders, recorded files and the `changed` ones their modes. Raise OSError."""
    for path in sorted(folders):
        place = os.path.join(workspace, path)
        if not os.path.lexists(place):
            make_parents(workspace, place)
            os.mkdir(place)
    modes = dict[str, int]()
    for path in changed:
        info = lstat(os.path.join(workspace, path))
        modes[path] = 0o755 if info and info.st_mode & stat.S_IXUSR else 0o644
    for path, mode in (*(modes | files).items(), *sorted(folders.items(), reverse=True)):
        info = lstat(os.path.join(workspace, path))
        if info and not stat.S_ISLNK(info.st_mode) and stat.S_IMODE(info.st_mode) != mode:
            os.chmod(os.path.join(workspace, path), mode)


def written(workspace: str, patterns: Sequence[str], since: int, skip: Collection[str]) -> list[str]:
    """Return the regular files that match a pattern and were written at that time (nanoseconds) or later.

    `skip` are folders and files that do not count.
    """
    if not patterns:
        return []
    wanted = Patterns(patterns)
    return sorted(
        path
        for path, info in _files(workspace, skip)
        if info.st_ctime_ns >= since and wanted.match(shown(os.fsencode(path)))
    )


def _files(workspace: str, skip: Collection[str]) -> Iterator[tuple[str, os.stat_result]]:
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(os.path.join(workspace, folder)) as entries:
            for entry in entries:
                path = os.path.join(folder, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != ".git" and path not in skip:
                        waiting.append(path)
                elif entry.is_file(follow_symlinks=False) and path not in skip:
                    yield path, entry.stat(follow_symlinks=False)


def keep_outputs(workspace: str, paths: Sequence[str], folder: Path) -> None:
    """Move files of the workspace into a folder, under their paths. Raise OSError."""
    for path in paths:
        target = folder / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _transfer(os.path.join(workspace, path), str(target))


def put_outputs_back(workspace: str, folder: Path) -> None:
    """Move the files of `keep_outputs` back over what stands at their paths. Raise OSError."""
    for path, _ in sorted(_files(str(folder), ())):
        target = os.path.join(workspace, path)
        make_parents(workspace, target)
        if os.path.isdir(target) and not os.path.islink(target):
            remove(Path(target))
        _transfer(str(folder / path), target)
    shutil.rmtree(folder, ignore_errors=True)


def _transfer(source: str, target: str) -> None:
    """Rename a file; copy it first where the file systems differ."""
    try:
        os.replace(source, target)
    except OSError:
        new = f"{target}.goal-{os.urandom(4).hex()}"
        shutil.copy2(source, new, follow_symlinks=False)
        os.replace(new, target)
        os.unlink(source)
