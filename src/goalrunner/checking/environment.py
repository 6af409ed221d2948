"""The interface of the check environments: what differs from the live workspace, and where validators run."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from goalrunner.errors import EnvironmentFailed as EnvironmentFailed
from goalrunner.ports import Launcher

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
