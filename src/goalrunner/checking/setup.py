"""Runs the `setup` command of a goal; what it installs is stored for its inputs."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.checking.dependencies import state_of
from goalrunner.checking.environment import (
    EnvironmentFailed,
    File,
    Layer,
    OpenEnvironment,
    is_below,
)
from goalrunner.checking.protection import MANIFESTS
from goalrunner.core.activity import running
from goalrunner.core.ports import Completion, Launcher
from goalrunner.records.files import write_whole
from goalrunner.records.removal import remove
from goalrunner.snapshots.objects import object_id
from goalrunner.snapshots.paths import raw
from goalrunner.snapshots.patterns import Patterns
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launcher import SHELL, tail_of

SETUP_TIMEOUT = 1_800.0
"""Seconds that `setup` may take."""
_OPAQUE = "user.overlay.opaque"
"""The attribute of a folder in an upper layer that replaces the folder below it."""
_PREFIX = "setup-"
_MOST_INSTALLATIONS = 8
"""The others are removed when a new one is made."""
_LINES = 8
"""Lines of the end of its output that an error has."""
_PROGRAMS = (".venv/bin", "node_modules/.bin")

_PIP = re.compile(r"(?<![\w./-])(?:pip3?|python3?\s+-m\s+pip)\s")
_VENV = (
    "[ -e .venv/pyvenv.cfg ] || "
    "{ python3 -m venv .venv && echo '*' > .venv/.gitignore; }"
)
"""pip installs into the environment that it runs in, which must not be the user's."""

_COMPILED = (
    "*.c", "*.cc", "*.cpp", "*.cxx", "*.h", "*.hpp", "*.pyx", "*.pxd", "*.rs", "*.f",
    "*.f90", "*.m", "*.mm", "CMakeLists.txt", "*.cmake", "meson.build", "meson.options",
    "binding.gyp", "build.py", "hatch_build.py", ".pnpmfile.cjs",
)  # fmt: skip
"""What is compiled or run during an installation."""

_KNOWN = r"""\s*(?:
        uv\s+sync | poetry\s+install
      | pdm\s+(?:install|sync) | pipenv\s+(?:install|sync)
      | (?:uv\s+)?pip3?\s+install\s+(?:-\S+\s+)*-e\s+\.(?:\[[\w,\s-]*\])?
      | (?:uv\s+)?pip3?\s+install\s+-r\s+[\w./-]+
      | npm\s+(?:ci|install|i) | pnpm\s+(?:install|i)
      | yarn(?:\s+install)? | bun\s+install
      | go\s+mod\s+download | cargo\s+fetch | bundle\s+install
    )(?:\s+--?[\w-]+(?:=[\w.,-]+)?)*\s*"""


@dataclass(frozen=True)
class Inputs:
    """What the result of `setup` depends on."""

    key: str
    paths: frozenset[str]
    """The paths of the workspace that git does not ignore."""


