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
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.checking.environment import Layer
from goalrunner.checking.files import put_file
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.system.launcher import program_outside

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
NOT_PERMITTED = "namespaces are not permitted here"
_OPAQUE = "user.overlay.opaque"


def find_tools(environ: Mapping[str, str], roots: Sequence[Path]) -> dict[str, str]:
    """Return the programs that make a namespace, outside of `roots`. Raise EnvironmentFailed if one is missing."""
    if sys.platform != "linux":
        raise EnvironmentFailed("overlays need Linux")
    path = {"PATH": f"{environ.get('PATH', os.defpath)}:{SYSTEM_PATH}"}
    found = {}
    for name in ("unshare", "nsenter", "mount", "umount", "cat", "env"):
        program = program_outside(name, path, roots)
        if program is None:
            raise EnvironmentFailed(f"{name} is not installed", "install util-linux and coreutils")
        found[name] = str(program)
    return found


def mount_commands(uppers: Sequence[UpperLayer], tools: Mapping[str, str]) -> list[str]:
    """Return the lines of a shell script that mounts them, in their order."""
    mount, umount = tools["mount"], tools["umount"]
    # The lower layers are bound first: a mount covers what lies below it, and a path may have a meaning in the options.
    lines = [[mount, "-i", "--bind", str(one.layer.root), str(one.folder / "l")] for one in uppers]
    for one in uppers:
        lines.append(["cd", str(one.folder)])
        options = "lowerdir=l,upperdir=u,workdir=w,userxattr"
        lines.append([mount, "-i", "-t", "overlay", "-o", options, "overlay", str(one.layer.root)])
    lines += [["cd", "/"], *([umount, "-i", str(one.folder / "l")] for one in uppers)]
    return [shlex.join(line) for line in lines]


def mount_failure(said: str, uppers: Sequence[UpperLayer]) -> str:
    """Return in one sentence why the namespace could not be set up, from what the programs printed."""
    lines = [line.strip() for line in said.splitlines() if "dmesg(1)" not in line and "--help" not in line]
    last = lines[-1] if lines else said
    if "overlay" not in last:
        if last.startswith("unshare:"):
            return f"{NOT_PERMITTED} ({last.removeprefix('unshare:').strip()})"
        return f"the mounts failed ({last})"
    if filesystem(uppers[0].folder) == "overlay" or any(filesystem(one.layer.root) == "overlay" for one in uppers):
        return f"the overlay could not be mounted on another one ({last})"
    return f"the overlay could not be mounted ({last})"


def privileged() -> bool:
    """Return whether this process is root and may mount, so that no user namespace is needed."""
    found = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    # 21 is CAP_SYS_ADMIN.
    return os.geteuid() == 0 and found is not None and bool(int(found[1], 16) >> 21 & 1)


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
    """The upper layer of one overlay mount: its plan, its folder, and what was prepared in it.

    `folder` contains the upper layer `u`, the work folder `w` and an empty `l`, to which the lower layer is bound.
    """

    layer: Layer
    folder: Path
    _prepared: dict[str, tuple[int, int]] = field(default_factory=dict)
    _made: set[str] = field(default_factory=set)
    _seen: dict[str, os.stat_result | None] = field(default_factory=dict)

    @property
    def files(self) -> Path:
        return self.folder / "u"

    def entries(self) -> Iterator[tuple[str, int, int]]:
        """Yield what the upper layer has but for plain folders, with what tells a new one apart.

        These are files, links, what hides a live file, and folders that replace a live one.
        """
        for folder, folders, names in os.walk(self.files):
            for path in (Path(folder, name) for name in (*names, *folders)):
                found, relative = path.lstat(), str(path.relative_to(self.files))
                if not stat.S_ISDIR(found.st_mode):
                    yield relative, *_signature(found)
                elif (self.layer.root / relative).is_dir() and _OPAQUE in os.listxattr(path):
                    yield relative, found.st_ino, 0

    def written(self) -> Iterator[str]:
        """Yield the regular files in the upper layer that were not prepared, or changed since."""
        for path, inode, changed in self.entries():
            if self._prepared.get(path) != (inode, changed) and stat.S_ISREG((self.files / path).lstat().st_mode):
                yield path

    def changed(self) -> Iterator[str]:
        """Yield the written files whose content is another one than in the live tree."""
        for path in self.written():
            live = self.layer.root / path
            with contextlib.suppress(OSError):
                if live.is_file() and not live.is_symlink() and not filecmp.cmp(self.files / path, live, shallow=False):
                    yield path

    def prepare(self) -> None:
        """Make the folders of the mount, and fill the upper layer with what differs from the live files."""
        for name in ("u", "w", "l"):
            (self.folder / name).mkdir(mode=0o700, parents=True)
        self._made, self._seen = {""}, {"": self.layer.root.stat()}
        put = self.layer.put
        for path, file in sorted(put.items()):
            self._make(os.path.dirname(path))
            put_file(self.files, path, file)
            self._prepared[path] = _signature((self.files / path).lstat())
        for path in sorted(self.layer.hide - put.keys() - self._made):
            parent = os.path.dirname(path)
            # Below another hidden folder, or a file, there is nothing to hide.
            if self._live(path) and not self._is_hidden(parent) and put.keys().isdisjoint(map(str, Path(path).parents)):
                self._make(parent)
                os.mknod(self.files / path, stat.S_IFCHR, 0)
        for path in self._made:
            live = self._live(path)
            if live is None or not stat.S_ISDIR(live.st_mode):
                continue
            if self._is_hidden(path):  # it exists because of a path below it: the rest of it is hidden
                for name in {*os.listdir(self.layer.root / path)} - {*os.listdir(self.files / path)}:
                    os.mknod(self.files / path / name, stat.S_IFCHR, 0)
        # At the end: what is made in a folder changes its time.
        for path in self._made:
            live = self._live(path)
            if live is not None and stat.S_ISDIR(live.st_mode):
                # The agent may have closed a folder in which files have their original content.
                (self.files / path).chmod(stat.S_IMODE(live.st_mode) | 0o700)
                if not self._is_hidden(path):
                    os.utime(self.files / path, ns=(live.st_atime_ns, live.st_mtime_ns))

    def _live(self, path: str) -> os.stat_result | None:
        """Return what stands at `path` in the live tree, without following a link; None if nothing does."""
        if path not in self._seen:
            above = self._live(os.path.dirname(path))
            self._seen[path] = None
            if above is not None and stat.S_ISDIR(above.st_mode):
                with contextlib.suppress(OSError):
                    self._seen[path] = (self.layer.root / path).lstat()
        return self._seen[path]

    def _is_hidden(self, path: str) -> bool:
        """Return whether the path is hidden, or lies below a hidden folder."""
        hide = self.layer.hide
        return bool(hide) and (path in hide or any(str(parent) in hide for parent in Path(path).parents))

    def _make(self, path: str) -> None:
        if path not in self._made:
            self._make(os.path.dirname(path))
            (self.files / path).mkdir()
            self._made.add(path)


def _signature(found: os.stat_result) -> tuple[int, int]:
    return found.st_ino, found.st_ctime_ns
