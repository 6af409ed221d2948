"""The Protocol of check environments, the settings of git in them, and the files that checks write."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from goalrunner.core.errors import EnvironmentFailed as EnvironmentFailed
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.ports import Launcher
from goalrunner.records.files import write_whole
from goalrunner.snapshots.git import enclosing

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
    """A check environment that is set up. `path` is the workspace as validators see it; its own path, except in a checkout."""

    path: Path

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

    @abstractmethod
    def full(self) -> str:
        """Return why nothing more can be written here ("no space left in ..."); empty if something can."""


class CheckEnvironment(Protocol):
    """Sets up check environments of one kind."""

    kind: Kind

    def open(self, layers: Sequence[Layer]) -> AbstractAsyncContextManager[OpenEnvironment]:
        """Set up an environment for one check run. At its end, its processes are ended and its writes are discarded.

        The first layer is the workspace's; others are for folders outside of it (the git folder of a worktree). Raises
        EnvironmentFailed.
        """
        ...


_SETTINGS = ("config", "config.worktree", "info/attributes", "info/exclude", "info/grafts", "info/sparse-checkout")
_LARGEST_SETTING = 1_000_000


class GitSettings:
    """The settings of the repository around a workspace, kept in the file `record` for a run that is resumed."""

    def __init__(self, workspace: Path, record: Path) -> None:
        self._workspace = workspace
        self._record = record
        self._start: dict[str, dict[str, File]] = {}

    def remember(self) -> None:
        """Read them at the start, or what an earlier process kept. Raise WorkspaceError if the record is damaged."""
        if self._record.exists():
            try:
                for folder, name, mode, data in json.loads(self._record.read_bytes()):
                    self._start.setdefault(folder, {})[name] = File(int(mode), base64.b64decode(data))
            except (OSError, ValueError, TypeError) as error:
                message = f"the run was made by another version of goal, or {self._record} is damaged: {error}"
                raise WorkspaceError(message, "start a new run: goal run GOAL_FILE") from error
            return
        self._start = {str(folder): dict(_settings(folder)) for folder in self._folders()}
        kept = [
            (folder, name, item.mode, base64.b64encode(item.data).decode())
            for folder, files in self._start.items()
            for name, item in files.items()
        ]
        self._record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._record, json.dumps(kept).encode())

    def layers(self, workspace: Layer) -> tuple[Layer, ...]:
        """Return the workspace's layer with settings that differ put back, and a layer for each git folder outside of it."""
        put: dict[Path, dict[str, File]] = {workspace.root: dict(workspace.put)}
        hide: dict[Path, set[str]] = {workspace.root: set(workspace.hide)}
        for folder in self._folders():
            root = next((root for root in put if folder.is_relative_to(root)), folder)
            start, now = self._start.get(str(folder), {}), dict(_settings(folder))
            prefix = "" if folder == root else f"{folder.relative_to(root).as_posix()}/"
            back = {f"{prefix}{name}": item for name, item in start.items() if now.get(name) != item}
            put.setdefault(root, {}).update(back)
            hide.setdefault(root, set()).update(f"{prefix}{name}" for name in now if name not in start)
        return tuple(Layer(root, files, frozenset(hide[root])) for root, files in put.items())

    def roots(self) -> tuple[Path, ...]:
        """Return the git folders that lie outside of the workspace."""
        return tuple(layer.root for layer in self.layers(Layer(self._workspace))[1:])

    def _folders(self) -> tuple[Path, ...]:
        """Return the git folders: the one that worktrees share first, then the worktree's own."""
        found = enclosing(self._workspace)
        if found is None:
            return ()
        folders = dict.fromkeys(Path(os.path.realpath(folder)) for folder in (found.common, found.git_dir))
        modules = Path(os.path.realpath(found.common)) / "modules"
        inner = [Path(folder) for folder, _, files in os.walk(modules) if "HEAD" in files and "config" in files]
        return (*folders, *sorted(inner))


def _settings(folder: Path) -> Iterator[tuple[str, File]]:
    hooks = sorted(folder.glob("hooks/*"))
    for path in (*(folder / name for name in _SETTINGS), *(hook for hook in hooks if hook.suffix != ".sample")):
        try:
            info = path.lstat()
            if stat.S_ISLNK(info.st_mode):
                yield path.relative_to(folder).as_posix(), File(info.st_mode, os.fsencode(path.readlink()))
            elif stat.S_ISREG(info.st_mode) and info.st_size <= _LARGEST_SETTING:
                yield path.relative_to(folder).as_posix(), File(info.st_mode, path.read_bytes())
        except OSError:
            continue


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
