"""What a confined command finds at which path, as a list in the order in which it must be laid out. Pure but for looking."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.ports import Confinement
from goalrunner.process.jail.sockets import listening

TMP, RUN = Path("/tmp"), Path("/run")  # noqa: S108 - the place itself is meant
_EMPTY_PLACES = (Path("/var/tmp"), Path("/var/run"), RUN)  # noqa: S108
"""Private and empty as well. /run holds the sockets of whoever would do something for a command outside of its jail."""

_OF_RUN = ("current-system", "booted-system", "opengl-driver", "wrappers", "nscd", "systemd/resolve")
"""What programs need of /run to start, and to find other machines by name."""

_EMPTY = Path(os.path.realpath(__file__)).parents[2] / "py.typed"
"""A regular file without content: git takes no other kind into its index."""

Kind = Literal["hidden", "readable", "writable"]
_STRENGTH: tuple[Kind, ...] = ("hidden", "readable", "writable")


@dataclass(frozen=True)
class Mount:
    """`path` shows `source`; of what is hidden, nothing."""

    path: Path
    kind: Kind
    source: Path

    @property
    def is_folder(self) -> bool:
        """Whether a folder stands there."""
        return self.source.is_dir()


def mounts(within: Confinement) -> list[Mount]:
    """Outer paths before inner ones. The first is the whole system, which can be read."""
    found: dict[Path, Mount] = {}
    for mount in sorted(_all(within), key=lambda mount: _STRENGTH.index(mount.kind)):
        found[mount.path] = mount
    for path in listening():
        if path not in found and _is_the_machines(path, found):
            found[path] = Mount(path, "hidden", path)
    laid = sorted(found.values(), key=lambda mount: len(mount.path.parts))
    return [Mount(Path("/"), "readable", Path("/")), *(mount for mount in laid if mount.path != Path("/"))]


def _is_the_machines(path: Path, found: Mapping[Path, Mount]) -> bool:
    """Whether that path would be in view as the machine has it, in what a command only reads."""
    around = next((found[parent] for parent in path.parents if parent in found), None)
    return around is None or (around.kind == "readable" and around.path == around.source)


def tops(laid: list[Mount]) -> list[Path]:
    """Folders of /tmp below which something of the system stays in view."""
    inner = (mount.path.relative_to(TMP).parts for mount in laid if mount.path.is_relative_to(TMP))
    return sorted({TMP / parts[0] for parts in inner if len(parts) > 1})


def _all(within: Confinement) -> Iterator[Mount]:
    for path in (*_EMPTY_PLACES, *within.hidden):
        if path.exists() and not path.is_symlink():
            yield Mount(path, "hidden", path)
    yield Mount(TMP, "writable", within.tmp) if within.tmp else Mount(TMP, "hidden", TMP)
    if within.home is not None:
        yield Mount(within.home[0], "writable", within.home[1])
    for path in (*_needed(), *within.readable):
        if path.exists():
            yield Mount(path, "readable", path)
    for path in within.writable:
        if path.exists():
            yield Mount(path, "writable", path)
    for path in within.emptied:
        if path.is_file():
            yield Mount(path, "readable", _EMPTY)


def _needed() -> Iterator[Path]:
    yield from (RUN / name for name in _OF_RUN)
    names = Path(os.path.realpath("/etc/resolv.conf"))
    if names.is_relative_to(RUN):
        yield names
