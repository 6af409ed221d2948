"""Programs that a confined command did not find although they are there. Owns telling so from what was printed; starts none."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.ports import Confinement
from goalrunner.process.jail.cell import Cell
from goalrunner.process.jail.mounts import mounts

NOT_STARTED = (126, 127)
"""Exit codes of whoever was to start a program and could not: a shell, or env."""

_TAIL = 4_000
"""Bytes at the end of what was printed that are looked at."""

_LINE = 1_000
"""Bytes of the first line of a script."""

_NOT_FOUND = re.compile(r"([^\s:'\"`‘’]+)['\"`’]?: (?:command )?(?:not found|No such file or directory)")
"""As shells and env say it of a program, or of the interpreter of a script."""


def hidden_program(said: Path, cell: Cell, cwd: Path, env: Mapping[str, str]) -> str:
    """The path of a program that was missed in the jail and is there outside of it; empty where there is none.

    `said` is the file with what the command printed, which ended with an exit code of NOT_STARTED.
    """
    within = cell.within_at(cwd)
    for name in reversed(_NOT_FOUND.findall(_tail(said))):
        path = cwd / name if "/" in name else shutil.which(name, path=env.get("PATH", os.defpath))
        if path is not None and os.access(path, os.X_OK):
            out_of_view = [one for one in (Path(path), _interpreter(Path(path))) if one and not in_view(one, within)]
            if out_of_view:
                return str(out_of_view[0])
    return ""


def hidden_path(paths: Sequence[str], cell: Cell, cwd: Path) -> str:
    """Return the first of some absolute paths, or the interpreter of a script among them, that a jail does not show.

    Paths that do not exist outside of the jail either are passed over.
    """
    within = cell.within_at(cwd)
    for path in map(Path, paths):
        for one in (path, _interpreter(path)):
            if one is not None and one.exists() and not in_view(one, within):
                return str(one)
    return ""


def in_view(path: Path, within: Confinement) -> bool:
    """Whether a confined command finds what lies at an absolute path, and what a link there leads to."""
    laid = mounts(within)
    for spelled in (Path(os.path.normpath(path)), Path(os.path.realpath(path))):
        innermost = [mount for mount in laid if spelled.is_relative_to(mount.path)][-1]
        there = innermost.source / spelled.relative_to(innermost.path)
        if innermost.kind == "hidden" or not os.path.lexists(there):
            return False
    return True


def _interpreter(script: Path) -> Path | None:
    """Who runs a script, where that is somebody who is there; None for what is no script."""
    try:
        with script.open("rb") as file:
            words = file.readline(_LINE).split() if file.read(2) == b"#!" else []
    except OSError:
        return None
    path = Path(os.fsdecode(words[0])) if words else None
    return path if path is not None and path.is_absolute() and os.access(path, os.X_OK) else None


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            return file.read(_TAIL).decode(errors="replace")
    except OSError:
        return ""
