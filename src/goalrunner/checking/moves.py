"""Which live paths a check environment replaces, where they wait meanwhile, and renaming them there and back."""

# Paths are strings here, as in the journal.

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from goalrunner.checking.environment import File, Layer
from goalrunner.checking.journal import Move, OpenJournal
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.snapshots.repositories import enclosing
from goalrunner.snapshots.restore import remove

_REASONS = {errno.EBUSY: "it is a mount point", errno.EXDEV: "its file system does not rename this folder"}
_HINT = "run where an overlay of the workspace can be mounted"


def moves_of(layers: Sequence[Layer], folder: Path, token: str) -> list[Move]:
    """Return what is renamed aside, or made, for these layers; no path lies below another one.

    `folder` is where live files wait if it is on their file system. Raise EnvironmentFailed or OSError.
    """
    affected: dict[str, tuple[str, os.stat_result | None]] = {}
    for layer in layers:
        root = os.path.realpath(layer.root)
        for path in (*layer.hide, *layer.put):
            if found := _affected(root, path, put=path in layer.put):
                affected[found[0]] = (root, found[1])

    @cache
    def place(parent: str, root: str) -> str:
        return _place(parent, root, folder, token)

    rows = []
    for number, (path, (root, info)) in enumerate(sorted(affected.items())):
        if affected.keys().isdisjoint(map(str, Path(path).parents)):
            aside = os.path.join(place(os.path.dirname(path), root), str(number))
            rows.append(Move(path, root, aside, info.st_ino if info else 0, info.st_mode if info else 0))
    return rows


def _affected(root: str, path: str, *, put: bool) -> tuple[str, os.stat_result | None] | None:
    """Return the uppermost path that changes, and what stands there now; None if nothing changes."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise EnvironmentFailed(f"{path!r} cannot be replaced for a check: it is not a path below {root}")
    here, info = root, None
    for number, part in enumerate(parts, 1):
        here = os.path.join(here, part)
        info = lstat(here)
        if number < len(parts) and (info is None or not stat.S_ISDIR(info.st_mode)):
            return (here, info) if put else None
    return (here, info) if put or info else None


def _place(parent: str, root: str, folder: Path, token: str) -> str:
    """Return a folder on the file system of `parent`: below GOAL_HOME, in the git folder, or a hidden one beside it."""
    if _can_rename(str(folder), parent, token):
        return str(folder / "live")
    repository = enclosing(Path(root))
    if repository and _can_rename(str(repository.git_dir), parent, token):
        return str(repository.git_dir / f"goal-checks-{token}")
    top = parent
    while top != root and _can_rename(os.path.dirname(top), parent, token):
        top = os.path.dirname(top)
    # Snapshots leave out what is called `.git`, so that resetting the workspace to one does not remove it.
    return os.path.join(top, f".goal-checks-{token}", ".git")


def _can_rename(folder: str, parent: str, token: str) -> bool:
    """Return whether a rename from one folder to the other is possible.

    Two bind mounts of one disk have the same device number; only a rename shows the difference. It names a file that
    does not exist, so that it changes nothing.
    """
    one, other = lstat(folder), lstat(parent)
    if one is None or other is None or one.st_dev != other.st_dev:
        return False
    try:
        os.rename(os.path.join(folder, f".none-{token}"), os.path.join(parent, f".none-{token}"))
    except OSError as error:
        return error.errno != errno.EXDEV
    return True


def set_aside(moves: Sequence[Move]) -> None:
    """Rename the live paths aside. Raise EnvironmentFailed or OSError."""
    for move in moves:
        os.makedirs(os.path.dirname(move.aside), mode=0o700, exist_ok=True)
        if not move.inode:
            continue
        try:
            _rename(move.path, move.aside)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, error.strerror)
            raise EnvironmentFailed(f"{move.path} cannot be set aside for the check: {reason}", _HINT) from error


def put_file(root: Path, path: str, file: File) -> None:
    """Write a file or link of a layer with the current time; missing parents are made. Raise OSError."""
    target = os.path.join(os.path.realpath(root), path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if file.is_link:
        os.symlink(os.fsdecode(file.data), target)
    else:
        write_new(target, file.data, file.mode)


def write_new(path: str, data: bytes, mode: int) -> None:
    """Write a file that does not exist yet. Raise OSError."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(handle, "wb") as sink:
        sink.write(data)
        os.fchmod(handle, stat.S_IMODE(mode))


def move_back(opened: OpenJournal, move: Move) -> bool:
    """Put one live path back in place of what stands there now; return False if the live one is gone.

    Raise OSError. Repeating it changes nothing.
    """
    step = f"move {os.path.basename(move.aside)}"
    if opened.is_done(step):
        return True
    waiting = lstat(move.aside)
    if waiting or not move.inode:
        make_parents(move.root, move.path)
        if lstat(move.path):
            _rename(move.path, f"{move.aside}.check-{os.urandom(4).hex()}")
    if waiting:
        _rename(move.aside, move.path)
        if stat.S_ISDIR(move.mode):
            os.chmod(move.path, stat.S_IMODE(move.mode))
    elif move.inode:
        now = lstat(move.path)
        # Never set aside, or back already. Otherwise the reset to the snapshot restores what no rule ignores.
        if now is None or now.st_ino != move.inode:
            return False
    opened.set_done(step)
    return True


def make_parents(root: str, path: str) -> None:
    """Make the folders between `root` and `path`; a link or a file in the way is removed. Raise OSError."""
    here = root
    for part in os.path.relpath(path, root).split("/")[:-1]:
        here = os.path.join(here, part)
        info = lstat(here)
        if info is None or not stat.S_ISDIR(info.st_mode):
            remove(Path(here))
            os.mkdir(here)


def remove_aside(folder: str) -> bool:
    """Remove a folder of set-aside paths with what checks wrote in it; return False if a live path is still there."""
    left = os.listdir(folder) if os.path.isdir(folder) else []
    for name in left:
        if ".check-" in name:
            with contextlib.suppress(OSError):
                remove(Path(folder, name))
    with contextlib.suppress(OSError):
        os.rmdir(folder)
        if os.path.basename(folder) == ".git":
            os.rmdir(os.path.dirname(folder))
    return all(".check-" in name for name in left)


def _rename(source: str, target: str) -> None:
    """Rename a file or folder; a folder without write permission gets it for that moment. Raise OSError."""
    try:
        os.rename(source, target)
    except PermissionError:
        info = os.lstat(source)
        if not stat.S_ISDIR(info.st_mode) or info.st_mode & stat.S_IWUSR:
            raise
        os.chmod(source, stat.S_IMODE(info.st_mode) | stat.S_IRWXU)
        os.rename(source, target)
        os.chmod(target, stat.S_IMODE(info.st_mode))


def lstat(path: str) -> os.stat_result | None:
    """Return the stat of a path without following a link; None if it does not exist. Raise OSError."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
