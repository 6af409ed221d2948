"""The Protocol of check environments, with the file operations that both kinds use."""

# A hundred thousand paths are listed here; pathlib is several times slower.

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from goalrunner.core.errors import EnvironmentFailed as EnvironmentFailed
from goalrunner.core.errors import GoalError
from goalrunner.core.ports import Launcher
from goalrunner.records.files import write_whole
from goalrunner.records.removal import remove

T = TypeVar("T")
_FREE_BYTES = 1_000_000
Kind = Literal["overlay", "in-place"]


@dataclass(frozen=True)
class File:
    """The content of one path in a check environment.

    `mode` is the file type and the permission bits, as in `os.stat`: a regular file, or
    a symbolic link whose target is `data`.
    """

    mode: int
    data: bytes

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


@dataclass(frozen=True)
class Layer:
    """How a check environment differs from the live files below one folder.

    Paths are relative to `root`, with forward slashes, as `os.fsdecode` gives them.
    A path of `put` is a file or a link with that content, whatever the live tree has at
    this path. Its parent folders exist as well; a live file or link in the place of a
    parent is replaced by a folder. A path of `hide` does not exist, and nothing below
    it does, except paths of `put`.
    """

    root: Path
    put: Mapping[str, File] = field(default_factory=dict)
    hide: frozenset[str] = frozenset()


class OpenEnvironment(ABC):
    """A check environment that is set up."""

    path: Path
    """The workspace, at its own path."""
    room: Path
    """A folder on the disk on which the files that checks write take space."""

    def launcher(self, inner: Launcher) -> Launcher:
        """Return a launcher for commands in this environment, through `inner`."""
        return inner

    @abstractmethod
    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables for commands in this environment.

        With `setup`, the programs that it installs come first.
        """

    @abstractmethod
    async def collect(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """Copy files that checks wrote into the live workspace; return their paths.

        `patterns` select the files, as in .gitignore. A link out of the workspace is
        never followed. Raise EnvironmentFailed.
        """

    @abstractmethod
    async def changed(self) -> tuple[str, ...]:
        """Return the files of the workspace that checks wrote with another content.

        The files of the workspace itself stay as they are.
        """

    @abstractmethod
    async def wrote(self) -> tuple[str, ...]:
        """Return the files that checks wrote, new ones included."""

    def full(self) -> str:
        """Return why nothing can be written; empty if it can."""
        is_full = shutil.disk_usage(self.room).free < _FREE_BYTES
        return f"no space left in {self.room}" if is_full else ""


class CheckEnvironment(Protocol):
    """Sets up check environments of one kind."""

    kind: Kind

    def open(
        self,
        layers: Sequence[Layer],
    ) -> AbstractAsyncContextManager[OpenEnvironment]:
        """Set up an environment for one check run.

        At its end, its processes are ended and its writes are discarded. The first
        layer is the workspace's; others are for folders outside of it, such as the git
        folder of a worktree. Raise EnvironmentFailed.
        """
        ...


@contextlib.contextmanager
def environment_errors(what: str) -> Iterator[None]:
    """Raise EnvironmentFailed for a GoalError or an OSError in the context."""
    try:
        yield
    except EnvironmentFailed:
        raise
    except GoalError as error:
        raise EnvironmentFailed(error.message, error.hint) from error
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise EnvironmentFailed(
            f"{what}: {reason}",
            "free some space, or set GOAL_HOME",
        ) from error


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end, even if this task is cancelled in the meantime.

    The cancellation is raised afterwards.
    """
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    # A check that is undone by half would leave a damaged workspace.
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is None:
        return task.result()
    raise cancellation from (None if task.cancelled() else task.exception())


def is_below(path: str, folders: Collection[str]) -> bool:
    """Return whether a relative path is one of these, or lies below one."""
    return path in folders or any(
        str(folder) in folders for folder in Path(path).parents
    )


def copy_into(
    source: Path,
    root: Path,
    path: str,
) -> bool:
    """Copy the file at `path` below `source` to the same path below `root`.

    Return False if that cannot be done. Neither path is followed through a link, and
    only a regular file is read. Raise OSError.
    """
    original = source / path
    target = root / path
    if _leads_through_link(source, path) or _leads_through_link(root, path):
        return False
    if original.is_symlink() or not original.is_file():
        return False
    if target.is_dir() and not target.is_symlink():
        return False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        # A file is in the place of a folder.
        return False
    # Never the bits that let a program run as another user.
    mode = original.stat().st_mode & 0o777
    # The file is renamed into its place: a link, a pipe or a device that is the target
    # is replaced, and nothing is written into it.
    write_whole(
        target,
        original.read_bytes(),
        mode=mode,
        lasting=False,
    )
    return True


def _leads_through_link(top: Path, path: str) -> bool:
    """Return whether a folder between `top` and `path` is a link."""
    expected = top.resolve() / Path(path).parent
    return os.path.realpath((top / path).parent) != str(expected)


def put_file(
    root: Path | str,
    path: str,
    file: File,
) -> None:
    """Write a file or link of a layer that does not exist yet, and its parent folders.

    Raise OSError.
    """
    target = os.path.join(os.path.realpath(root), path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if file.is_link:
        os.symlink(os.fsdecode(file.data), target)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(target, flags, 0o600)
    with open(handle, "wb") as sink:
        sink.write(file.data)
        # Here, because the umask applies to the mode of `os.open`.
        os.fchmod(handle, stat.S_IMODE(file.mode))


def make_parents(root: str, path: str) -> None:
    """Make the folders between `root` and `path`. Raise OSError.

    A link or a file in the place of a folder is removed.
    """
    folder = root
    for part in os.path.relpath(path, root).split("/")[:-1]:
        folder = os.path.join(folder, part)
        info = lstat(folder)
        if info is None or not stat.S_ISDIR(info.st_mode):
            remove(Path(folder))
            os.mkdir(folder)


def lstat(path: str) -> os.stat_result | None:
    """Return the stat of a path, of a link itself; None if it does not exist.

    Raise OSError.
    """
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_whole(path: str, mode: int) -> bytes | None:
    """Return the content of a file or the target of a link, nothing of a folder.

    Return None if it cannot be read.
    """
    try:
        if stat.S_ISLNK(mode):
            return os.fsencode(os.readlink(path))
        if stat.S_ISDIR(mode):
            return b""
        # Without O_NONBLOCK, opening a pipe that replaced the file would wait.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return None
