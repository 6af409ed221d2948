"""The program of a judge, and the files that change how it answers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from goalrunner.core.agent_preset import Preset
from goalrunner.system.launcher import program_outside


def watched_files(preset: Preset, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the watched files that exist by path, with the SHA-256 of their content.

    Of a folder, all files below it are watched.
    """
    digests: dict[str, str] = {}
    for path in watched_paths(preset, environ):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                digests[str(file)] = _digest(file)
    return digests


def watched_paths(preset: Preset, environ: Mapping[str, str]) -> list[Path]:
    """Return the watched paths, which may not exist."""
    home = Path(environ.get("HOME") or "/")
    # Some programs look for the same files in the folders above the one in which they
    # run, and a judge runs in a temporary folder.
    temporary = Path(os.path.realpath(tempfile.gettempdir()))
    paths: list[Path] = []
    for folder in (temporary, *temporary.parents):
        paths += [folder / name for name in preset.judge.watched]
    for name in preset.judge.watched:
        path = home / name
        # A variable such as CLAUDE_CONFIG_DIR may name a folder in place of one below
        # HOME.
        for variable, folder_name in preset.judge.folders.items():
            replacement = environ.get(variable, "")
            replaced = home / folder_name
            if Path(replacement).is_absolute() and path.is_relative_to(replaced):
                path = Path(replacement, path.relative_to(replaced))
        paths.append(path)
    return paths


def _digest(file: Path) -> str:
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        # A file that becomes readable or unreadable counts as changed.
        return f"unreadable: {error.strerror}"


def changed_file(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the first path that was added, removed or changed, or ""."""
    for path in sorted({*before, *now}):
        if before.get(path) != now.get(path):
            return path
    return ""


def program_path(
    preset: Preset, environ: Mapping[str, str], workspaces: Sequence[Path]
) -> str:
    """Return the path of the judge's program, outside of the workspaces, or ""."""
    program = preset.judge.argv[0]
    if "/" not in program:
        program_in_path = program_outside(program, environ, workspaces)
        return _resolved(program_in_path) if program_in_path else ""
    path = Path(program).expanduser()
    if not path.is_absolute() or not _is_usable(path, workspaces):
        return ""
    return _resolved(path)


def _is_usable(path: Path, workspaces: Sequence[Path]) -> bool:
    """Return whether a path is a program that no agent could have written."""
    real = Path(os.path.realpath(path))
    if not real.is_file() or not os.access(real, os.X_OK):
        return False
    roots = [os.path.realpath(folder) for folder in workspaces]
    return not any(real.is_relative_to(root) for root in roots)


def _resolved(path: Path) -> str:
    """Return the real path of a program.

    A program with several links to one file, such as `busybox`, works by the name under
    which it was started. Of such a program, the path of the link is returned.
    """
    real = os.path.realpath(path)
    if not path.is_symlink():
        return real
    siblings = [os.path.realpath(entry) for entry in path.parent.iterdir()]
    return str(path) if siblings.count(real) > 1 else real
