"""What Python compiled for the checks of the baseline, for the later clean checkouts of a run. Owns what may be read there.

Every checkout has a folder of compiled modules of its own, because one that the agent planted must not be believed.
At the baseline no agent has worked yet, so what was compiled there is kept, by its content, and the next checkout need
not compile every installed module again. What the checks of a later one add or change there is dropped: the code of
the agent has run beside them. The modules of the project itself are compiled anew each time.
"""

from __future__ import annotations

import os

from goalrunner.workspace.cleanroom import Checkout
from goalrunner.workspace.fingerprint import Fingerprint, take
from goalrunner.workspace.restoration import remove
from goalrunner.workspace.surroundings import compiled


class Bytecode:
    """The compiled modules of one run. Blocking: some milliseconds a call."""

    def __init__(self) -> None:
        self._known: Fingerprint | None = None

    def learn(self, room: Checkout) -> None:
        """Keep what is compiled in this room until it is closed. For the room of a baseline alone."""
        room.leaving.append(lambda: self._keep(room))

    def lend(self, room: Checkout) -> None:
        """Show what was kept to a room in which nothing ran yet, but for what is not as it was; nothing may be kept."""
        kept, here = room.root / "kept" / "bytecode", compiled(room)
        if self._known is None or kept.is_symlink() or not kept.is_dir():
            return
        kept.rename(here)
        now = take(here, self._known)
        for path, how in self._known.changes(now):
            if how != "deleted":
                (here / path).unlink()
        room.leaving.append(lambda: _move_out(room))

    def _keep(self, room: Checkout) -> None:
        seen = take(compiled(room))
        own = f"{str(room.path).lstrip(os.sep)}/"
        installed = tuple(f"{own}{name}/" for name in room.installed)
        files = {
            path: file for path, file in seen.files.items() if not path.startswith(own) or path.startswith(installed)
        }
        self._known = Fingerprint(files)
        _move_out(room)


def _move_out(room: Checkout) -> None:
    kept, here = room.root / "kept" / "bytecode", compiled(room)
    remove(kept)
    if here.is_dir() and not here.is_symlink():
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        here.rename(kept)
