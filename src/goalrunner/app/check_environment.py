"""Choosing the check environment of a run, and describing it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.preflight import listed, warnings_before
from goalrunner.checking.environment import Kind
from goalrunner.checking.git_files import GitSettings
from goalrunner.checking.ignored_classes import classify
from goalrunner.checking.overlay import probe, scratch_candidates
from goalrunner.checking.protection import Protection
from goalrunner.checking.watchdog import replay
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.shell_programs import programs
from goalrunner.validators.check_files import check_files

DAEMONS = ("dmypy", "gradle", "gradlew", "bazel", "bazelisk", "watchman", "docker", "docker-compose", "podman")
"""Programs that do their work in a daemon outside of the check's namespace, which sees the live workspace."""
_TOX = re.compile(r"(?<![\w/.-])(?:\./)?(\.(?:tox|nox)/[\w.-]+)/")
"""The folder of an environment in a command line."""


@dataclass(frozen=True)
class Choice:
    """The kind of check environment, and why it is this one; `scratch` is where an overlay's upper layer lies."""

    kind: Kind
    why: str = ""
    scratch: Path | None = None


def needs_environment(goal: Goal) -> bool:
    """Return whether the goal has validators that run in a check environment."""
    return goal.deliverable == "workspace" and bool(goal.validators)


def choose_environment(goal: Goal, workspace: Path, home: Path) -> Choice:
    """Choose the kind of check environment, trying an overlay on the workspace itself.

    Raise UsageError if the goal forces a kind that does not work here.
    """
    wanted = goal.workspace.check
    if goal.workspace.setup or wanted == "checkout":
        return Choice("checkout", "setup is set" if goal.workspace.setup else "")
    if wanted == "in-place":
        return Choice("in-place")
    lines = (spec.run for spec in goal.validators if spec.run)
    daemon = next((item.name for line in lines for item in programs(line) if item.name in DAEMONS), "")
    if daemon and wanted is None:
        return Choice("in-place", f"{daemon} uses a daemon, which sees the live workspace")
    why, scratch = _tried(workspace, home)
    if not why:
        return Choice("overlay", scratch=scratch)
    if wanted == "overlay":
        raise UsageError(f'check = "overlay" does not work here: {why}', 'write check = "in-place", or remove the key')
    return Choice("in-place", f"no overlay here: {why}")


def _tried(workspace: Path, home: Path) -> tuple[str, Path | None]:
    """Return why no overlay works, or an empty text and the folder for its upper layer."""
    if sys.platform != "linux":
        return "overlays need Linux", None
    why = "no folder for its upper layer"
    settings = GitSettings(workspace, Path(os.devnull))
    new = [folder for folder in (home / "checks", home) if not os.path.lexists(folder)]
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for scratch in scratch_candidates(home, workspace):
            why = probe(workspace, scratch, settings.roots())
            if not why:
                return "", scratch
    except OSError as error:  # GOAL_HOME cannot be used; the run's folder is what says so
        return f"{error.filename or home}: {error.strerror}", None
    finally:
        for folder in new:  # a dry run leaves nothing behind
            with contextlib.suppress(OSError):
                folder.rmdir()
    return why, None


def check_lines(goal: Goal, choice: Choice) -> str:
    """Return how the goal is checked, in one line for people: kind, what is protected, and why it is this kind."""
    config = goal.workspace
    if config.editable:
        rules = f"only {', '.join(config.editable)} may change"
    elif config.protect:
        rules = f"protects {', '.join(config.protect)}"
    else:
        rules = "existing tests and their configuration are protected"
    why = f" ({choice.why})" if choice.why else ""
    return f"{choice.kind}{why} · {rules}"


def undo_interrupted(workspace: Path, home: Path) -> tuple[str, ...]:
    """Undo in-place checks that were cut off in a workspace, by a power cut for one; return a line about each."""
    if not (home / "checks").is_dir():
        return ()
    with ThreadPoolExecutor(1) as pool:  # an event loop may run in this thread
        return pool.submit(replay, workspace, home).result()


def dependencies_of(goal: Goal) -> tuple[str, ...]:
    """Return the patterns of dependencies: those of the goal, and environments of tox or nox that a validator names."""
    named = (path for spec in goal.validators for path in _TOX.findall(spec.run or ""))
    return tuple(dict.fromkeys((*goal.workspace.dependencies, *named)))


def goal_file_rule(goal_file: Path | None, workspace: Path) -> dict[str, str]:
    """Return the path of the goal file in the workspace, with the reason why it is protected."""
    path = goal_file.resolve() if goal_file is not None else None
    if path is None or not path.is_relative_to(workspace):
        return {}
    return {path.relative_to(workspace).as_posix(): "the goal file"}


_NAMED = 8


def describe_checks(
    goal: Goal, choice: Choice, workspace: Path, environ: Mapping[str, str], goal_file: Path | None = None
) -> Iterator[tuple[str, str]]:
    """Yield labels and texts: the kind of environment, protected files, the classes of ignored files, and warnings."""
    yield "checked in", check_lines(goal, choice)
    config = goal.workspace
    roles = (item for spec in goal.validators for item in check_files(spec, workspace).items())
    scripts = {path: "decides a validator" for path, role in roles if role in ("named", "started")}
    scripts |= goal_file_rule(goal_file, workspace)
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
