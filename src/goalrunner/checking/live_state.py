"""What no snapshot holds of a workspace: modes, empty folders, pipes and sockets, and the files of git folders.

It is recorded before an in-place check and put back after it. Git's objects stay as they are: new ones do no harm, and
copying them would take longer than most checks.
"""

# Paths are strings here, as in the journal.

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from goalrunner.checking.environment import File
from goalrunner.checking.files import lstat, make_parents, put_file, read_whole
from goalrunner.checking.journal import GitFile, Journal
from goalrunner.snapshots.diff import CACHES
from goalrunner.snapshots.files import remove
from goalrunner.snapshots.git import Repository, content

_CACHE_FOLDERS = frozenset(pattern.rstrip("/") for pattern in CACHES if pattern.endswith("/"))
_USUAL = (0o644, 0o755)


def look(workspace: str, skip: Collection[str], *, enter: bool = False) -> dict[str, int]:
    """Return the modes, as in `os.stat`, of folders, of `.git`, of what is no file, and of files with unusual permissions.

    Paths are relative; the workspace itself is an empty string. Caches and what is in `skip`, with or without a slash,
    are left out. `enter`: folders that cannot be read are made readable first.
    """
    found, waiting = dict[str, int](), [""]
    while waiting:
        folder = waiting.pop()
        place = os.path.join(workspace, folder)
        with contextlib.suppress(OSError):
            found[folder] = mode = os.lstat(place).st_mode
            if enter and mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(place, stat.S_IMODE(mode) | stat.S_IRWXU)
            with os.scandir(place) as entries:
                for entry in entries:
                    path = os.path.join(folder, entry.name)
                    if entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                        if entry.name not in _CACHE_FOLDERS and path not in skip and f"{path}/" not in skip:
                            waiting.append(path)
                    elif entry.name == ".git" or not entry.is_symlink():
                        mode = entry.stat(follow_symlinks=False).st_mode
                        if entry.name == ".git" or not stat.S_ISREG(mode) or stat.S_IMODE(mode) not in _USUAL:
                            found[path] = mode
    return found


def make_accessible(workspace: str, modes: dict[str, int]) -> None:
    """Give back access to the recorded folders whose mode a check changed, so that files in them can be restored."""
    for path, mode in sorted(modes.items()):
        place = os.path.join(workspace, path)
        with contextlib.suppress(OSError):
            if stat.S_ISDIR(mode) and stat.S_ISDIR(now := os.lstat(place).st_mode) and now != mode:
                os.chmod(place, stat.S_IMODE(mode) | stat.S_IRWXU)


def restore_modes(workspace: str, modes: dict[str, int], changed: Sequence[str]) -> None:
    """Make missing folders, and give recorded paths and the `changed` files their modes. Raise OSError."""
    recorded = {path: mode for path, mode in modes.items() if os.path.basename(path) != ".git"}
    for path, mode in sorted(recorded.items()):
        place = os.path.join(workspace, path)
        if stat.S_ISDIR(mode) and not os.path.lexists(place):
            make_parents(workspace, place)
            os.mkdir(place)
    there = {path: lstat(os.path.join(workspace, path)) for path in changed}
    usual = {path: 0o755 if info and info.st_mode & stat.S_IXUSR else 0o644 for path, info in there.items()}
    for path, mode in sorted((usual | recorded).items(), reverse=True):  # what is in a folder before the folder
        info = lstat(os.path.join(workspace, path))
        if info and not stat.S_ISLNK(info.st_mode) and stat.S_IMODE(info.st_mode) != stat.S_IMODE(mode):
            os.chmod(os.path.join(workspace, path), stat.S_IMODE(mode))


_MOST_BYTES = 200_000_000
"""Beyond these, no content of git files is recorded: files that a check changes there stay changed."""
_LARGE = ("objects", "lfs", "annex")
"""Folders beside a HEAD whose content is not recorded, in submodules and worktrees as well."""


