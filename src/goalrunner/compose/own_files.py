"""Files in the workspace that the runner itself writes while it works: what they gain is no work of the agent's.

A recording (`--record`), and a file that stdout or stderr leads to (`goal run ... > log`). Owns finding them; writes none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from goalrunner.workspace.rules import literal

STREAMS = (1, 2)
"""Descriptors of stdout and stderr."""


def own_files(workspace: Path, tape: Path | None, streams: Iterable[int] = STREAMS) -> tuple[str, ...]:
    """A pattern, as in a .gitignore, for each of them that lies in the workspace, which is absolute and without links."""
    written = [*([Path(os.path.realpath(tape))] if tape else []), *_behind(streams)]
    inside = {path.relative_to(workspace) for path in written if path.is_relative_to(workspace)}
    return tuple(sorted("/" + os.fsdecode(literal(os.fsencode(path))) for path in inside))


def _behind(streams: Iterable[int]) -> Iterator[Path]:
    """The regular files that streams lead to, where the system names them."""
    for number in streams:
        with contextlib.suppress(OSError, ValueError):
            seen = os.fstat(number)
            if stat.S_ISREG(seen.st_mode):
                path = _name(number)
                if os.path.samestat(seen, path.stat()):
                    yield path


def _name(number: int) -> Path:
    asking = getattr(fcntl, "F_GETPATH", None)  # on macOS
    if asking is None:
        return Path(f"/proc/self/fd/{number}").readlink()
    told = fcntl.fcntl(number, asking, bytes(1024))
    return Path(os.fsdecode(told.partition(b"\0")[0])).resolve()
