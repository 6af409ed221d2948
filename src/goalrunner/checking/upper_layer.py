"""Overlay mounts: what is put into the upper layer, what it hides, and what checks wrote there."""

from __future__ import annotations

import contextlib
import filecmp
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from goalrunner.checking.environment import File, Layer
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.system.launcher import program_outside

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_CAP_SYS_ADMIN = 21
_PLAIN = re.compile(r"[\w/.+@%=~ -]+", re.ASCII)
"""Paths that stand for themselves in the options of a mount."""


@dataclass(frozen=True)
class Mount:
    """An overlay over the folder `root`; `folder` contains the upper layer `u`, the work folder `w` and an empty `l`.

    `apart` is True where `root` is covered by an earlier mount of the same namespace.
    """

    root: Path
    folder: Path
    apart: bool = False

    @property
    def bound(self) -> bool:
        """Return whether the lower layer is bound to `l` first."""
        return self.apart or not _PLAIN.fullmatch(str(self.root))


@dataclass(frozen=True)
class Tools:
    """The programs that make a namespace, from util-linux and coreutils."""

    unshare: Path
    nsenter: Path
    mount: Path
    umount: Path
    cat: Path

    @classmethod
    def find(cls, environ: Mapping[str, str], roots: Sequence[Path]) -> Tools:
        """Return the programs outside of `roots`. Raise EnvironmentFailed if one is missing."""
        if sys.platform != "linux":
            raise EnvironmentFailed("overlays need Linux")
        path = {"PATH": f"{environ.get('PATH', os.defpath)}:{SYSTEM_PATH}"}
        found = {name: program_outside(name, path, roots) for name in cls.__annotations__}
        missing = [name for name, program in found.items() if program is None]
        if missing:
            raise EnvironmentFailed(f"{missing[0]} is not installed", "install util-linux and coreutils")
        return cls(**{name: program for name, program in found.items() if program is not None})


def mount_commands(mounts: Sequence[Mount], tools: Tools) -> list[str]:
    """Return the lines of a shell script that mounts them, in their order."""
    bound = [mount for mount in mounts if mount.bound]
    mount, umount = str(tools.mount), str(tools.umount)
    lines = [[mount, "-i", "--bind", str(one.root), str(one.folder / "l")] for one in bound]
    for one in mounts:
        options = f"lowerdir={'l' if one.bound else one.root},upperdir=u,workdir=w,userxattr"
        lines.append(["cd", str(one.folder)])
        lines.append([mount, "-i", "-t", "overlay", "-o", options, "overlay", str(one.root)])
    lines += [["cd", "/"], *([umount, "-i", str(one.folder / "l")] for one in bound)]
    return [shlex.join(line) for line in lines]


def privileged() -> bool:
    """Return whether this process is root and may mount, so that no user namespace is needed."""
    found = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return os.geteuid() == 0 and found is not None and bool(int(found[1], 16) >> _CAP_SYS_ADMIN & 1)


def filesystem(path: Path) -> str:
    """Return the type of the filesystem at `path`."""
    covering = [(point, kind) for point, kind in mount_points() if path.is_relative_to(point)]
    return max(reversed(covering), key=lambda one: len(one[0].parts))[1] if covering else ""


def mount_points() -> list[tuple[Path, str]]:
    """Return every mount point with the type of its filesystem; later entries cover earlier ones."""
    found = []
    table_of_mounts = Path("/proc/self/mountinfo")
    for line in table_of_mounts.read_bytes().splitlines() if table_of_mounts.exists() else ():
        fields, _, rest = line.partition(b" - ")
        point = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), fields.split(b" ")[4])
        found.append((Path(os.fsdecode(point)), rest.split(b" ")[0].decode()))
    return found