class Setup:
    """The `setup` command of a goal.

    It runs with the environment variables `env`, through the launcher that `confine`
    makes of the one of an open environment. `scratch` gives a path for a file, by its
    suffix.
    """

    def __init__(
        self,
        command: str,
        store: SnapshotStore,
        env: Mapping[str, str],
        confine: Callable[[OpenEnvironment], Launcher],
        scratch: Callable[[str], Path],
    ) -> None:
        self._command = command
        self._store = store
        self._env = dict(env)
        self._confine = confine
        self._scratch = scratch
        self._states: dict[str, str] = {}
        """The state of each installation that was made or used, by its key."""

    async def without_ignored(self, layer: Layer) -> Layer:
        """Return the layer with everything hidden that git ignores."""
        names = await self._store.ignored_names()
        return replace(layer, hide=layer.hide | {name.rstrip("/") for name in names})

    async def inputs(self, layer: Layer) -> Inputs:
        """Return the inputs in an environment with this layer."""
        contents: dict[str, tuple[str, str]] = {}
        entries = await self._store.entries(await self._store.snapshot())
        for name, entry in entries.items():
            path = os.fsdecode(raw(name))
            if not is_below(path, layer.hide):
                contents[path] = (entry.mode, entry.blob)
        for path, file in layer.put.items():
            contents[path] = (_git_mode(file), object_id("blob", file.data))
        # Another Python makes another environment.
        python = shutil.which("python3", path=self._env.get("PATH")) or ""
        workspace = str(self._store.workspace)
        rows = [self._command, workspace, os.path.realpath(python)]
        for path in input_paths(self._command, sorted(contents)):
            rows.append("\0".join((path, *contents[path])))
        text = "\0\0".join(rows)
        digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
        return Inputs(digest[:32], frozenset(contents))

    async def run(self, opened: OpenEnvironment, files: Path) -> None:
        """Run the command in an environment.

        `files` is the folder that it writes to. Raise EnvironmentFailed.
        """
        if _PIP.search(f"{self._command} "):
            await self._launch(_VENV, opened, activated(self._env, opened.path, files))
        # After the first command there may be an environment to activate.
        env = activated(self._env, opened.path, files)
        await self._launch(self._command, opened, env)

    async def _launch(
        self,
        line: str,
        opened: OpenEnvironment,
        env: Mapping[str, str],
    ) -> None:
        output = self._scratch(".setup")
        launcher = self._confine(opened)
        try:
            with running("setup", self._command, output):
                completion = await launcher.launch(
                    [SHELL, "-c", line],
                    cwd=opened.path,
                    env=opened.environ(env),
                    output=output,
                    timeout=SETUP_TIMEOUT,
                )
            if completion.exit_code != 0:
                raise _failure(self._command, completion)
        finally:
            output.unlink(missing_ok=True)

    def is_usable(self, products: Products, paths: frozenset[str]) -> bool:
        """Return whether an installation is complete, and as it was made.

        It must cover none of the files of the project, `paths`.
        """
        # The first state counts: a check may have changed the folder since.
        expected = self._states.setdefault(products.key, products.state)
        if not expected or state_of(str(products.files)) != expected:
            return False
        installed = f"{products.files}/"
        # In the overlay, a file of the project in it would hide later changes.
        for path in paths:
            if os.path.isfile(installed + path) or os.path.islink(installed + path):
                return False
        return True

    def keep(
        self,
        products: Products,
        files: Path,
        paths: frozenset[str],
    ) -> None:
        """Store what the command wrote, without its changes of files of the project.

        `paths` are those of the project.
        """
        _remove_changes(files, paths)
        products.fill(files)
        self._states[products.key] = products.state


class Products:
    """A folder with what `setup` has installed, which is locked while it is used."""

    def __init__(self, folder: Path, handle: int) -> None:
        self._folder = folder
        self._handle = handle
        self.files = folder / "u"

    @classmethod
    async def locked(cls, scratch: Path, key: str) -> Products:
        """Lock the folder of this key in `scratch`.

        The lock is shared with other processes if the folder is complete.
        """
        folder = scratch / f"{_PREFIX}{key}"
        while True:
            folder.mkdir(
                mode=0o700,
                exist_ok=True,
            )
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            products = cls(folder, handle)
            operation = fcntl.LOCK_SH if products.state else fcntl.LOCK_EX
            # Another process may have locked it, or removed it.
            with contextlib.suppress(OSError):
                fcntl.flock(handle, operation | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), folder.stat()):
                    # The time of the last use: see `_remove_unused`.
                    os.utime(folder)
                    return products
            os.close(handle)
            await asyncio.sleep(0.1)

    @property
    def key(self) -> str:
        return self._folder.name.removeprefix(_PREFIX)

    @property
    def state(self) -> str:
        """The state of the files when they were complete; empty if they are not."""
        with contextlib.suppress(OSError):
            return (self._folder / "state").read_text()
        return ""

    def fill(self, files: Path) -> None:
        """Move files into the folder, and remove installations that are not used.

        Raise OSError.
        """
        # Other processes may still use what is replaced.
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        # Without a state, an interrupted installation is not complete.
        (self._folder / "state").unlink(missing_ok=True)
        remove(self.files)
        files.rename(self.files)
        write_whole(self._folder / "state", state_of(str(self.files)).encode())
        _remove_unused(self._folder.parent)

    def share(self) -> None:
        """Let other processes use it as well."""
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def close(self) -> None:
        os.close(self._handle)


