"""The check environment as a fresh checkout: the workspace's snapshot at another path, with packages that `setup` installs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from goalrunner.checking.environment import (
    EnvironmentFailed,
    Kind,
    Layer,
    OpenEnvironment,
    apply_layers,
    environment_errors,
    files_written,
)
from goalrunner.checking.setup import Setup, editable_installs
from goalrunner.core.ports import Launcher
from goalrunner.records.files import clear
from goalrunner.snapshots.git import ask_git, content
from goalrunner.snapshots.objects import ONE_PACK, printable_path
from goalrunner.snapshots.store import SnapshotStore

ROOM, ROOM_TMP = "now", "tmp"
"""Folders of a run: for the checkout and what commands write, and for /tmp in a sandbox. Removed after each check."""

_SETUP = '[workspace] setup = "pip install -e ." (or "uv sync", "npm ci") installs packages into the checkout'
_TICK = 0.02
"""Seconds in which the clock of every file system moves on."""


class FreshCheckout:
    """The port `CheckEnvironment` with checkouts in `root`, a folder of the run. One can be open at a time.

    `setup` is a command line, empty for none; `launcher` starts it, with the environment variables `env`. `commands` are
    those of the validators. `scratch` gives a path for a file, by its suffix.
    """

    kind: Kind = "checkout"

    def __init__(
        self,
        store: SnapshotStore,
        root: Path,
        *,
        setup: str,
        commands: Sequence[str],
        env: Mapping[str, str],
        launcher: Launcher,
        scratch: Callable[[str], Path],
    ) -> None:
        self._store = store
        self._root = Path(os.path.realpath(root))
        self._commands = tuple(commands)
        self._env = dict(env)
        self._setup = Setup(setup, self._root / ROOM, self._root / "kept", launcher, scratch) if setup else None

    @asynccontextmanager
    async def open(self, layers: Sequence[Layer]) -> AsyncIterator[OpenCheckout]:
        """See `goalrunner.checking.environment.CheckEnvironment`. Layers but the first one are ignored."""
        opened = OpenCheckout(self._root / ROOM, self._store.workspace, active=self._setup is not None)
        try:
            with environment_errors(f"cannot prepare a fresh checkout in {self._root}"):
                await self._prepare(opened, layers[0])
            yield opened
        finally:
            await asyncio.to_thread(self._close)

    async def _prepare(self, opened: OpenCheckout, layer: Layer) -> None:
        snapshot = await self._store.snapshot()
        await asyncio.to_thread(self._make_folders, opened.path)
        await self._store.checkout(snapshot, opened.path)
        git = await asyncio.to_thread(self._fill, opened.path, layer)
        if self._setup is not None:
            await self._setup.install(opened.path, git, lambda: opened.environ(self._env))
            await asyncio.to_thread(self._refuse_links, opened.path)
        await asyncio.to_thread(self._refuse_imports, opened)
        await asyncio.to_thread(opened.set_ready)

    def _make_folders(self, path: Path) -> None:
        self._clear()
        for folder in (self._root, self._root / ROOM, path.parent, path):  # mkdir sets the mode of the last folder only
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _fill(self, path: Path, layer: Layer) -> Callable[..., str]:
        hide = {name for name in layer.hide if ".git" not in name.split("/")}
        put = {name: file for name, file in layer.put.items() if ".git" not in name.split("/")}
        apply_layers(str(path), Layer(path, put, frozenset(hide)), replaced=(f"{path}/",))
        self._refuse_links(path)
        return _make_repository(path, self._store.workspace, self._env)

    def _refuse_links(self, path: Path) -> None:
        for folder, folders, files in os.walk(path):
            for name in sorted((*folders, *files)):
                link = Path(folder, name)
                if link.is_symlink() and link.resolve().is_relative_to(self._store.workspace):
                    raise EnvironmentFailed(
                        f"{printable_path(os.fsencode(link.relative_to(path)))} is a link into the live workspace "
                        f"({link.resolve()}), not into the checkout",
                        "make the link relative, or remove it",
                        permanent=True,
                    )

    def _refuse_imports(self, opened: OpenCheckout) -> None:
        """Raise EnvironmentFailed if validators would import modules from the live workspace."""
        env = opened.environ(self._env)
        found = editable_installs(self._commands, env, opened.path, self._store.workspace)
        if found:
            raise EnvironmentFailed(f"{found[0]} makes Python import from the live workspace", _SETUP, permanent=True)

    def _close(self) -> None:
        """Remove the checkout; keep what `setup` installed for the next one."""
        # The next check, or the end of the run, removes what cannot be removed now.
        with contextlib.suppress(OSError):
            if self._setup is not None:
                self._setup.put_away()
        with contextlib.suppress(OSError):
            self._clear()

    def _clear(self) -> None:
        clear(self._root / ROOM)
        clear(self._root / ROOM_TMP)


class OpenCheckout(OpenEnvironment):
    """The port `OpenEnvironment` with a checkout below the folder `here`, under the workspace's own name.

    `active`: programs that are installed in the checkout come first on PATH.
    """

    def __init__(self, here: Path, workspace: Path, *, active: bool) -> None:
        self._here = self.room = here
        self.target = workspace
        self._active = active
        self._since = 0
        self.path = self.files = here / "checkout" / (workspace.name or "workspace")

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with each path in the workspace as the same path in the checkout.

        Python keeps bytecode in a separate folder, so that it does not read bytecode that the agent wrote.
        """
        moved = {name: os.pathsep.join(map(self._moved, text.split(os.pathsep))) for name, text in env.items()}
        moved.pop("PYTHONDONTWRITEBYTECODE", None)  # else every start of Python would compile everything again
        moved |= {"PWD": str(self.path), "PYTHONPYCACHEPREFIX": str(self._here / "pycache")}
        return self._activated(moved) if self._active else moved

    def _activated(self, env: dict[str, str]) -> dict[str, str]:
        environment = self._here / "env"
        programs = (environment / "bin", self.path / ".venv" / "bin", self.path / "node_modules" / ".bin")
        env["PATH"] = os.pathsep.join([*map(str, filter(Path.is_dir, programs)), env.get("PATH", os.defpath)])
        env.pop("VIRTUAL_ENV", None)
        return {**env, "VIRTUAL_ENV": str(environment)} if environment.is_dir() else env

    def _moved(self, part: str) -> str:
        if part.startswith("/"):
            for spelled in (Path(os.path.normpath(part)), Path(os.path.realpath(part))):
                if spelled.is_relative_to(self.target):
                    return str(self.path / spelled.relative_to(self.target))
        return part

    def set_ready(self) -> None:
        """Record the time; files that are written from now on are those of checks."""
        time.sleep(_TICK)
        marker = self._here / "ready"
        marker.touch()
        self._since = marker.stat().st_ctime_ns

    def written(self) -> list[str]:
        return files_written(self.path, self._since)


