"""The frozen base below copies: a mirror of a workspace's files as they were when a
copy began. A clone is such a mirror that processes write to.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from goalrunner.copies.live_tree import LiveTree, read_live_tree, rows_of
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.records.files import write_whole
from goalrunner.records.removal import remove
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.store_folder import store_name

T = TypeVar("T")

OPAQUE = ("user.overlay.opaque", "trusted.overlay.opaque")
"""Attributes of a folder in a lower layer that hide the folder of the same name below
it; the second is for root's mounts.
"""
_CLONE_CONTENT = 0x40049409
"""The request FICLONE of ioctl(2): both files share their blocks until one of them is
written.
"""
# What is written, or made and removed, all the time would be read for ever.
_TRIES = 5
# One call of sendfile transfers less than 2 GiB.
_MOST_AT_ONCE = 1 << 30
_GIT_SECONDS = 120.0


class FrozenBase:
    """One frozen state of a tree, in a folder that no process writes any more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def files(self) -> Path:
        """The mirror itself, the lower layer of a mount."""
        return self.folder / "tree"

    @property
    def objects(self) -> Path:
        """The folder with one mount point for each folder of git objects, named 0, 1, 2
        ...
        """
        return self.folder.parent / "objects"

    def is_used(self) -> bool:
        """Return whether a copy still stands on this base.

        A copy whose folder was removed by hand does not count.
        """
        for user in (self.folder / "users").iterdir():
            copy = Path(os.readlink(user))
            if copy.exists():
                return True
            user.unlink()
        return False

    def add_user(self, copy: Path) -> None:
        """Keep this base while the folder of a copy exists. Raise OSError."""
        link = self.folder / "users" / copy.parent.name
        if not os.path.lexists(link):
            link.symlink_to(copy)


@contextmanager
def copy_errors(root: Path) -> Iterator[None]:
    """Raise EnvironmentFailed for an OSError of the block, which makes a copy."""
    try:
        yield
    except OSError as error:
        hint = "free some space, or set GOAL_HOME to another disk"
        if isinstance(error, PermissionError):
            hint = "check its owner and permissions, or let git ignore it"
        elif isinstance(error, FileNotFoundError):
            hint = "let git ignore what is made and removed all the time, and try again"
        path = f" ({error.filename})" if error.filename else ""
        why = (error.strerror or str(error)).lower()
        raise EnvironmentFailed(
            f"a copy of {root} cannot be made: {why}{path}",
            hint,
        ) from error


@contextmanager
def frozen_base(
    home: Path, root: Path, environ: Mapping[str, str]
) -> Iterator[tuple[FrozenBase, LiveTree]]:
    """Yield a base that equals the live tree at `root`, made or brought up to date if
    needed, and the tree.

    The caller adds itself as a user within the block. Two processes do not make one at
    the same time. Raise EnvironmentFailed.
    """
    place = home / "bases" / store_name(root)
    with copy_errors(root), contextlib.ExitStack() as handles:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / "objects").mkdir(exist_ok=True)
        lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        handles.callback(os.close, lock)
        # `goal prune` waits for it, and so removes no base before its user is noted.
        fcntl.flock(lock, fcntl.LOCK_EX)

        def update() -> tuple[FrozenBase, LiveTree]:
            tree = read_live_tree(root, environ, place / "rules")
            return _current(place, tree, environ), tree

        yield _again_if_files_vanish(update)


def clone_tree(
    root: Path, rules: Path, target: Path, environ: Mapping[str, str]
) -> LiveTree:
    """Copy the live tree at `root` into a new folder, whose repositories borrow the
    objects of the live ones; return the tree. Raise EnvironmentFailed and OSError.

    `rules` is that of `read_live_tree`.
    """

    def copy() -> LiveTree:
        tree = read_live_tree(root, environ, rules)
        target.mkdir(mode=0o700, parents=True)
        update = _Update(target, tree, None, environ)
        try:
            update.perform({}, rows_of(tree.manifest()))
        except FileNotFoundError:
            remove(target)
            raise
        return tree

    return _again_if_files_vanish(copy)


