"""What `--dry-run` and `goal doctor` say about the checks of a goal, without writing anything."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalrunner.checking.ignored_classes import classify
from goalrunner.checking.protection import Protection
from goalrunner.compose.check_environment import check_lines, choose, needs_environment
from goalrunner.model.goal import Goal
from goalrunner.validators.scripts import named_paths
from goalrunner.workspace.git import ask_git
from goalrunner.workspace.names import shown

_GIT_TIMEOUT = 60.0
_NAMED = 8


def describe_checks(
    goal: Goal, workspace: Path, home: Path, environ: Mapping[str, str], goal_file: Path | None = None
) -> tuple[tuple[str, str], ...]:
    """Return labels and texts: the kind of environment, protected files, and the classes of ignored files.

    Raise UsageError if the goal forces a kind of environment that does not work here.
    """
    if not needs_environment(goal):
        return ()
    return tuple(_lines(goal, workspace, home, environ, goal_file))


def _lines(
    goal: Goal, workspace: Path, home: Path, environ: Mapping[str, str], goal_file: Path | None
) -> Iterator[tuple[str, str]]:
    yield "checked in", check_lines(goal, choose(goal, workspace, home))
    config = goal.workspace
    scripts = {path: "named by a validator" for spec in goal.validators for path in named_paths(spec, workspace)}
    if goal_file is not None and goal_file.resolve().is_relative_to(workspace):
        scripts[goal_file.resolve().relative_to(workspace).as_posix()] = "the goal file"
    protection = Protection(config.protect, config.editable, config.allow, scripts)
    paths = _listed(workspace, environ, "--cached", "--others", "--exclude-standard")
    held = [path for path in paths if protection.rule(path) and not protection.allowed(path)]
    yield "protected", _shown(held) if held else "no file"
    ignored = classify(
        workspace,
        _listed(workspace, environ, "--others", "--ignored", "--directory", "--exclude-standard"),
        config.dependencies,
    )
    for kind, label in (("dependencies", "packages"), ("build", "build"), ("other", "ignored")):
        found = [f"{item.path} ({item.why})" if kind != "other" else item.path for item in ignored if item.kind == kind]
        if found:
            yield label, _shown(found)


def _listed(workspace: Path, environ: Mapping[str, str], *arguments: str) -> list[str]:
    code, output, _ = ask_git(workspace, "ls-files", "-z", *arguments, environ=environ, timeout=_GIT_TIMEOUT)
    if code != 0:  # no repository: every file counts, and nothing is ignored
        return [] if "--ignored" in arguments else list(_walked(workspace))
    names = sorted(set(output.split(b"\0")) - {b""})
    return [os.fsdecode(name) if "--ignored" in arguments else shown(name) for name in names]


def _walked(workspace: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(workspace):
        folders[:] = sorted(name for name in folders if name not in (".git", "node_modules", ".venv"))
        for name in sorted(files):
            yield shown(os.fsencode(os.path.relpath(f"{folder}/{name}", workspace)))


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
