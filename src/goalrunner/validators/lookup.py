"""Where the programs of a check are looked up, and which of the workspace they are. Owns that reading; starts nothing.

A program is named in the line itself, before others (`env`, `uv`), or by the first line of a script.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from goalrunner.model.goal import ValidatorSpec
from goalrunner.validators.programs import programs
from goalrunner.validators.scripts import named_paths
from goalrunner.workspace.lookup import entries

_ASSIGNED = "PATH="
_FIRST_LINE = 256


def searched(spec: ValidatorSpec, env: Mapping[str, str], workspace: Path) -> tuple[tuple[str, Path], ...]:
    """Every PATH that programs of the check are looked up by, with the folder in which that happens."""
    root = Path(os.path.realpath(workspace))
    start = Path(os.path.normpath(root / spec.cwd))
    own = spec.env.get("PATH", env.get("PATH", os.defpath))
    found = {(own, start): None}
    for program in programs(spec.run or ""):
        for folder in (program.folder, ""):
            here = Path(os.path.normpath(start / folder))
            given = (word for word in (*program.assignments, *program.words) if word.startswith(_ASSIGNED))
            found |= dict.fromkeys((text, here) for text in (own, *(_plain(word, own) for word in given)) if text)
    return tuple(found)


def named_programs(spec: ValidatorSpec, env: Mapping[str, str], workspace: Path) -> tuple[str, ...]:
    """Workspace-relative paths of the programs there that the check is started by, sorted: they are its ruler, too."""
    root = Path(os.path.realpath(workspace))
    found: set[Path] = set()
    ways = searched(spec, env, workspace)
    for name in names(spec, workspace):
        # A path is looked up from the folder alone.
        places = (
            [here for _, here in ways] if "/" in name else [at for text, here in ways for at in entries(text, here)]
        )
        for place in places:
            path = Path(os.path.normpath(place / name))
            if path.is_file() and os.access(path, os.X_OK):
                found.update(each for each in (path, Path(os.path.realpath(path))) if each.is_relative_to(root))
    return tuple(sorted(path.relative_to(root).as_posix() for path in found))


def names(spec: ValidatorSpec, workspace: Path) -> tuple[str, ...]:
    """The programs that the check is started by, as they are written: "pytest", "env", "/usr/bin/python3"."""
    line = (name for program in programs(spec.run or "") for name in (*program.through, *_word(program.words)))
    scripts = (name for path in named_paths(spec, workspace) for name in _interpreters(Path(workspace, path)))
    return tuple(dict.fromkeys((*line, *scripts)))


def _word(words: tuple[str, ...]) -> tuple[str, ...]:
    return words[:1] if words and "$" not in words[0] else ()


def _plain(assigned: str, own: str) -> str:
    """The entries of `PATH=bin:$PWD/tools:$PATH` that can be known; `own` is what PATH was before."""
    known = []
    for entry in assigned.removeprefix(_ASSIGNED).split(os.pathsep):
        plain = entry.removeprefix("$PWD/").removeprefix("${PWD}/")
        known += own.split(os.pathsep) if entry in ("$PATH", "${PATH}") else [plain] if "$" not in plain else []
    return os.pathsep.join(known)


def _interpreters(script: Path) -> Iterator[str]:
    """What the first line of a script starts: `#!/usr/bin/env -S python3 -u` is env and python3."""
    try:
        with script.open("rb") as file:
            first = file.readline(_FIRST_LINE).decode(errors="replace")
        words = shlex.split(first.removeprefix("#!")) if first.startswith("#!") else []
    except (OSError, ValueError):
        return
    yield from words[:1]
    if words and Path(words[0]).name == "env":
        yield from [word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]
