"""What a sandboxed command sees of the file system: the mounts of a sandbox."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.core.errors import record_errors


@dataclass(frozen=True)
class Confinement:
    """What a sandboxed command may see and write: absolute paths without links.

    All other paths can only be read. The deeper of two paths wins; on the same path
    `writable` wins over `readable`, and `readable` over `hidden`.
    """

    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """Visible even inside of hidden folders and /tmp."""
    hidden: tuple[Path, ...] = ()
    emptied: tuple[Path, ...] = ()
    """Shown as empty regular files."""
    tmp: Path | None = None
    """Mounted as /tmp; None: an empty one for each command."""
    home: tuple[Path, Path] | None = None
    """A home folder, and the folder that is mounted there."""
    network: bool = True
    """False: no network, not even on this machine."""


# The kernel's flag of a socket that accepts connections.
_LISTENS = 0x10000
_SOCKET_FIELDS = 8

# The place itself is meant, not a file in it.
TMP, RUN = Path("/tmp"), Path("/run")  # noqa: S108
VAR_TMP = Path("/var/tmp")  # noqa: S108
# Private and empty, like /tmp: /run holds the sockets of services that act outside of
# the sandbox.
_EMPTY_PLACES = (VAR_TMP, Path("/var/run"), RUN)

# The parts of /run that programs need to start and to resolve host names.
_NEEDED_OF_RUN = (
    "current-system",
    "booted-system",
    "opengl-driver",
    "wrappers",
    "nscd",
    "systemd/resolve",
)

# A regular file without content: git takes no other kind into its index.
_EMPTY = Path(os.path.realpath(__file__)).parents[1] / "py.typed"

Kind = Literal["hidden", "readable", "writable"]
_STRENGTH: tuple[Kind, ...] = ("hidden", "readable", "writable")


def real_path(path: Path) -> Path:
    """Return an absolute path without links; parts that do not exist are kept."""
    return Path(os.path.realpath(path))


def listening(table: Path = Path("/proc/net/unix")) -> tuple[Path, ...]:
    """Return the paths of sockets that accept connections.

    Abstract sockets have none; they go with the network.
    """
    try:
        lines = table.read_bytes().split(b"\n")[1:]
    except OSError:
        return ()
    sockets: dict[Path, None] = {}
    for line in lines:
        # A path may contain anything, newlines too, so some lines are not valid.
        try:
            path = _listening_path(line)
            if path is not None and stat.S_ISSOCK(path.stat().st_mode):
                sockets[path] = None
        except (OSError, ValueError):
            continue
    return tuple(sockets)


def _listening_path(line: bytes) -> Path | None:
    """Return the path in a line of the kernel's table; None if it does not listen."""
    # Number, references, protocol, flags, type, state, inode, path.
    parts = line.split(maxsplit=_SOCKET_FIELDS - 1)
    if len(parts) != _SOCKET_FIELDS or not parts[7].startswith(b"/"):
        return None
    if not int(parts[3], 16) & _LISTENS:
        return None
    return Path(os.fsdecode(os.path.realpath(parts[7])))


@dataclass(frozen=True)
class Mount:
    """`path` shows `source`, or nothing if it is hidden."""

    path: Path
    kind: Kind
    source: Path

    @property
    def is_folder(self) -> bool:
        return self.source.is_dir()


def mounts(within: Confinement) -> list[Mount]:
    """Return the mounts, outer paths before inner ones.

    The first is the whole system, which can be read.
    """
    by_path: dict[Path, Mount] = {}
    # On the same path the strongest kind wins.
    for mount in sorted(_requested(within), key=_strength):
        by_path[mount.path] = mount
    for path in listening():
        if _sees_socket(path, by_path):
            by_path[path] = Mount(path, "hidden", path)
    root = Path("/")
    by_path.pop(root, None)
    inner = sorted(by_path.values(), key=lambda mount: len(mount.path.parts))
    return [Mount(root, "readable", root), *inner]