def was_set_up(store: Path, home: Path) -> bool:
    """Return whether `setup` ran in place in the workspace of a snapshot store.

    Then what it installed exists in the workspace.
    """
    return record_in_place(store, home).exists()


def record_in_place(store: Path, home: Path) -> Path:
    """Return the file with the key of the last `setup` in a workspace itself.

    `store` is the folder of its snapshot store; a copy has its own, with the file.
    """
    if store.parent.name == "stores":
        return home / "setup" / store.name
    return store / "setup"


def activated(
    env: Mapping[str, str],
    workspace: Path,
    files: Path,
) -> dict[str, str]:
    """Return the environment variables with installed programs first.

    `files` is the folder that has what was installed into the workspace.
    """
    programs = [str(workspace / name) for name in _PROGRAMS if (files / name).is_dir()]
    # A VIRTUAL_ENV of the user is another environment.
    activated_env = {
        name: value for name, value in env.items() if name != "VIRTUAL_ENV"
    }
    path = env.get("PATH", os.defpath)
    activated_env["PATH"] = os.pathsep.join([*programs, path])
    if (files / ".venv/pyvenv.cfg").exists():
        activated_env["VIRTUAL_ENV"] = str(workspace / ".venv")
    return activated_env


def input_paths(setup: str, paths: Iterable[str]) -> list[str]:
    """Return the paths, of all in a workspace, that decide what `setup` installs."""
    # `pip install .` copies the code, and `make deps` may do anything.
    if not re.fullmatch(_KNOWN, setup, re.VERBOSE):
        return list(paths)
    # The other commands install by manifests alone, and compile.
    patterns = Patterns((*MANIFESTS, *_COMPILED), builtin=True)
    return [path for path in paths if patterns.match(path)]


def _git_mode(file: File) -> str:
    """Return the mode that a file of a layer has in a snapshot."""
    if file.is_link:
        return "120000"
    return "100755" if file.mode & stat.S_IXUSR else "100644"


def _remove_changes(files: Path, project: frozenset[str]) -> None:
    """Remove from an upper layer what hides or replaces files of the project.

    Otherwise validators would not see later changes of these files.
    """
    folders_of_project: set[str] = set()
    for path in project:
        folders_of_project.update(map(str, Path(path).parents))
    for folder, folders, names in os.walk(files):
        for name in (*names, *folders):
            place = Path(folder, name)
            path = str(place.relative_to(files))
            info = place.lstat()
            # A character device hides a path of the layer below.
            if path in project or stat.S_ISCHR(info.st_mode):
                remove(place)
                continue
            is_shared = stat.S_ISDIR(info.st_mode) and path in folders_of_project
            if is_shared and _OPAQUE in os.listxattr(place):
                os.removexattr(place, _OPAQUE)


def _remove_unused(scratch: Path) -> None:
    """Remove all but the last used installations, unless a process uses them."""
    oldest_first = sorted(
        scratch.glob(f"{_PREFIX}*"),
        key=lambda folder: folder.stat().st_mtime_ns,
    )
    for folder in oldest_first[:-_MOST_INSTALLATIONS]:
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
            finally:
                os.close(handle)


def _failure(command: str, completion: Completion) -> EnvironmentFailed:
    """Return the error with the end of the output."""
    lines = [
        line.rstrip()
        for line in tail_of(completion.output).splitlines()
        if line.strip()
    ]
    end = "".join(f"\n  {line}" for line in lines[-_LINES:])
    why = completion.error or f"exit {completion.exit_code}"
    return EnvironmentFailed(
        f"[workspace] setup failed ({why}): {command}{end}",
        "correct it in the goal file; "
        "it runs without ignored files, as after `git clone`",
        permanent=True,
    )
