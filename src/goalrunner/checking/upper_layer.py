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

from goalrunner.checking.environment import Layer, put_file
from goalrunner.core.errors import EnvironmentFailed
from goalrunner.system.launcher import program_outside

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
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


def privileged() -> bool:
    """Return whether this process is root and may mount, so that no user namespace is needed."""
    found = re.search(r"^CapEff:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    # 21 is CAP_SYS_ADMIN.
    return os.geteuid() == 0 and found is not None and bool(int(found[1], 16) >> 21 & 1)


def mount_points() -> list[Path]:
    """Return every mount point."""
    rows = (line.split(b" ") for line in Path("/proc/self/mountinfo").read_bytes().splitlines())
    return [
        Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), row[4]))) for row in rows
    ]


@dataclass
class UpperLayer:
    """The upper layer of one overlay mount: its plan, its folder, and what was prepared in it.

    `folder` contains the upper layer `u`, the work folder `w` and an empty `l`, to which the lower layer is bound. The
    layer's root is a path without links.
    """

    layer: Layer
    folder: Path
    _prepared: frozenset[tuple[str, int, int]] = frozenset()
    _made: set[str] = field(default_factory=set)

    @property
    def files(self) -> Path:
        return self.folder / "u"

    def entries(self) -> Iterator[tuple[str, int, int]]:
        """Yield the entries of the upper layer except plain folders, each with its inode and ctime.

        These are files, links, what hides a live file, and folders that replace a live one.
        """
        for folder, folders, names in os.walk(self.files):
            for path in (Path(folder, name) for name in (*names, *folders)):
                found, relative = path.lstat(), str(path.relative_to(self.files))
                if not stat.S_ISDIR(found.st_mode):
                    yield relative, found.st_ino, found.st_ctime_ns
                elif (self.layer.root / relative).is_dir() and _OPAQUE in os.listxattr(path):
                    yield relative, found.st_ino, 0

    def written(self) -> list[str]:
        """Return the regular files in the upper layer that were not prepared, or changed since."""
        new = (entry[0] for entry in self.entries() if entry not in self._prepared)
        return [path for path in new if stat.S_ISREG((self.files / path).lstat().st_mode)]

    def changed(self) -> Iterator[str]:
        """Yield the written files whose content differs from the live tree."""
        for path in self.written():
            live = self.layer.root / path
            with contextlib.suppress(OSError):
                if live.is_file() and not live.is_symlink() and not filecmp.cmp(self.files / path, live, shallow=False):
                    yield path

    def prepare(self) -> None:
        """Make the folders of the mount, and fill the upper layer with what differs from the live files."""
        for name in ("u", "w", "l"):
            (self.folder / name).mkdir(mode=0o700, parents=True)
        self._made, put = {""}, self.layer.put
        for path, file in sorted(put.items()):
            self._make(os.path.dirname(path))
            put_file(self.files, path, file)
        for path in sorted(self.layer.hide - put.keys() - self._made):
            parent = os.path.dirname(path)
            # Below another hidden folder, or a file, there is nothing to hide.
            if self._live(path) and not self._is_hidden(parent) and put.keys().isdisjoint(map(str, Path(path).parents)):
                self._make(parent)
                os.mknod(self.files / path, stat.S_IFCHR, 0)
        there = {path: info for path in self._made if (info := self._live(path)) and stat.S_ISDIR(info.st_mode)}
        for path in there:
            if self._is_hidden(path):  # it exists because of a path below it: the rest of it is hidden
                for name in {*os.listdir(self.layer.root / path)} - {*os.listdir(self.files / path)}:
                    os.mknod(self.files / path / name, stat.S_IFCHR, 0)
        for path, live in there.items():  # at the end: what is made in a folder changes its time
            # The agent may have closed a folder in which files have their original content.
            (self.files / path).chmod(stat.S_IMODE(live.st_mode) | 0o700)
            if not self._is_hidden(path):
                os.utime(self.files / path, ns=(live.st_atime_ns, live.st_mtime_ns))
        self._prepared = frozenset(self.entries())

    def _live(self, path: str) -> os.stat_result | None:
        """Return the stat of `path` in the live tree without following a link; None if it does not exist."""
        place = os.path.join(self.layer.root, path).rstrip("/")
        folder = os.path.dirname(place)
        with contextlib.suppress(OSError):
            return os.lstat(place) if not path or os.path.realpath(folder) == folder else None
        return None

    def _is_hidden(self, path: str) -> bool:
        """Return whether the path is hidden, or lies below a hidden folder."""
        return not self.layer.hide.isdisjoint((path, *map(str, Path(path).parents)))

    def _make(self, path: str) -> None:
        if path not in self._made:
            self._make(os.path.dirname(path))
            (self.files / path).mkdir()
            self._made.add(path)
