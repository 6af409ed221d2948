"""The Protocol of check environments, and copying `outputs` into the workspace."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeVar

from goalrunner.core.errors import EnvironmentFailed as EnvironmentFailed
from goalrunner.core.process_ports import Launcher
from goalrunner.records.run_folder import open_folder

T = TypeVar("T")
Kind = Literal["overlay", "in-place", "checkout"]


@dataclass(frozen=True)
class File:
    """The content of one path in a check environment.

    `mode` is the file type and the permission bits, as in `os.stat`: a regular file, or a symbolic link whose target is
    `data`.
    """

    mode: int
    data: bytes

    @property
    def is_link(self) -> bool:
        """Return whether it is a symbolic link."""
        return stat.S_ISLNK(self.mode)


@dataclass(frozen=True)
class Layer:
    """How a check environment differs from the live files below one folder.

    Paths are relative to `root`, with forward slashes, as `os.fsdecode` gives them. A path of `put` is a file or a link
    with that content, whatever stands there in the live tree (its missing parent folders exist as well; a parent that is
    a file or a link there is replaced by a folder). A path of `hide` does not exist: neither the file nor the folder, nor
    anything below it, unless `put` names a path below it.
    """

    root: Path
    put: Mapping[str, File] = field(default_factory=dict)
    hide: frozenset[str] = frozenset()


class OpenEnvironment(Protocol):
    """A check environment that is set up."""

    @property
    def path(self) -> Path:
        """The workspace as validators see it; its own path, except in a checkout."""
        ...

    def launcher(self, inner: Launcher) -> Launcher:
        """Return a launcher that starts its commands in this environment, through `inner`."""
        ...

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables for commands here; those of a checkout lead to its own installation."""
        ...

    async def collect(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """Copy files that checks wrote here into the live workspace, where a pattern of .gitignore matches their path.

        Return the paths that were copied. Never follows a link out of the workspace.
        """
        ...

    async def changed(self) -> tuple[str, ...]:
        """Return the workspace's files, of those that exist in the live tree, that checks wrote with another content."""
        ...

    def full(self) -> str:
        """Return why nothing more can be written here ("no space left in ..."); empty if something can."""
        ...


class CheckEnvironment(Protocol):
    """Sets up check environments of one kind."""

    @property
    def kind(self) -> Kind:
        """Which kind it is."""
        ...

    def open(self, layers: Sequence[Layer]) -> AbstractAsyncContextManager[OpenEnvironment]:
        """Set up an environment for one check run; at its end all of its processes are gone and its writes dropped.

        The first layer is the workspace's; others are for folders outside of it (the git folder of a worktree). Raises
        EnvironmentFailed.
        """
        ...


_IN_THE_WAY = (errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
"""A file, a folder or a link stands where the path needs something else."""

_MODES = 0o777
"""Bits of the mode that are copied: never those that let a program run as another user."""


def copy_into(source: Path, root: Path, path: str) -> bool:
    """Copy the file at `path` below `source` to the same path below `root`; return False if that cannot be done.

    Neither path is followed through a link, and only a regular file is read. The file is written under another name and
    renamed, so a link, a pipe or a device that stands there is replaced and never written to. Raise OSError.
    """
    *folders, name = path.split("/")
    with contextlib.ExitStack() as opened:
        try:
            here = open_folder(source, folders)
            opened.callback(os.close, here)
            file = opened.enter_context(open(_readable(name, here), "rb"))
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            there = open_folder(root, folders, make=True)
            opened.callback(os.close, there)
            _replace(file, name, there)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                return False
            raise
    return True


def _readable(name: str, folder: int) -> int:
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)


def _replace(file: BinaryIO, name: str, folder: int) -> None:
    aside = f".goal-{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(aside, flags, 0o600, dir_fd=folder), "wb") as sink:
            shutil.copyfileobj(file, sink)
            os.fchmod(sink.fileno(), os.fstat(file.fileno()).st_mode & _MODES)
        os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=folder)
        raise


def copy_written(source: Path, root: Path, paths: Iterable[str], prefix: str = "") -> tuple[str, ...]:
    """Copy files that checks wrote into the live workspace; return those copied. Raise EnvironmentFailed.

    `paths` are relative to both folders, and `root` lies at `prefix` in the workspace.
    """
    copied = []
    for path in paths:
        try:
            if copy_into(source, root, path):
                copied.append(prefix + path)
        except OSError as error:
            message = f"cannot copy {prefix}{path} into the workspace: {error.strerror}"
            raise EnvironmentFailed(message, "free some space, or remove it from `outputs`") from error
    return tuple(copied)


_FREE_BYTES, _FREE_INODES = 1_000_000, 16
NO_SPACE_HINT = "free some space, or set GOAL_HOME"


def no_space(folder: Path, *, free_bytes: int = _FREE_BYTES, free_inodes: int = _FREE_INODES) -> str:
    """Return "no space left in ..." if a folder's file system is full, for this user; empty if it is not."""
    found = os.statvfs(folder)
    blocks, inodes = (found.f_bfree, found.f_ffree) if os.geteuid() == 0 else (found.f_bavail, found.f_favail)
    # File systems without a table of inodes count none.
    full = blocks * found.f_frsize < free_bytes or (found.f_files and inodes < free_inodes)
    return f"no space left in {folder}" if full else ""


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end, even if this task is cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    raise cancelled from (None if task.cancelled() else task.exception())
