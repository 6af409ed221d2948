"""Where commands are confined. Owns which folder a command may write; starts nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.ports import Confinement, Jail
from goalrunner.process.jail.mount_points import make_ready


@dataclass(frozen=True)
class Room:
    """A folder in which commands may write everything; `tmp` stands as their /tmp, and lies in no room."""

    folder: Path
    tmp: Path | None = None
    sees: tuple[Path, ...] = ()
    """Folders that stay in view for its commands, wherever they lie."""


@dataclass(frozen=True)
class Cell:
    """A jail with its rooms. A command writes the room that it starts in, and one that starts elsewhere nothing.

    `within` is what all of them have in common.
    """

    jail: Jail
    rooms: tuple[Room, ...]
    within: Confinement

    def confined(self, argv: Sequence[str], cwd: Path, shared: Sequence[Path] = ()) -> tuple[str, ...]:
        """The words that run `argv` in `cwd` confined. Raises RecordError where its /tmp cannot be made."""
        within = self.within_at(cwd, shared)
        make_ready(within)
        return self.jail.confine(argv, cwd=_real(cwd), within=within)

    def within_at(self, cwd: Path, shared: Sequence[Path] = ()) -> Confinement:
        """What a command may see and do that starts in `cwd`."""
        here = _real(cwd)
        room = next((room for room in self.rooms if here.is_relative_to(room.folder)), None)
        return replace(
            self.within,
            writable=(*self.within.writable, *map(_real, shared), *((room.folder,) if room else ())),
            readable=(*self.within.readable, *(room.sees if room else (here,))),
            tmp=room.tmp if room else None,
        )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
