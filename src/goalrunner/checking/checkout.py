"""The check environment as a fresh checkout: the workspace's snapshot at another path, with packages that `setup` installs."""

from __future__ import annotations

import asyncio
import contextlib
import filecmp
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from goalrunner.checking import folders
from goalrunner.checking.editable_installs import editable_installs
from goalrunner.checking.environment import NO_SPACE_HINT, EnvironmentFailed, Kind, Layer, copy_written, no_space
from goalrunner.checking.moves import make_parents, put_file
from goalrunner.checking.setup_products import Setup
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.process_ports import Launcher
from goalrunner.snapshots.fingerprint import Fingerprint, take
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.objects import shown
from goalrunner.snapshots.repositories import content
from goalrunner.snapshots.restore import clear, remove
from goalrunner.snapshots.store import SnapshotStore

ROOM, ROOM_TMP = "now", "tmp"
"""Folders of a run: what its commands write during a check, and what a sandbox shows as /tmp. Removed after each check."""

_SETUP = '[workspace] setup = "pip install -e ." (or "uv sync", "npm ci") installs packages into the checkout'
_TICK = 0.02
"""Seconds in which the clock of every file system moves on."""


class FreshCheckout:
    """The port `CheckEnvironment` with checkouts in `root`, a folder of the run. One can be open at a time.

    `setup` is a command line, empty for none; `launcher` starts it, with the environment variables `env`. `commands` are
    those of the validators. `scratch` gives a path for a file, by its suffix.
    """

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

    @property
    def kind(self) -> Kind:
        """Return "checkout"."""
        return "checkout"

    @asynccontextmanager
    async def open(self, layers: Sequence[Layer]) -> AsyncIterator[OpenCheckout]:
        """See `goalrunner.checking.environment.CheckEnvironment`. Layers but the first one are ignored."""
        opened = OpenCheckout(self._root / ROOM, self._store.workspace, active=self._setup is not None)
        try:
            try:
                await self._prepare(opened, layers[0])
            except WorkspaceError as error:
                raise EnvironmentFailed(error.message, error.hint) from error
            except OSError as error:
                message = f"cannot prepare a fresh checkout in {self._root}: {error.strerror or error}"
                raise EnvironmentFailed(message, NO_SPACE_HINT) from error
            yield opened
        finally:
            await asyncio.to_thread(self._close)

    async def _prepare(self, opened: OpenCheckout, layer: Layer) -> None:
        snapshot = await self._store.snapshot()
        await asyncio.to_thread(self._make_folders, opened.path)
        await self._store.checkout(snapshot, opened.path)
        content = await asyncio.to_thread(self._fill, opened.path, layer)
        if self._setup is not None:
            content = await self._setup.install(opened.path, content, lambda: opened.environ(self._env))
            self._refuse_links(opened.path, content)
        await asyncio.to_thread(self._refuse_imports, opened)
        await asyncio.to_thread(opened.set_ready)

    def _make_folders(self, path: Path) -> None:
        self._clear()
        for folder in (self._root, self._root / ROOM, path.parent, path):  # the mode is that of the last folder alone
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _fill(self, path: Path, layer: Layer) -> Fingerprint:
        _apply(path, layer)
        _make_repository(path, self._store.workspace, self._env)
        content = take(path, skip=(".git",))
        self._refuse_links(path, content)
        return content

    def _refuse_links(self, path: Path, content: Fingerprint) -> None:
        """Raise EnvironmentFailed if a link in the checkout leads into the live workspace."""
        for name in sorted(name for name, seen in content.files.items() if stat.S_ISLNK(seen.mode)):
            target = Path(os.path.realpath(path / name))
            if target.is_relative_to(self._store.workspace):
                raise EnvironmentFailed(
                    f"{shown(os.fsencode(name))} is a link into the live workspace ({target}), not into the checkout",
                    "make the link relative, or remove it",
                    permanent=True,
                )

    def _refuse_imports(self, opened: OpenCheckout) -> None:
        """Raise EnvironmentFailed if validators would import modules from the live workspace."""
        env = opened.environ(self._env)
        found = editable_installs(self._commands, env, opened.path, self._store.workspace)
        if found:
            file, target = found[0]
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            message = f"{file} makes Python import from the live workspace ({target}){more}"
            raise EnvironmentFailed(message, _SETUP, permanent=True)

    def _close(self) -> None:
        """Remove the checkout; what `setup` installed is kept for the next one."""
        # What cannot be removed now is removed by the next check, or at the end of the run.
        with contextlib.suppress(OSError):
            if self._setup is not None:
                self._setup.put_away()
        with contextlib.suppress(OSError):
            self._clear()

    def _clear(self) -> None:
        clear(self._root / ROOM)
        clear(self._root / ROOM_TMP)


