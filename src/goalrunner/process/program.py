"""Finding a program that nobody but the machine's owner can have put there. Owns that search alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

SHELL = "/bin/sh"
"""By its path: a PATH may begin in the workspace, where an agent can put a `sh`."""


def program_outside(name: str, environ: Mapping[str, str], folders: Iterable[Path]) -> Path | None:
    """The first program of that name on PATH: no relative entry, and neither it nor its folder within `folders`."""
    roots = [Path(os.path.realpath(folder)) for folder in folders]
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(entry, name)
        places = (path.resolve(), path.parent.resolve())
        inside = any(place.is_relative_to(root) for place in places for root in roots)
        if path.is_absolute() and os.path.isfile(path) and os.access(path, os.X_OK) and not inside:  # noqa: PTH113 - never raises
            return path
    return None