def _again_if_files_vanish(copy: Callable[[], T]) -> T:
    """Return what `copy` returns; call it again if files vanish while it reads them.

    Programs that work in the live tree make and remove files at any time.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(FileNotFoundError):
            return copy()
    return copy()


def _current(place: Path, tree: LiveTree, environ: Mapping[str, str]) -> FrozenBase:
    bases = finished_bases(place)
    manifest = tree.manifest()
    # With inodes and change times in it, no content has to be compared.
    if bases and (bases[-1].folder / "manifest").read_bytes() == manifest:
        return bases[-1]
    unfinished = place / "unfinished"
    if unfinished.exists():
        remove(unfinished)
    # The name of a base that copies stand on is never given again.
    number = int(bases[-1].folder.name) + 1 if bases else 0
    before: dict[str, str] = {}
    if bases:
        newest = bases[-1].folder
        before = rows_of((newest / "manifest").read_bytes())
        # Copies are mounted on it: it stays as it is, and a new one shares its files.
        if bases[-1].is_used():
            _link_all(newest / "tree", unfinished / "tree")
        else:
            # A kill from here on costs the mirror, and the next copy makes it anew.
            newest.rename(unfinished)
    (unfinished / "tree").mkdir(parents=True, exist_ok=True)
    (unfinished / "users").mkdir(exist_ok=True)
    _Update(unfinished / "tree", tree, place / "objects", environ).perform(
        before, rows_of(manifest)
    )
    # It is renamed when it is whole: a mirror without a number is never mounted.
    write_whole(unfinished / "manifest", manifest, lasting=False)
    base = place / str(number)
    unfinished.rename(base)
    for earlier in bases[:-1]:
        if not earlier.is_used():
            remove(earlier.folder)
    return FrozenBase(base)


def finished_bases(place: Path) -> list[FrozenBase]:
    """Return the finished bases, the newest one last."""
    names = [name for name in os.listdir(place) if name.isdecimal()]
    return [FrozenBase(place / name) for name in sorted(names, key=int)]


def _link_all(source: Path, target: Path) -> None:
    """Make a tree whose files are links to those of `source`: files of a base are
    replaced, and never written.
    """
    shutil.copytree(source, target, symlinks=True, copy_function=os.link)
    for folder, _, _ in os.walk(target):
        original = os.path.join(source, os.path.relpath(folder, target))
        for name in os.listxattr(original):
            os.setxattr(folder, name, os.getxattr(original, name))


class _Update:
    """Brings one mirror up to date with a live tree.

    `objects` has the mount points through which its repositories read the live objects;
    None for a clone, which reads them at their own paths, and is no layer of a mount.
    """

    def __init__(
        self,
        files: Path,
        tree: LiveTree,
        objects: Path | None,
        environ: Mapping[str, str],
    ) -> None:
        self._files = files
        self._tree = tree
        self._objects = objects
        self._environ = environ
        self._copier = FileCopier()

    def perform(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Change what differs between two manifests, each by path. Raise OSError."""
        changed = {path for path, facts in after.items() if before.get(path) != facts}
        gone = before.keys() - after.keys()
        # The longest path first: a folder is empty when its turn comes.
        for path in sorted(gone, key=len, reverse=True):
            self._remove(path)
        for path in sorted(changed):
            if path.endswith("/"):
                os.makedirs(self._files / path, exist_ok=True)
        for path in sorted(changed):
            if not path.endswith("/"):
                self._copy(path, replaces=path in before)
        for path in self._tree.object_folders:
            self._lend_objects(path)
        # The times of folders come last: each file that is made in one changes them.
        for path, info in self._tree.folders.items():
            self._finish_folder(path, info)
        for path in changed:
            if os.path.basename(path) == "index":
                self._refresh(path)

    def _remove(self, path: str) -> None:
        place = self._files / path
        if path.endswith("/"):
            # A folder of git objects also holds what was made to lend them.
            remove(place)
        else:
            place.unlink(missing_ok=True)

    def _copy(self, path: str, *, replaces: bool) -> None:
        """Copy one file.

        One that changes meanwhile is read again; after several times, it is taken as it
        is.
        """
        source = os.path.join(self._tree.root, path)
        target = os.path.join(self._files, path)
        for _ in range(_TRIES):
            # Another base may have a link to this file, so it is never written.
            if replaces:
                os.unlink(target)
            before = os.lstat(source)
            self._copier.copy(source, target, before)
            # The change time cannot be set back, unlike the time of modification.
            if os.lstat(source).st_ctime_ns == before.st_ctime_ns:
                return
            replaces = True

    def _lend_objects(self, path: str) -> None:
        """Let the repository of the copy read the objects of the live one, and write
        its own.
        """
        folder = self._files / path
        live = self._tree.root / path
        lender = live
        if self._objects is not None:
            lender = self._objects / str(self._tree.object_folders.index(path))
            lender.mkdir(exist_ok=True)
        (folder / "pack").mkdir(parents=True, exist_ok=True)
        (folder / "info").mkdir(exist_ok=True)
        places = [str(lender)]
        with contextlib.suppress(FileNotFoundError):
            # A clone made with --reference or --shared borrows objects itself.
            borrowed = (live / "info" / "alternates").read_text().splitlines()
            places += [os.path.normpath(live / line) for line in borrowed if line]
        text = "".join(f"{place}\n" for place in places)
        write_whole(folder / "info" / "alternates", text.encode(), lasting=False)

    def _finish_folder(self, path: str, info: os.stat_result) -> None:
        place = self._files / path
        if self._objects is not None:
            self._note_layer(place, path)
        if os.geteuid() == 0:
            os.chown(place, info.st_uid, info.st_gid)
        # A later update, and the removal of the mirror, have to enter and write it.
        os.chmod(place, stat.S_IMODE(info.st_mode) | 0o700)
        os.utime(place, ns=(info.st_atime_ns, info.st_mtime_ns))

    def _note_layer(self, place: Path, path: str) -> None:
        """Let a mount hide the live folder, unless it holds something shared."""
        for attribute in OPAQUE:
            hides_live = path not in self._tree.shared_folders
            # Only root can set the second attribute, and only root's mounts read it.
            with contextlib.suppress(OSError):
                if hides_live:
                    os.setxattr(place, attribute, b"y")
                elif attribute in os.listxattr(place):
                    os.removexattr(place, attribute)

    def _refresh(self, path: str) -> None:
        """Let git note the inodes of the mirror in its index; else each `git status` in
        a copy would read every file.
        """
        folder = os.path.dirname(path)
        if os.path.basename(folder) != ".git":
            return
        work_tree = self._files / os.path.dirname(folder)
        ask_git(
            work_tree,
            "update-index",
            "-q",
            "--refresh",
            environ=self._environ,
            timeout=_GIT_SECONDS,
        )


