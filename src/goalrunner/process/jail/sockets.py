"""Sockets of the machine that stand in folders: whoever listens there would act outside of the jail. Owns finding them.

A file system that cannot be written stops nobody from talking to a server in it: Docker's, a key agent's, a database's.
The kernel's table says how whoever listens spelled his path, in his own view of the machine: who is in a jail can name any
file so. What is no socket as we see it is left in view.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

_TABLE = Path("/proc/net/unix")
_LISTENS = 0x10000
"""The kernel's mark of a socket that accepts connections."""


def listening(table: Path = _TABLE) -> tuple[Path, ...]:
    """The paths that somebody listens at, without links. Abstract sockets have none; they go with the network."""
    try:
        lines = table.read_bytes().split(b"\n")[1:]
    except OSError:
        return ()
    return tuple(dict.fromkeys(path for path in map(_real, _names(lines)) if _is_socket(path)))


def _names(lines: Iterable[bytes]) -> Iterable[bytes]:
    for line in lines:
        # Number, references, protocol, flags, type, state, inode, path. A path may hold anything, newlines too.
        parts = line.split(maxsplit=7)
        if len(parts) == 8 and parts[7].startswith(b"/") and _flags(parts[3]) & _LISTENS:
            yield parts[7]


def _flags(word: bytes) -> int:
    try:
        return int(word, 16)
    except ValueError:
        return 0


def _real(name: bytes) -> Path:
    return Path(os.fsdecode(os.path.realpath(name)))


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