_TIMEOUT = 600.0
_OPTIONS = (
    "-c", "core.fsync=none", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.autocrlf=false",
    "-c", "user.name=goal", "-c", "user.email=goal@localhost", "--no-replace-objects",
)  # fmt: skip


def _make_repository(folder: Path, workspace: Path, environ: Mapping[str, str]) -> Callable[..., str]:
    """Make a git repository of a checkout. HEAD is the workspace's if its files are the same, else a new commit on top.

    It has the tags of the workspace's repository, and reads the history there. A workspace whose history cannot be read
    gives a repository with one commit. Return a function that calls git there. Raise EnvironmentFailed.
    """

    def git(*arguments: str, place: Path = folder) -> str:
        code, output, errors = ask_git(
            place, *_OPTIONS, *arguments, environ=environ, timeout=_TIMEOUT, workspace=workspace
        )
        if code != 0:
            raise EnvironmentFailed(errors.decode(errors="replace").strip() or f"git {' '.join(arguments)} failed")
        return output.decode(errors="surrogateescape").strip("\n")

    branch, head, there = "", "", ""
    with contextlib.suppress(EnvironmentFailed):  # a detached HEAD, or no repository
        branch = git("symbolic-ref", "-q", "--short", "HEAD", place=workspace)
    try:
        git("init", "-q", "--template=", "-b", branch or "main")
        store = folder / ".git"
        (store / "info").mkdir(exist_ok=True)
        # Files are committed as they are, whatever the workspace's own attributes say.
        (store / "info" / "attributes").write_text("* -text -ident !filter !working-tree-encoding\n", encoding="utf-8")
        git(*ONE_PACK, "add", "-A", "-f", ".")
        tree = git("write-tree")
        with contextlib.suppress(EnvironmentFailed, ValueError):
            names = ("HEAD", "HEAD^{tree}", "--git-path", "objects", "--git-path", "shallow")
            head, there, objects, shallow = git("rev-parse", *names, place=workspace).splitlines()
            tags = git("for-each-ref", "--format=%(objectname) %(refname)", "refs/tags", place=workspace)
            (store / "packed-refs").write_text(f"{tags}\n" if tags else "", encoding="utf-8")
            (store / "objects" / "info" / "alternates").write_text(
                f"{(workspace / objects).resolve()}\n", encoding="utf-8"
            )
            if cut := content(workspace / shallow):
                (store / "shallow").write_bytes(cut)
        if tree != there:
            parent = ("-p", head) if head else ()
            head = git("commit-tree", tree, *parent, "-m", "snapshot of the workspace")
        git("update-ref", *(() if branch or not there else ("--no-deref",)), "HEAD", head)
    except (EnvironmentFailed, OSError) as error:
        raise EnvironmentFailed(f"cannot make a git repository of the checkout {folder}: {error}") from error
    return git