class FileCopier:
    """Copies files with their modes and times, and as root with their owners."""

    def __init__(self) -> None:
        self._shares_blocks = True
        self._is_root = os.geteuid() == 0

    def copy(self, source: str, target: str, info: os.stat_result) -> None:
        """Copy a regular file or a symbolic link to a new path. Raise OSError."""
        times = (info.st_atime_ns, info.st_mtime_ns)
        if stat.S_ISLNK(info.st_mode):
            os.symlink(os.readlink(source), target)
            if self._is_root:
                os.lchown(target, info.st_uid, info.st_gid)
            os.utime(target, ns=times, follow_symlinks=False)
            return
        reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                self._copy_content(reading, writing)
                if self._is_root:
                    os.fchown(writing, info.st_uid, info.st_gid)
                os.fchmod(writing, stat.S_IMODE(info.st_mode))
                os.utime(writing, ns=times)
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    def _copy_content(self, reading: int, writing: int) -> None:
        if self._shares_blocks:
            try:
                fcntl.ioctl(writing, _CLONE_CONTENT, reading)
            except OSError:
                # The file system, or two of them, cannot share blocks.
                self._shares_blocks = False
            else:
                return
        if sys.platform != "linux":
            # There, sendfile writes only to sockets.
            with (
                open(reading, "rb", closefd=False) as source,
                open(writing, "wb", closefd=False) as target,
            ):
                shutil.copyfileobj(source, target)
            return
        # Unlike copy_file_range, it works from any file system to any other one.
        while os.sendfile(writing, reading, None, _MOST_AT_ONCE):
            pass
