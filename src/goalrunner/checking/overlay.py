"""The check environment as an overlay.

The workspace is at its own path, and what checks write lies in another folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import filecmp
import os
import stat
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from goalrunner.checking.environment import (
    File,
    Kind,
    Layer,
    OpenEnvironment,
    copy_into,
    environment_errors,
    put_file,
    to_its_end,
)
from goalrunner.checking.namespace import (
    Namespace,
    NamespaceLauncher,
    OverlayMount,
    find_tools,
    mount_points,
)
from goalrunner.checking.setup import Products, Setup, activated
from goalrunner.core.errors import EnvironmentFailed, os_errors
from goalrunner.core.ports import Launcher
from goalrunner.records.removal import remove
from goalrunner.snapshots.file_times import is_overlay
from goalrunner.snapshots.paths import printable_path
from goalrunner.snapshots.patterns import Patterns
from goalrunner.system.launcher import SHELL, ProcessLauncher

_PREFIX = "overlay-"
_STALE = 60.0
"""Age in seconds from which an unlocked folder is that of a killed runner."""
_PATIENCE = 30.0
"""Seconds for the commands of the probe."""
_PROBE = """\
name=$1; shift
if [ "$(cat "$1/$name/put")" != original ]; then
    echo "a protected file does not have its original content"
    exit 1
fi
for root; do
    mkdir -p "$root/$name/folder" && echo new > "$root/$name/new" &&
        rm -r "$root/$name" && mkdir "$root/$name" || exit 1
