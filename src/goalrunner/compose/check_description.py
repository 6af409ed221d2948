"""What `--dry-run` and `goal doctor` say about the checks of a goal, without writing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalrunner.checking.ignored_classes import classify
from goalrunner.checking.protection import Protection
from goalrunner.compose.check_environment import check_lines, choose, dependencies_of, needs_environment
from goalrunner.compose.preflight import warnings_before
from goalrunner.compose.unmatched_patterns import listed
from goalrunner.model.goal import Goal
from goalrunner.validators.check_files import check_files

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
    roles = (item for spec in goal.validators for item in check_files(spec, workspace).items())
    scripts = {path: "decides a validator" for path, role in roles if role in ("named", "started")}
    if goal_file is not None and goal_file.resolve().is_relative_to(workspace):
        scripts[goal_file.resolve().relative_to(workspace).as_posix()] = "the goal file"
    protection = Protection(config.protect, config.editable, config.allow, scripts)
    paths = listed(workspace, environ, "--cached", "--others", "--exclude-standard")
    held = [path for path in paths if protection.rule(path) and not protection.allowed(path)]
    yield "protected", _shown(held) if held else "no file"
    ignored = classify(
        workspace,
        listed(workspace, environ, "--others", "--ignored", "--directory", "--exclude-standard"),
        dependencies_of(goal),
    )
    for kind, label in (("dependencies", "packages"), ("build", "build"), ("other", "ignored")):
        found = [f"{item.path} ({item.why})" if kind != "other" else item.path for item in ignored if item.kind == kind]
        if found:
            yield label, _shown(found)
    for warning in warnings_before(goal, environ):
        yield "warning", warning


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
