"""The places in a private /tmp and a private home over which something else is laid. Owns making them anew each time.

Commands write there, so a name may have become a link by which the next mount would land elsewhere. Nobody lives in the
jail when they are made.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from goalrunner.errors import RecordError
from goalrunner.ports import Confinement
from goalrunner.process.jail.mounts import TMP, mounts


def make_ready(within: Confinement) -> None:
    """Make the folders that stand as /tmp and as home, with a place for everything laid over them. Raises RecordError."""
    stands = [(TMP, within.tmp)] if within.tmp is not None else []
    stands += [within.home] if within.home is not None else []
    try:
        for _, private in stands:
            private.mkdir(mode=0o700, parents=True, exist_ok=True)
        for mount in mounts(within):
            # The last that holds it is the innermost.
            of_it = [(place, private) for place, private in stands if place in mount.path.parents]
            for place, private in of_it[-1:]:
                _make(private, mount.path.relative_to(place).parts, is_folder=mount.is_folder)
    except OSError as error:
        told = f"cannot make {error.filename}: {error.strerror}"
        raise RecordError(told, "free some space, or set GOAL_HOME") from error


def _make(root: Path, parts: tuple[str, ...], *, is_folder: bool) -> None:
    path = root
    for at, part in enumerate(parts, start=1):
        path = path / part
        wants_folder = is_folder or at < len(parts)
        if path.is_symlink() or (path.exists() and path.is_dir() is not wants_folder):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if wants_folder:
            path.mkdir(mode=0o700, exist_ok=True)
        else:
            path.touch(mode=0o600)
