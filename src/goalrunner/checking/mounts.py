"""Overlay mounts: what one consists of, the programs that make it, and what is mounted on this system already."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.errors import EnvironmentFailed
from goalrunner.process.program import program_outside

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