class OpenCheckout:
    """The port `OpenEnvironment` with a checkout below the folder `here`, under the workspace's own name.

    `active`: programs that are installed in the checkout come first on PATH.
    """

    def __init__(self, here: Path, workspace: Path, *, active: bool) -> None:
        self._here = here
        self._workspace = workspace
        self._active = active
        self._since = 0
        self.path = here / "checkout" / (workspace.name or "workspace")

    def launcher(self, inner: Launcher) -> Launcher:
        """Return `inner`."""
        return inner

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with each path in the workspace as the same path in the checkout.

        Python keeps bytecode in a folder of its own, so that it reads none that the agent wrote.
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
                if spelled.is_relative_to(self._workspace):
                    return str(self.path / spelled.relative_to(self._workspace))
        return part

    def set_ready(self) -> None:
        """Record the time; files that are written from now on are those of checks."""
        time.sleep(_TICK)
        marker = self._here / "ready"
        marker.touch()
        self._since = marker.stat().st_ctime_ns

    async def collect(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """Copy matching files that checks wrote into the live workspace; return their paths."""
        return await asyncio.to_thread(self._collected, patterns)

    def _collected(self, patterns: Sequence[str]) -> tuple[str, ...]:
        written = folders.written(str(self.path), patterns, self._since, ())
        return copy_written(self.path, self._workspace, written)

    async def changed(self) -> tuple[str, ...]:
        """Return the files of the live workspace that checks wrote here with another content."""
        return await asyncio.to_thread(self._changed)

    def _changed(self) -> tuple[str, ...]:
        written = folders.written(str(self.path), ("*",), self._since, ())
        live = [path for path in written if (self._workspace / path).is_file()]
        return tuple(path for path in live if not filecmp.cmp(self.path / path, self._workspace / path, shallow=False))

    def full(self) -> str:
        """Return why nothing more can be written here; empty if something can."""
        return no_space(self._here)


def _apply(folder: Path, layer: Layer) -> None:
    """Make the checkout differ from the snapshot as the layer says, except for what concerns git's own folders."""
    hide, put = (sorted(path for path in paths if ".git" not in path.split("/")) for paths in (layer.hide, layer.put))
    for path in hide:
        parents = [folder / parent for parent in Path(path).parents]
        if all(parent.is_dir() and not parent.is_symlink() for parent in parents):
            remove(folder / path)
    for path in put:
        make_parents(str(folder), str(folder / path))
        remove(folder / path)
        put_file(folder, path, layer.put[path])


_TIMEOUT, _HISTORY_TIMEOUT = 600.0, 60.0
_OPTIONS = (
    "-c", "core.fsync=none", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.autocrlf=false",
    "-c", "user.name=goal", "-c", "user.email=goal@localhost", "--no-replace-objects",
)  # fmt: skip
_ONE_PACK = ("-c", "core.bigFileThreshold=1", "-c", "core.compression=1")
"""Options with which `git add` writes one pack: a file for each object takes several times as long."""
_LONGEST = 200_000
"""A history with as many commits is left out."""


class _Failed(Exception):
    """A call of git failed."""


def _make_repository(folder: Path, workspace: Path, environ: Mapping[str, str]) -> None:
    """Make a git repository of a checkout. HEAD is the workspace's if its files are the same, else a new commit on top.

    Of the history it has commits and tags, but no older files. A workspace whose history cannot be read, or is too long,
    gives a repository with one commit. Raise EnvironmentFailed.
    """

    def git(*arguments: str, place: Path = folder, stdin: bytes = b"") -> bytes:
        given, timeout = (*_OPTIONS, *arguments), _TIMEOUT if place == folder else _HISTORY_TIMEOUT
        code, output, errors = ask_git(
            place, *given, environ=environ, timeout=timeout, workspace=workspace, stdin=stdin
        )
        if code != 0:
            raise _Failed(errors.decode(errors="replace").strip() or f"git {' '.join(arguments)} failed")
        return output

    branch, head, there = "", "", ""
    with contextlib.suppress(_Failed):  # a detached HEAD, or no repository
        branch = git("symbolic-ref", "-q", "--short", "HEAD", place=workspace).decode().strip()
    try:
        git("init", "-q", "--template=", "-b", branch or "main")
        info = folder / ".git" / "info"
        info.mkdir(exist_ok=True)
        # Files are committed as they are, whatever the workspace's own attributes say.
        (info / "attributes").write_text("* -text -ident !filter !working-tree-encoding\n", encoding="utf-8")
        with contextlib.suppress(_Failed, ValueError):
            head, there = _copy_history(git, folder, workspace)
        git(*_ONE_PACK, "add", "-A", "-f", ".")
        tree = git("write-tree").decode().strip()
        if tree != there:
            parent = ("-p", head) if head else ()
            head = git("commit-tree", tree, *parent, "-m", "snapshot of the workspace").decode().strip()
        git("update-ref", *(() if branch or not there else ("--no-deref",)), "HEAD", head)
    except (_Failed, OSError) as error:
        raise EnvironmentFailed(f"cannot make a git repository of the checkout {folder}: {error}") from error


def _copy_history(git: Callable[..., bytes], folder: Path, workspace: Path) -> tuple[str, str]:
    """Copy the commits and tags of a workspace into a new repository; return the workspace's HEAD and its tree."""
    found = git("rev-parse", "HEAD", "HEAD^{tree}", "--git-path", "shallow", place=workspace)
    head, tree, shallow = found.decode().splitlines()
    names = git("rev-list", f"--max-count={_LONGEST}", "HEAD", "--tags", place=workspace).decode().split()
    if len(names) == _LONGEST:
        raise _Failed("the history is too long")
    known, refs = set(names), []
    form = "--format=%(objectname) %(*objectname) %(refname)"
    for row in git("for-each-ref", form, "refs/tags", place=workspace).decode().splitlines():
        name, target, ref = row.split(" ", 2)
        if (target or name) in known:
            names.append(name)
            refs.append(f"{name} {ref}\n")
    listed = "".join(f"{name}\n" for name in dict.fromkeys(names)).encode()
    git(
        "index-pack",
        "--stdin",
        stdin=git("pack-objects", "-q", "--stdout", "--window=0", place=workspace, stdin=listed),
    )
    if cut := content(workspace / shallow):
        (folder / ".git" / "shallow").write_bytes(cut)
    (folder / ".git" / "packed-refs").write_text(
        "".join(sorted(refs, key=lambda ref: ref.split()[1])), encoding="utf-8"
    )
    return head, tree