done
"""


@dataclass
class UpperLayers:
    """The layers of one overlay mount above the live files, in `folder`.

    `p` has what the plan puts and hides, and `u` what checks write. The root of the
    plan is a path without links.
    """

    layer: Layer
    folder: Path
    products: Path | None = None
    """What `setup` has installed: a layer above `p`."""
    _made: set[str] = field(default_factory=set)
    """The folders of the layer of the plan, relative to it."""

    @property
    def files(self) -> Path:
        return self.folder / "u"

    @property
    def _plan(self) -> Path:
        return self.folder / "p"

    def written(self) -> list[str]:
        """Return the regular files that checks wrote."""
        written: list[str] = []
        for folder, _, names in os.walk(self.files):
            for name in names:
                path = Path(folder, name)
                if stat.S_ISREG(path.lstat().st_mode):
                    written.append(str(path.relative_to(self.files)))
        return written

    def prepare(self) -> None:
        """Make the folders of the mount, and fill the layer of the plan."""
        # `OverlayMount` says what they are for.
        for name in ("u", "w", "p", "l", "s"):
            (self.folder / name).mkdir(
                mode=0o700,
                parents=True,
            )
        self._made = {""}
        for path, file in sorted(self.layer.put.items()):
            self._make(os.path.dirname(path))
            put_file(self._plan, path, file)
        self._hide_paths()
        live_folders: dict[str, os.stat_result] = {}
        for path in self._made:
            info = self._live(path)
            if info and stat.S_ISDIR(info.st_mode):
                live_folders[path] = info
        for path in live_folders:
            if self._is_hidden(path):
                self._hide_rest_of(path)
        # At the end: what is made in a folder changes its time.
        for path, info in live_folders.items():
            self._copy_mode_and_times(path, info)

    def _hide_paths(self) -> None:
        """Hide paths: a character device hides what is below it in an overlay."""
        put = self.layer.put
        for path in sorted(self.layer.hide - put.keys() - self._made):
            # First, because most paths that are to be hidden do not exist.
            if not self._live(path):
                continue
            parent = os.path.dirname(path)
            is_below_file = not put.keys().isdisjoint(map(str, Path(path).parents))
            # Below another hidden folder, or a file, there is nothing to hide.
            if not self._is_hidden(parent) and not is_below_file:
                self._make(parent)
                os.mknod(self._plan / path, stat.S_IFCHR, 0)

    def _hide_rest_of(self, path: str) -> None:
        """Hide the rest of a folder that exists because of a path below it."""
        live_names = set(os.listdir(self.layer.root / path))
        for name in live_names.difference(os.listdir(self._plan / path)):
            os.mknod(self._plan / path / name, stat.S_IFCHR, 0)

    def _copy_mode_and_times(self, path: str, live: os.stat_result) -> None:
        """Give a folder of the plan the mode and the times of the live one."""
        places = [self._plan / path]
        if not path:
            places.append(self.files)
        for place in places:
            # The agent may have closed a folder in which files have their original
            # content.
            place.chmod(stat.S_IMODE(live.st_mode) | 0o700)
            if not self._is_hidden(path):
                os.utime(place, ns=(live.st_atime_ns, live.st_mtime_ns))

    def _live(self, path: str) -> os.stat_result | None:
        """Return the stat of `path` in the live tree; None if it does not exist.

        Links are not followed.
        """
        place = os.path.join(self.layer.root, path).rstrip("/")
        folder = os.path.dirname(place)
        with contextlib.suppress(OSError):
            info = os.lstat(place)
            if not path or os.path.realpath(folder) == folder:
                return info
        return None

    def _is_hidden(self, path: str) -> bool:
        """Return whether the path is hidden, or lies below a hidden folder."""
        return not self.layer.hide.isdisjoint((path, *map(str, Path(path).parents)))

    def _make(self, path: str) -> None:
        """Make a folder of the plan, and those above it."""
        if path not in self._made:
            self._make(os.path.dirname(path))
            (self._plan / path).mkdir()
            self._made.add(path)


class Overlay:
    """The port `CheckEnvironment` with overlay mounts.

    `scratch` is a folder of this user for the upper layers. With a `setup`, ignored
    files do not exist in the environments, and what it installs does.
    """

    kind: Kind = "overlay"

    def __init__(
        self,
        scratch: Path,
        environ: Mapping[str, str],
        setup: Setup | None = None,
    ) -> None:
        self._scratch = scratch
        self._environ = environ
        self._setup = setup

    @asynccontextmanager
    async def open(self, layers: Sequence[Layer]) -> AsyncIterator[OpenOverlay]:
        if self._setup is None:
            async with self._open(layers) as opened:
                yield opened
            return
        layers = [await self._setup.without_ignored(layers[0]), *layers[1:]]
        async with (
            self._installed(self._setup, layers) as products,
            self._open(layers, products) as opened,
        ):
            yield opened

    @asynccontextmanager
    async def _open(
        self,
        layers: Sequence[Layer],
        products: Path | None = None,
    ) -> AsyncIterator[OpenOverlay]:
        opened = OpenOverlay(self._scratch, self._environ, layers, products)
        try:
            await to_its_end(asyncio.to_thread(opened.set_up))
            yield opened
        finally:
            await to_its_end(asyncio.to_thread(opened.tear_down))

    @asynccontextmanager
    async def _installed(
        self,
        setup: Setup,
        layers: Sequence[Layer],
    ) -> AsyncIterator[Path]:
        """Give the folder with what `setup` installs.

        It is installed first if none is stored for these inputs.
        """
        with environment_errors(
            f"cannot prepare the check environment in {self._scratch}"
        ):
            make_scratch(self._scratch)
            inputs = await setup.inputs(layers[0])
            products = await Products.locked(self._scratch, inputs.key)
        try:
            if not await asyncio.to_thread(setup.is_usable, products, inputs.paths):
                async with self._open(layers) as opened:
                    await setup.run(opened, opened.files)
                    # Its processes may not write any more.
                    opened.namespace.close()
                    await asyncio.to_thread(
                        setup.keep,
                        products,
                        opened.files,
                        inputs.paths,
                    )
            # From now on nothing changes it.
            products.share()
            yield products.files
        finally:
            products.close()


class OpenOverlay(OpenEnvironment):
    """The port `OpenEnvironment` with overlay mounts.

    `set_up` and `tear_down` block.
    """

    def __init__(
        self,
        scratch: Path,
        environ: Mapping[str, str],
        layers: Sequence[Layer],
        products: Path | None = None,
    ) -> None:
        self._scratch = self.room = Path(os.path.realpath(scratch))
        self._environ = environ
        self._products = products
        # Links in it stay: paths in the output of checks are those that the user knows.
        self.path = layers[0].root.absolute()
        """The workspace's own path."""
        self._layers = [
            replace(layer, root=Path(os.path.realpath(layer.root))) for layer in layers
        ]
        self.uppers: list[UpperLayers] = []
        self.files: Path
        """The folder that has the files that checks write.

        They have the same relative paths as in the workspace.
        """
        self.namespace: Namespace
        self._undo = contextlib.ExitStack()
        """What `tear_down` undoes."""

    def launcher(self, inner: Launcher) -> Launcher:
        """Return a launcher that starts its commands in the namespace."""
        # A process namespace ends with all of its processes, so they need no variable
        # by which they are found.
        if isinstance(inner, ProcessLauncher):
            inner = replace(inner, marked=False)
        return NamespaceLauncher(inner, self.namespace)

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables for commands in this environment.

        Every path is the same; what `setup` installed comes first.
        """
        if self._products is not None:
            env = activated(env, self.path, self._products)
        is_root = os.path.lexists(self.path / ".git")
        is_inside = any((folder / ".git").exists() for folder in self.path.parents)
        if is_root or not is_inside:
            return dict(env)
        # A workspace below the root of its repository is a mount of its own, at whose
        # border git stops by default. Only then is a variable added, because it tells
        # code under test that it is being checked.
        return {**env, "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}

    async def collect(self, patterns: Sequence[str]) -> tuple[str, ...]:
        return await to_its_end(asyncio.to_thread(self._collect, Patterns(patterns)))

    def _collect(self, patterns: Patterns) -> tuple[str, ...]:
        first = self.uppers[0]
        copied: list[str] = []
        for path in first.written():
            if not patterns.match(printable_path(os.fsencode(path))):
                continue
            with os_errors(
                f"cannot copy {path} into the workspace",
                "free some space, or remove it from `outputs`",
                EnvironmentFailed,
            ):
                if copy_into(first.files, first.layer.root, path):
                    copied.append(path)
        return tuple(copied)

    async def changed(self) -> tuple[str, ...]:
        return await asyncio.to_thread(self._changed)

    def _changed(self) -> tuple[str, ...]:
        first = self.uppers[0]
        changed: list[str] = []
        for path in first.written():
            live = first.layer.root / path
            with contextlib.suppress(OSError):
                is_file = live.is_file() and not live.is_symlink()
                # A file that is opened for writing is copied up with its content.
                if is_file and not filecmp.cmp(first.files / path, live, shallow=False):
                    changed.append(path)
        return tuple(changed)

    async def wrote(self) -> tuple[str, ...]:
        return tuple(await asyncio.to_thread(self.uppers[0].written))

    def set_up(self) -> None:
        """Prepare the upper layers and mount.

        Raise EnvironmentFailed if that is not possible.
        """
        # A program in the workspace may be of the agent.
        tools = find_tools(self._environ, [layer.root for layer in self._layers])
        for layer in self._layers:
            self._check_root(layer.root)
        with environment_errors(
            f"cannot prepare the check environment in {self._scratch}"
        ):
            folder = self._make_folder()
            self.uppers = [
                UpperLayers(layer, folder / str(number))
                for number, layer in enumerate(self._layers)
            ]
            self.uppers[0].products = self._products
            for upper in self.uppers:
                upper.prepare()
            self.files = self.uppers[0].files
        mounts = [
            OverlayMount(upper.layer.root, upper.folder, upper.products)
            for upper in self.uppers
        ]
        # A mount would cover one that is made before below its root.
        mounts.sort(key=lambda mount: len(mount.root.parts))
        self.namespace = Namespace(mounts, tools)
        self._undo.callback(self.namespace.close)
        with os_errors(
            "the check environment cannot be started",
            "",
            EnvironmentFailed,
        ):
            self.namespace.open()

    def _check_root(self, root: Path) -> None:
        """Raise EnvironmentFailed if a folder cannot be covered by an overlay."""
        if not root.is_dir():
            raise EnvironmentFailed(f"{root} is not a folder")
        if self._scratch.is_relative_to(root):
            raise EnvironmentFailed(
                f"{self._scratch} lies below {root}",
                "set GOAL_HOME to another folder",
            )
        for point in mount_points():
            if root in point.parents:
                raise EnvironmentFailed(
                    f"{point} is mounted below {root}, and an overlay does not show it"
                )

    def tear_down(self) -> None:
        """End every process, and remove the upper layers.

        It works after a `set_up` that failed, too.
        """
        self._undo.close()

    def _make_folder(self) -> Path:
        """Make the folder of one environment, and remove those of killed runners."""
        make_scratch(self._scratch)
        _remove_stale(self._scratch)
        folder = Path(
            tempfile.mkdtemp(
                prefix=_PREFIX,
                dir=self._scratch,
            )
        )
        # Held until the end, so that no other runner takes the folder for a stale one.
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._undo.callback(os.close, lock)
        self._undo.callback(_discard, folder)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return folder


def make_scratch(scratch: Path) -> None:
    """Make the folder for upper layers.

    Raise EnvironmentFailed if other users can write it.
    """
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = scratch.lstat()
    # Another user could change what validators see.
    if info.st_uid != os.geteuid() or info.st_mode & 0o022:
        raise EnvironmentFailed(
            f"{scratch} can be written by other users",
            f"chmod 700 {scratch}",
        )


def _discard(folder: Path) -> None:
    """Remove a folder; if it cannot be removed, a later check removes it as stale."""
    # An error must not replace one about a process that cannot be ended.
    with contextlib.suppress(OSError):
        remove(folder)


def _remove_stale(scratch: Path) -> None:
    """Remove the folders of runners that were killed.

    The lock of a folder ends with its process.
    """
    for entry in os.scandir(scratch):
        if not entry.name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            # Another runner may have made it, and not locked it yet.
            if entry.stat(follow_symlinks=False).st_mtime > time.time() - _STALE:
                continue
            lock = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(Path(entry.path))
            finally:
                os.close(lock)


def scratch_candidates(home: Path, workspace: Path) -> Iterator[Path]:
    """Yield folders that may serve as `scratch`, the best one first.

    None lies below the workspace, or on an overlay, which cannot hold upper layers.
    """
    name = f"goal-checks-{os.geteuid()}"
    real_workspace = Path(os.path.realpath(workspace))
    places = ("/dev/shm", "/var/tmp", "/tmp")  # noqa: S108
    for folder in (home / "checks", *(Path(place, name) for place in places)):
        real = Path(os.path.realpath(folder))
        existing = next(place for place in (real, *real.parents) if place.exists())
        is_below = real.is_relative_to(real_workspace)
        if is_below or is_overlay(existing):
            continue
        if os.access(existing, os.W_OK):
            yield folder


def probe(
    workspace: Path,
    scratch: Path,
    more_roots: Sequence[Path] = (),
) -> str:
    """Return why an overlay of the workspace does not work; empty if it works.

    Everything that a check needs is tried on the workspace itself, which stays as it
    is.
    """
    name = f".goal-probe-{os.urandom(6).hex()}"
    try:
        with os.scandir(workspace) as entries:
            files = (
                entry.name for entry in entries if entry.is_file(follow_symlinks=False)
            )
            # One file, if there is one, shows that files can be hidden.
            hide = frozenset(islice(files, 1))
    except OSError as error:
        return f"{workspace} cannot be read: {error.strerror}"
    put = {f"{name}/put": File(stat.S_IFREG | 0o644, b"original\n")}
    layers = [Layer(workspace, put, hide), *map(Layer, more_roots)]
    opened = OpenOverlay(scratch, os.environ, layers)
    try:
        try:
            opened.set_up()
            return _probe_opened(opened, name)
        finally:
            opened.tear_down()
    except subprocess.TimeoutExpired:
        return f"a command did not end within {_PATIENCE:g} s"
    except EnvironmentFailed as error:
        return error.message


def _probe_opened(opened: OpenOverlay, name: str) -> str:
    """Return why files cannot be read or written in an overlay; empty if they can."""
    roots = [str(upper.layer.root) for upper in opened.uppers]
    argv = opened.namespace.entering(
        [SHELL, "-c", _PROBE, "probe", name, *roots],
        opened.path,
    )
    path = f"{os.defpath}:{os.environ.get('PATH', '')}".rstrip(":")
    completion = subprocess.run(
        argv,
        env={"PATH": path},
        capture_output=True,
        timeout=_PATIENCE,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if completion.returncode == 0:
        return opened.full()
    printed = (completion.stdout + completion.stderr).decode(errors="replace")
    return printed.strip().partition("\n")[0] or "files cannot be written"