def _strength(mount: Mount) -> int:
    return _STRENGTH.index(mount.kind)


def _sees_socket(path: Path, by_path: dict[Path, Mount]) -> bool:
    """Return whether a command would see a socket of a process outside of the sandbox.

    In what a command writes, sockets are its own or its project's.
    """
    for parent in (path, *path.parents):
        around = by_path.get(parent)
        if around is not None:
            is_same_place = around.path == around.source
            is_readable = around.kind == "readable" and is_same_place
            return path not in by_path and is_readable
    return True


def tops(ordered_mounts: list[Mount]) -> list[Path]:
    """Return the folders of /tmp below which something of the system stays visible."""
    folders = set()
    for mount in ordered_mounts:
        if mount.path.is_relative_to(TMP):
            parts = mount.path.relative_to(TMP).parts
            if len(parts) > 1:
                folders.add(TMP / parts[0])
    return sorted(folders)


def _requested(within: Confinement) -> Iterator[Mount]:
    """Yield the mounts that a confinement asks for, in any order of strength."""
    for path in (*_EMPTY_PLACES, *within.hidden):
        if path.exists() and not path.is_symlink():
            yield Mount(path, "hidden", path)
    if within.tmp:
        yield Mount(TMP, "writable", within.tmp)
    else:
        yield Mount(TMP, "hidden", TMP)
    if within.home is not None:
        yield Mount(within.home[0], "writable", within.home[1])
    readable = [RUN / name for name in _NEEDED_OF_RUN]
    resolver = real_path(Path("/etc/resolv.conf"))
    if resolver.is_relative_to(RUN):
        readable.append(resolver)
    for path in (*readable, *within.readable):
        if path.exists():
            yield Mount(path, "readable", path)
    for path in within.writable:
        if path.exists():
            yield Mount(path, "writable", path)
    for path in within.emptied:
        if path.is_file():
            yield Mount(path, "readable", _EMPTY)


def make_ready(within: Confinement) -> None:
    """Create the folders that are mounted as /tmp and as home.

    They get a mount point for what is mounted in them. Raise RecordError if that is not
    possible.
    """
    # Place in the sandbox and private folder; home may lie in /tmp, so it comes last.
    private_folders: list[tuple[Path, Path]] = []
    if within.tmp is not None:
        private_folders.append((TMP, within.tmp))
    if within.home is not None:
        private_folders.append(within.home)
    with record_errors("cannot make the /tmp and the home of the sandbox"):
        for _, folder in private_folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for mount in mounts(within):
            for place, folder in reversed(private_folders):
                if place in mount.path.parents:
                    parts = mount.path.relative_to(place).parts
                    _make_mount_point(folder, parts, is_folder=mount.is_folder)
                    break


def _make_mount_point(root: Path, parts: tuple[str, ...], *, is_folder: bool) -> None:
    """Create a file or folder below `root`; replace what has another kind."""
    path = root
    for depth, part in enumerate(parts, start=1):
        path = path / part
        needs_folder = is_folder or depth < len(parts)
        has_other_kind = path.exists() and path.is_dir() is not needs_folder
        # A link could lead the mount to another place.
        if path.is_symlink() or has_other_kind:
            _remove(path)
        if needs_folder:
            path.mkdir(mode=0o700, exist_ok=True)
        else:
            path.touch(mode=0o600)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def is_visible(path: Path, within: Confinement) -> bool:
    """Return whether a sandboxed command finds what lies at an absolute path.

    A link there is visible only if its target is.
    """
    ordered_mounts = mounts(within)
    for spelling in (Path(os.path.normpath(path)), real_path(path)):
        around = [one for one in ordered_mounts if spelling.is_relative_to(one.path)]
        innermost = around[-1]
        shown_path = innermost.source / spelling.relative_to(innermost.path)
        if innermost.kind == "hidden" or not os.path.lexists(shown_path):
            return False
    return True