def git_places(repositories: Iterable[Repository], workspace: Path) -> list[str]:
    """Return the files and folders to record for these repositories.

    Of a git folder outside of the workspace that other worktrees share, only the configuration, the hooks and the
    branch of this worktree: people work in the other worktrees meanwhile.
    """
    places: dict[str, None] = {}
    for repository in repositories:
        dot = repository.root / ".git"
        if dot.is_file() or dot.is_symlink():
            places[str(dot)] = None
        places[os.path.realpath(repository.git_dir)] = None
        common = repository.common.resolve()
        if common != repository.git_dir.resolve() and not common.is_relative_to(workspace):
            names = ["config", "hooks", "info"]
            head = content(repository.git_dir / "HEAD")
            if head.startswith(b"ref: refs/") and b".." not in head:
                branch = os.fsdecode(head[5:].strip())
                names += [branch, f"logs/{branch}"]
            places.update((str(common / name), None) for name in names)
    return list(places)


def record_git_files(places: Iterable[str]) -> list[GitFile]:
    """Return the files, links and folders below these places, parents first."""
    rows, left = [], _MOST_BYTES
    for path, info, is_large in _walk(places):
        data = None if is_large or info.st_size > left else read_whole(path, info.st_mode)
        left -= len(data or b"")
        text = None if data is None else base64.b64encode(data).decode()
        rows.append(GitFile(path, info.st_mode, info.st_mtime_ns, text))
    return rows


def _walk(places: Iterable[str]) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Yield the files, links and folders below the places, parents first; large folders without what is in them."""
    seen: set[str] = set()
    large: set[str] = set()
    waiting = sorted(places, reverse=True)
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            info = os.lstat(path)
            names = os.listdir(path) if stat.S_ISDIR(info.st_mode) and path not in large else []
        except OSError:
            continue
        if stat.S_IFMT(info.st_mode) in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
            yield path, info, path in large
        if "HEAD" in names and "refs" in names:
            large.update(os.path.join(path, name) for name in _LARGE)
        waiting += [os.path.join(path, name) for name in sorted(names, reverse=True)]


def put_git_files_back(journal: Journal, keep: Path, step: Callable[[str], AbstractContextManager[None]]) -> list[str]:
    """Remove new git files, deepest first, and restore the recorded ones, parents first; return what is lost, in words.

    Each is a `step`, so that one that fails does not keep the others from it. Files that a person may have changed during
    the check, by a commit for one, are copied to the folder `keep` first.
    """
    known = {row.path for row in journal.git_files}
    for place in journal.git_places:
        if place.startswith(f"{journal.workspace}/"):
            with contextlib.suppress(OSError):  # it is named with the files below
                make_parents(journal.workspace, place)
    new = [(path, info) for path, info, _ in _walk(journal.git_places) if path not in known]
    for path, info in reversed(new):
        with step(path):
            if not stat.S_ISDIR(info.st_mode):
                _save(path, keep)
                os.unlink(path)
            else:
                with contextlib.suppress(OSError):  # not empty: a socket, or something else that is no file
                    os.rmdir(path)
    lost = []
    for row in journal.git_files:
        with step(row.path):
            if not _restored(row, keep):
                is_folder = stat.S_ISDIR(row.mode)
                what = f"the objects of {os.path.dirname(row.path)} were" if is_folder else f"{row.path} was"
                lost.append(f"{what} removed by the check")
    return lost


def _restored(row: GitFile, keep: Path) -> bool:
    """Restore a path of a git folder; return False if it is gone and was not recorded."""
    info = lstat(row.path)
    if info is None and (row.data is None or row.path.endswith(".lock")):
        return row.path.endswith(".lock")  # that of a git command which ended
    if info and stat.S_IFMT(info.st_mode) != stat.S_IFMT(row.mode):
        remove(Path(row.path))
        info = None
    data = base64.b64decode(row.data or "")
    if stat.S_ISDIR(row.mode):
        if info is None:
            os.mkdir(row.path)
    elif row.data is not None and (info is None or read_whole(row.path, row.mode) != data):
        if info:
            _save(row.path, keep)
        new = f"{row.path}.goal-{os.urandom(4).hex()}"
        put_file("/", new, File(row.mode, data))
        os.utime(new, ns=(row.mtime, row.mtime), follow_symlinks=False)
        os.replace(new, row.path)
    if not stat.S_ISLNK(row.mode) and stat.S_IMODE(os.lstat(row.path).st_mode) != stat.S_IMODE(row.mode):
        os.chmod(row.path, stat.S_IMODE(row.mode))
    return True


def _save(path: str, keep: Path) -> None:
    target = keep / os.path.relpath(path, "/")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy2(path, target, follow_symlinks=False)
