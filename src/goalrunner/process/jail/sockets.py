"""Sockets of the machine that stand in folders: whoever listens there would act outside of the jail. Owns finding them.

A file system that cannot be written stops nobody from talking to a server in it: Docker's, a key agent's, a database's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TABLE = Path("/proc/net/unix")
_LISTENS = 0x10000
"""The kernel's mark of a socket that accepts connections."""


def listening(table: Path = _TABLE) -> tuple[Path, ...]:
    """The paths that somebody listens at, without links. Abstract sockets have none; they go with the network."""
    try:
        lines = os.fsdecode(table.read_bytes()).splitlines()[1:]
    except OSError:
        return ()
    return tuple(dict.fromkeys(Path(os.path.realpath(name)) for name in _names(lines) if os.path.exists(name)))  # noqa: PTH110 - never raises


def _names(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        # Number, references, protocol, flags, type, state, inode, path.
        parts = line.split(maxsplit=7)
        if len(parts) == 8 and parts[7].startswith("/") and int(parts[3], 16) & _LISTENS:
            yield parts[7]
