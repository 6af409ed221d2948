"""The environment of what runs in a clean checkout. Owns its variables; starts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from goalrunner.workspace.cleanroom import Checkout


def environment(env: Mapping[str, str], workspace: Path, room: Checkout) -> dict[str, str]:
    """`env` for the checkout: each path in the workspace becomes the same path in the checkout.

    Python finds its compiled modules in the room alone, so that one planted in a linked folder is never read.
    """
    inside = moved(env, workspace, room)
    inside.pop("PYTHONDONTWRITEBYTECODE", None)  # else every start of Python would compile everything again
    return {**inside, "PWD": str(room.path), "PYTHONPYCACHEPREFIX": str(compiled(room))}


def moved(env: Mapping[str, str], workspace: Path, room: Checkout) -> dict[str, str]:
    """`env` with each path in the workspace as the same path in the checkout."""
    return {
        name: os.pathsep.join(_moved(part, workspace, room.path) for part in value.split(os.pathsep))
        for name, value in env.items()
    }


def compiled(room: Checkout) -> Path:
    """The folder in which Python keeps what it compiles for a room, by the paths of the sources."""
    return room.here / "pycache"


def _moved(part: str, workspace: Path, checkout: Path) -> str:
    if not part.startswith("/"):
        return part
    for spelled in (Path(os.path.normpath(part)), Path(os.path.realpath(part))):
        if spelled.is_relative_to(workspace):
            return str(checkout / spelled.relative_to(workspace))
    return part


def activated(env: Mapping[str, str], room: Checkout) -> dict[str, str]:
    """With the programs first that `setup` has installed into the checkout."""
    folders = [room.path / "node_modules" / ".bin", room.path / ".venv" / "bin", room.here / "env" / "bin"]
    path = [str(folder) for folder in reversed(folders) if folder.is_dir()] + [env.get("PATH", os.defpath)]
    active = {**env, "PATH": os.pathsep.join(path)}
    active.pop("VIRTUAL_ENV", None)
    if folders[2].is_dir():
        active["VIRTUAL_ENV"] = str(folders[2].parent)
    return active
