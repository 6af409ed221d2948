"""The check environment as an overlay: the workspace at its own path, with what checks write kept in another folder."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from goalrunner.checking.environment import Kind, Layer, copy_into
from goalrunner.checking.namespace import Namespace
from goalrunner.checking.namespace_launcher import NamespaceLauncher
from goalrunner.checking.upper_layer import Tools, UpperLayer, upper_layers
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.core.process_ports import Launcher
from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.objects import shown
from goalrunner.snapshots.restore import remove
from goalrunner.system.launcher import ProcessLauncher

P = ParamSpec("P")
T = TypeVar("T")
_PREFIX = "overlay-"
_STALE = 60.0
"""Seconds after which a folder that no process holds is taken for one of a runner that was killed."""
_FREE_BYTES = 1_000_000
_FREE_INODES = 16
_SPACE = "free some space, or set GOAL_HOME"


class Overlay:
    """The port `CheckEnvironment` with overlay mounts; `scratch` is a folder of this user for the upper layers."""

    def __init__(self, scratch: Path, environ: Mapping[str, str]) -> None:
        self._scratch = scratch
        self._environ = environ

    @property
    def kind(self) -> Kind:
        """Return "overlay"."""
        return "overlay"

    @asynccontextmanager
    async def open(self, layers: Sequence[Layer]) -> AsyncIterator[OpenOverlay]:
        """See `goalrunner.checking.environment.CheckEnvironment`."""
        opened = OpenOverlay(self._scratch, self._environ, layers)
        try:
            await _to_its_end(opened.set_up)
            yield opened
        finally:
            await _to_its_end(opened.tear_down)


class OpenOverlay:
    """The port `OpenEnvironment` with overlay mounts. `set_up` and `tear_down` block."""

    def __init__(self, scratch: Path, environ: Mapping[str, str], layers: Sequence[Layer]) -> None:
        self._scratch = Path(os.path.realpath(scratch))
        self._environ = environ
        self._path = layers[0].root.absolute()
        self._layers = [replace(layer, root=Path(os.path.realpath(layer.root))) for layer in layers]
        self._uppers: list[UpperLayer] = []
        self._folder: Path | None = None
        self._lock = -1
        self._namespace: Namespace | None = None

    @property
    def path(self) -> Path:
        """Return the workspace's own path."""
        return self._path

    @property
    def namespace(self) -> Namespace:
        """Return the namespace. Raise EnvironmentFailed if it is not set up."""
        if self._namespace is None:
            raise EnvironmentFailed("the check environment is not set up")
        return self._namespace

    def launcher(self, inner: Launcher) -> Launcher:
        """Return a launcher that starts its commands in the namespace, through `inner`.

        A process namespace ends with all of its processes, so they need no variable by which they are found.
        """
        if self.namespace.own_processes and isinstance(inner, ProcessLauncher):
            inner = replace(inner, marked=False)
        return NamespaceLauncher(inner, self.namespace)

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables for commands here: the same ones, as every path is the same.

        A workspace below the root of its repository is a mount of its own, at whose border git stops by default. Only
        there is a variable added: others would tell code under test that it is being checked.
        """
        if os.path.lexists(self._path / ".git") or not any((path / ".git").exists() for path in self._path.parents):
            return dict(env)
        return {**env, "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}

    async def collect(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """Copy matching files that checks wrote into the live workspace; return their paths."""
        return await _to_its_end(self._collected, Patterns(patterns))

    def full(self) -> str:
        """Return why nothing more can be written here; empty if something can."""
        free = os.statvfs(self._folder or self._scratch)
        blocks = free.f_bfree if os.geteuid() == 0 else free.f_bavail
        # Filesystems without a table of inodes count none.
        inodes = free.f_ffree if free.f_files else _FREE_INODES
        if blocks * free.f_frsize >= _FREE_BYTES and inodes >= _FREE_INODES:
            return ""
        return f"no space left in {self._scratch}"

    def written(self) -> tuple[str, ...]:
        """Return the regular files of the workspace that checks wrote, as paths relative to it."""
        return tuple(upper.prefix + path for upper in self._uppers if upper.of_workspace for path in upper.written())

    async def changed(self) -> tuple[str, ...]:
        """Return the files of the live workspace that checks wrote with another content."""
        return await asyncio.to_thread(lambda: tuple(path for upper in self._uppers for path in upper.changed()))

    def set_up(self) -> None:
        """Prepare the upper layers and mount. Raise EnvironmentFailed if that is not possible."""
        for layer in self._layers:
            if not layer.root.is_dir():
                raise EnvironmentFailed(f"{layer.root} is not a folder")
            if self._scratch.is_relative_to(layer.root):
                raise EnvironmentFailed(f"{self._scratch} lies below {layer.root}", "set GOAL_HOME to another folder")
        tools = Tools.find(self._environ, [layer.root for layer in self._layers])
        try:
            self._folder = self._make_folder()
            self._uppers = list(upper_layers(self._layers, self._folder))
            for upper in self._uppers:
                upper.prepare()
        except OSError as error:
            message = f"cannot prepare the check environment in {self._scratch}: {error.strerror}"
            raise EnvironmentFailed(message, _SPACE) from error
        self._namespace = Namespace([upper.mount for upper in self._uppers], tools)
        try:
            self._namespace.open()
        except OSError as error:
            raise EnvironmentFailed(f"the check environment cannot be started: {error.strerror}") from error

    def tear_down(self) -> None:
        """End every process, and remove the upper layers; works after a `set_up` that failed, too."""
        try:
            if self._namespace is not None:
                self._namespace.close()
        finally:
            if self._folder is not None:
                with contextlib.suppress(OSError):  # removed as stale by a later check
                    remove(self._folder)
            if self._lock >= 0:
                os.close(self._lock)
            self._namespace, self._folder, self._lock = None, None, -1

    def _make_folder(self) -> Path:
        """Make a folder of its own for one environment, and remove the ones of runners that were killed."""
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self._scratch.lstat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise EnvironmentFailed(f"{self._scratch} can be written by other users", f"chmod 700 {self._scratch}")
        _remove_stale(self._scratch)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._scratch))
        self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return folder

    def _collected(self, patterns: Patterns) -> tuple[str, ...]:
        copied = []
        for upper in self._uppers:
            for path in upper.written() if upper.of_workspace else ():
                whole = upper.prefix + path
                if not patterns.match(shown(os.fsencode(whole))):
                    continue
                try:
                    if copy_into(upper.files, upper.layer.root, path):
                        copied.append(whole)
                except OSError as error:
                    message = f"cannot copy {whole} into the workspace: {error.strerror}"
                    raise EnvironmentFailed(message, "free some space, or remove it from `outputs`") from error
        return tuple(copied)


def _remove_stale(scratch: Path) -> None:
    """Remove the folders of runners that were killed: the lock of a folder ends with its process."""
    for entry in os.scandir(scratch):
        if not entry.name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime > time.time() - _STALE:
                continue
            lock = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(Path(entry.path))
            finally:
                os.close(lock)


async def _to_its_end(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run a function in a thread to its end, even if this task is cancelled meanwhile; then raise the cancellation."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # an error of the function matters less than the cancellation
        raise cancelled
    return task.result()