@dataclass
class UpperLayer:
    """The upper layer of one overlay mount: its plan, its folder, and what was prepared in it."""

    layer: Layer
    folder: Path
    apart: bool
    of_workspace: bool
    prefix: str = ""
    _prepared: dict[str, tuple[int, int]] = field(default_factory=dict)
    _folders: dict[str, os.stat_result | None] = field(default_factory=dict)

    @property
    def mount(self) -> Mount:
        """Return the mount that this is the upper layer of."""
        return Mount(self.layer.root, self.folder, self.apart)

    @property
    def files(self) -> Path:
        """Return the folder of the files in the upper layer."""
        return self.folder / "u"

    def written(self) -> Iterator[str]:
        """Yield the regular files in the upper layer that were not prepared, or changed since."""
        for folder, _, names in os.walk(self.files):
            for name in names:
                path = Path(folder, name)
                found = path.lstat()
                relative = str(path.relative_to(self.files))
                if stat.S_ISREG(found.st_mode) and self._prepared.get(relative) != _signature(found):
                    yield relative

    def changed(self) -> Iterator[str]:
        """Yield the written files of the workspace, relative to it, whose content is another one than in the live tree."""
        for path in self.written() if self.of_workspace else ():
            live = self.layer.root / path
            with contextlib.suppress(OSError):
                if live.is_file() and not live.is_symlink() and not filecmp.cmp(self.files / path, live, shallow=False):
                    yield self.prefix + path

    def prepare(self) -> None:
        """Make the folders of the mount, and fill the upper layer with what differs from the live files."""
        for name in ("u", "w", "l"):
            (self.folder / name).mkdir(mode=0o700, parents=True)
        self._folders[""] = self.layer.root.stat()
        for path, file in sorted(self.layer.put.items()):
            self._write(path, file)
        for path in sorted(self.layer.hide):
            if path not in self.layer.put and path not in self._folders:
                self._hide(path)
        for path in [path for path in self._folders if self._is_hidden(path)]:
            self._hide_rest(path)
        # At the end: what is made in a folder changes its time.
        for path, live in self._folders.items():
            self._adopt(path, live)

    def _live(self, path: str) -> os.stat_result | None:
        """Return what stands at `path` in the live tree, without following a link; None if nothing does."""
        if path in self._folders and self._folders[path] is not None:
            return self._folders[path]
        parent = os.path.dirname(path)
        above = self._live(parent) if path else None
        if above is not None and not stat.S_ISDIR(above.st_mode):
            return None
        try:
            return (self.layer.root / path).lstat() if above is not None else None
        except OSError:
            return None

    def _is_hidden(self, path: str) -> bool:
        """Return whether the path is hidden, or lies below a hidden folder."""
        hide = self.layer.hide
        return bool(hide) and (path in hide or any(str(parent) in hide for parent in Path(path).parents))

    def _make(self, path: str) -> None:
        """Make a folder in the upper layer, and its parents."""
        if path in self._folders:
            return
        self._make(os.path.dirname(path))
        live = self._live(path)
        (self.files / path).mkdir()
        self._folders[path] = live if live is not None and stat.S_ISDIR(live.st_mode) else None

    def _write(self, path: str, file: File) -> None:
        self._make(os.path.dirname(path))
        target = self.files / path
        if file.is_link:
            target.symlink_to(os.fsdecode(file.data))
        else:
            with target.open("xb") as sink:
                sink.write(file.data)
        _chown(target, self._owner(path))
        if not file.is_link:
            target.chmod(stat.S_IMODE(file.mode))
        self._prepared[path] = _signature(target.lstat())

    def _hide(self, path: str) -> None:
        """Put a whiteout over a live path; below another hidden folder, or a file, there is nothing to hide."""
        parent = os.path.dirname(path)
        if self._live(path) is None or self._is_hidden(parent):
            return
        if any(str(above) in self.layer.put for above in Path(path).parents):
            return
        self._make(parent)
        os.mknod(self.files / path, stat.S_IFCHR, 0)

    def _hide_rest(self, path: str) -> None:
        """Put whiteouts over everything in a hidden folder that exists because of a path below it."""
        if self._folders[path] is None:
            return
        present = {entry.name for entry in os.scandir(self.files / path)}
        for entry in os.scandir(self.layer.root / path):
            if entry.name not in present:
                os.mknod(self.files / path / entry.name, stat.S_IFCHR, 0)

    def _owner(self, path: str) -> tuple[int, int]:
        """Return the ids of the live path, or else of the nearest folder above it."""
        live = self._live(path)
        if live is None:
            return self._owner(os.path.dirname(path))
        return live.st_uid, live.st_gid

    def _adopt(self, path: str, live: os.stat_result | None) -> None:
        """Give a folder of the upper layer the owner, the mode and the times of the live one."""
        folder = self.files / path
        _chown(folder, self._owner(path))
        if live is not None:
            # The agent may have closed a folder in which files have their original content.
            folder.chmod(stat.S_IMODE(live.st_mode) | 0o700)
            if not self._is_hidden(path):
                os.utime(folder, ns=(live.st_atime_ns, live.st_mtime_ns))


def upper_layers(layers: Sequence[Layer], folder: Path) -> Iterator[UpperLayer]:
    """Yield one for each layer and for each mount below one: an overlay does not show what is mounted below it."""
    found: list[tuple[Layer, Path]] = []
    for layer in layers:
        found += [(one, layer.root) for one in _split(layer)]
    found.sort(key=lambda one: len(one[0].root.parts))
    for number, (one, root) in enumerate(found):
        prefix = "" if one.root == root else f"{one.root.relative_to(root)}/"
        apart = any(one.root.is_relative_to(above.root) for above, _ in found[:number])
        yield UpperLayer(one, folder / str(number), apart, root == layers[0].root, prefix)


def _split(layer: Layer) -> list[Layer]:
    """Return the layer, and one for each folder mounted below it. Raise EnvironmentFailed if they cannot be overlaid."""
    below = sorted({point for point, _ in mount_points() if layer.root in point.parents})
    if below and not privileged():
        raise EnvironmentFailed(f"{below[0]} is mounted below {layer.root}, and only root can lay an overlay over that")
    roots, put = [layer.root], dict(layer.put)
    for point in below:
        path = str(point.relative_to(layer.root))
        if any(str(above) in layer.hide | layer.put.keys() for above in (Path(path), *Path(path).parents)):
            continue
        if point.is_dir():
            roots.append(point)
        elif point.is_file():
            put[path] = File(point.stat().st_mode, point.read_bytes())
    return [_within(root, roots, replace(layer, put=put)) for root in roots]


def _within(root: Path, roots: Sequence[Path], whole: Layer) -> Layer:
    """Return the layer at `root` with the paths of `whole` for which it is the innermost of `roots`."""
    prefix = "" if root == whole.root else f"{root.relative_to(whole.root)}/"
    inner = tuple(f"{other.relative_to(whole.root)}/" for other in roots if root in other.parents)

    def mine(path: str) -> bool:
        return path.startswith(prefix) and not path.startswith(inner)

    put = {path.removeprefix(prefix): file for path, file in whole.put.items() if mine(path)}
    return Layer(root, put, frozenset(path.removeprefix(prefix) for path in whole.hide if mine(path)))


def _signature(found: os.stat_result) -> tuple[int, int]:
    return found.st_ino, found.st_ctime_ns


def _chown(path: Path, ids: tuple[int, int]) -> None:
    """Give a new file an owner and a group; without the right to do so, it keeps those of this process."""
    with contextlib.suppress(PermissionError):
        os.chown(path, *ids, follow_symlinks=False)
