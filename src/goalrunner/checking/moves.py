"""Which live paths a check environment replaces, where they wait meanwhile, and renaming them there and back."""

# Paths are strings here, as in the journal.

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
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
    places = _Places(folder, token)
    rows = []
    for number, (path, (root, info)) in enumerate(sorted(affected.items())):
        parents = map(str, Path(path).parents)
        if any(parent in affected for parent in parents):
            continue
        aside = os.path.join(places.place(path, root), str(number))
        rows.append(Move(path, root, aside, info.st_ino if info else 0, info.st_mode if info else 0))
    return rows


def _affected(root: str, path: str, *, put: bool) -> tuple[str, os.stat_result | None] | None:
    """Return the uppermost path that changes, and what stands there now; None if nothing changes."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise EnvironmentFailed(f"{path!r} cannot be replaced for a check: it is not a path below {root}")
    here = root
    for part in parts[:-1]:
        here = os.path.join(here, part)
        info = _lstat(here)
        if info is None or not stat.S_ISDIR(info.st_mode):
            return (here, info) if put else None
    here = os.path.join(here, parts[-1])
    info = _lstat(here)
    return (here, info) if put or info else None


class _Places:
    """Chooses folders on the file system of a path: below GOAL_HOME, in the git folder, or a hidden one beside it."""

    def __init__(self, folder: Path, token: str) -> None:
        self._folder = folder
        self._token = token
        self._known: dict[tuple[str, str], str] = {}

    def place(self, path: str, root: str) -> str:
        """Return the folder for a live path. It need not exist yet."""
        parent = os.path.dirname(path)
        key = (parent, root)
        if key not in self._known:
            self._known[key] = self._choose(parent, root)
        return self._known[key]

    def _choose(self, parent: str, root: str) -> str:
        if self._is_beside(str(self._folder), parent):
            return str(self._folder / "live")
        repository = enclosing(Path(root))
        if repository and self._is_beside(str(repository.git_dir), parent):
            return str(repository.git_dir / f"goal-checks-{self._token}")
        top = parent
        while top != root and self._is_beside(os.path.dirname(top), parent):
            top = os.path.dirname(top)
        # Snapshots leave out what is called `.git`, so that resetting the workspace to one does not remove it.
        return os.path.join(top, f".goal-checks-{self._token}", ".git")

    def _is_beside(self, folder: str, parent: str) -> bool:
        """Return whether a rename from one folder to the other is possible.

        Two bind mounts of one disk have the same device number; only a rename shows the difference. It names a file
        that does not exist, so that it changes nothing.
        """
        one, other = _lstat(folder), _lstat(parent)
        if one is None or other is None or one.st_dev != other.st_dev:
            return False
        try:
            os.rename(os.path.join(folder, f".none-{self._token}"), os.path.join(parent, f".none-{self._token}"))
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
        return
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(handle, "wb") as sink:
        sink.write(file.data)
        os.fchmod(handle, stat.S_IMODE(file.mode))


def move_back(opened: OpenJournal, move: Move) -> bool:
    """Put one live path back in place of what stands there now; return False if the live one is gone.

    Raise OSError. Repeating it changes nothing.
    """
    step = f"move {os.path.basename(move.aside)}"
    if opened.is_done(step):
        return True
    waiting = _lstat(move.aside)
    if waiting or not move.inode:
        make_parents(move.root, move.path)
        if _lstat(move.path):
            _rename(move.path, f"{move.aside}.check-{os.urandom(4).hex()}")
    if waiting:
        _rename(move.aside, move.path)
        if stat.S_ISDIR(move.mode) and _mode(move.path) != stat.S_IMODE(move.mode):
            os.chmod(move.path, stat.S_IMODE(move.mode))
    elif move.inode:
        now = _lstat(move.path)
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
        info = _lstat(here)
        if info is None or not stat.S_ISDIR(info.st_mode):
            remove(Path(here))
            os.mkdir(here)


def remove_aside(folder: str) -> bool:
    """Remove a folder of set-aside paths with what checks wrote in it; return False if a live path is still there."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if ".check-" in name:
                with contextlib.suppress(OSError):
                    remove(Path(folder, name))
    try:
        os.rmdir(folder)
        if os.path.basename(folder) == ".git":
            os.rmdir(os.path.dirname(folder))
    except FileNotFoundError:
        return True
    except OSError:
        return not any(".check-" not in name for name in os.listdir(folder))
    return True


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


def _mode(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
