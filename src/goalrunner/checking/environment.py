"""The Protocol of check environments."""

from __future__ import annotations

import asyncio
import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from goalrunner.core.errors import EnvironmentFailed as EnvironmentFailed
from goalrunner.core.ports import Launcher

T = TypeVar("T")
_FREE_BYTES = 1_000_000
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


class OpenEnvironment(ABC):
    """A check environment that is set up."""

    path: Path
    """The workspace as validators see it; its own path, except in a checkout."""
    room: Path
    """The folder, or one on the same disk, that what checks write takes space in."""

    def launcher(self, inner: Launcher) -> Launcher:
        """Return a launcher that starts its commands in this environment, through `inner`."""
        return inner

    @abstractmethod
    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables for commands here; those of a checkout lead to its own installation."""

    @abstractmethod
    async def collect(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """Copy files that checks wrote here into the live workspace, where a pattern of .gitignore matches their path.

        Return the paths that were copied. Never follows a link out of the workspace.
        """

    @abstractmethod
    async def changed(self) -> tuple[str, ...]:
        """Return the workspace's files, of those that exist in the live tree, that checks wrote with another content."""

    def full(self) -> str:
        """Return why nothing more can be written here ("no space left in ..."); empty if something can."""
        is_full = shutil.disk_usage(self.room).free < _FREE_BYTES
        return f"no space left in {self.room}" if is_full else ""


class CheckEnvironment(Protocol):
    """Sets up check environments of one kind."""

    kind: Kind

    def open(self, layers: Sequence[Layer]) -> AbstractAsyncContextManager[OpenEnvironment]:
        """Set up an environment for one check run. At its end, its processes are ended and its writes are discarded.

        The first layer is the workspace's; others are for folders outside of it (the git folder of a worktree). Raises
        EnvironmentFailed.
        """
        ...


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end, even if this task is cancelled in the meantime; the cancellation is raised afterwards."""
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
