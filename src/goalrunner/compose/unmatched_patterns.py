"""Patterns of `protect` and `editable` that match no file of the workspace: most are misspelled."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalrunner.model.goal import Goal
from goalrunner.workspace.git import ask_git
from goalrunner.workspace.names import shown
from goalrunner.workspace.patterns import Patterns

_GIT_TIMEOUT = 60.0
_MANY = 5_000
"""Paths; among more of them no similar one is looked for."""


def unmatched_patterns(goal: Goal, workspace: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each pattern of `protect` and `editable` that matches no file."""
    config = goal.workspace
    keys = (("protect", config.protect), ("editable", config.editable))
    if not any(lines for _, lines in keys):
        return ()
    paths = listed(workspace, environ, "--cached", "--others", "--exclude-standard")
    return tuple(
        f'{key}: "{line}" matches no file{_near(line, paths)}'
        for key, lines in keys
        for line in dict.fromkeys(lines)
        if not _matches(line.removeprefix("!"), workspace, paths)
    )


def _matches(line: str, workspace: Path, paths: Sequence[str]) -> bool:
    """Return whether a pattern matches a path, or lies in something that git ignores."""
    fixed = _fixed(line)
    if any(map(Patterns((line.casefold(),)).match, map(str.casefold, paths))):
        return True
    exists = bool(fixed) and os.path.lexists(workspace / fixed)
    return exists and not any(f"{path}/".startswith(f"{fixed}/") for path in paths)


def _fixed(line: str) -> str:
    """Return the folders and the name that a pattern begins with, up to the first one with a wildcard."""
    parts = re.split(r"[^/]*[*?\[\\]", line.strip("/"), maxsplit=1)
    return parts[0].strip("/")


def _near(line: str, paths: Sequence[str]) -> str:
    fixed = _fixed(line.removeprefix("!"))
    if not fixed or len(paths) > _MANY:
        return ""
    known = {*paths, *(str(folder) for path in paths for folder in Path(path).parents)}
    found = difflib.get_close_matches(fixed, sorted(known), n=1, cutoff=0.6)
    return f'; did you mean "{line.replace(fixed, found[0], 1)}"?' if found and found[0] != fixed else ""


def listed(workspace: Path, environ: Mapping[str, str], *arguments: str) -> list[str]:
    """Return what `git ls-files` names; without a repository every file, and nothing that is ignored."""
    code, output, _ = ask_git(workspace, "ls-files", "-z", *arguments, environ=environ, timeout=_GIT_TIMEOUT)
    if code != 0:
        return [] if "--ignored" in arguments else list(_walked(workspace))
    names = sorted(set(output.split(b"\0")) - {b""})
    return [os.fsdecode(name) if "--ignored" in arguments else shown(name) for name in names]


def _walked(workspace: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(workspace):
        folders[:] = sorted(name for name in folders if name not in (".git", "node_modules", ".venv"))
        for name in sorted(files):
            yield shown(os.fsencode(os.path.relpath(f"{folder}/{name}", workspace)))
