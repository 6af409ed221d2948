"""Before a run: the kind of check environment, what keeps the run from starting, and
warnings.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.protected_files import protected_groups
from goalrunner.app.sandbox import workspace_of
from goalrunner.checking.environment import Kind
from goalrunner.checking.git_files import GitSettings
from goalrunner.checking.ignored_classes import Classifier
from goalrunner.checking.overlay import probe, scratch_candidates
from goalrunner.checking.protection import GOAL_FILE, Protection
from goalrunner.checking.setup import was_set_up
from goalrunner.checking.start_files import StartFiles
from goalrunner.checking.undo import replay
from goalrunner.core.errors import UsageError, ValidatorMissing, some
from goalrunner.core.goal import Goal, activity_warning
from goalrunner.core.shell_programs import programs
from goalrunner.core.tools import DAEMONS
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.paths import printable_path
from goalrunner.snapshots.patterns import CACHES, Patterns
from goalrunner.system.launcher import SHELL
from goalrunner.validators.missing_programs import missing_program, syntax_error
from goalrunner.validators.observed_checks import observed_checks
from goalrunner.validators.spec_validator import CheckPlace, name_of
from goalrunner.validators.started_checks import started_checks
from goalrunner.validators.weaknesses import missing_callable, weaknesses_of

_NAMED = 8  # paths that a line of `describe_checks` names
_NOT_STARTED = (126, 127)  # exit codes of a shell that could not start a program


@dataclass(frozen=True)
class EnvironmentChoice:
    """The kind of check environment, and why it is this one; `scratch` is where an
    overlay's upper layer lies.
    """

    kind: Kind
    why: str = ""
    scratch: Path | None = None

    def __str__(self) -> str:
        return f"{self.kind} ({self.why})" if self.why else self.kind


def needs_environment(goal: Goal) -> bool:
    """Return whether the goal has validators that run in a check environment."""
    return goal.deliverable == "workspace" and bool(goal.validators)


def choose_environment(goal: Goal, workspace: Path, home: Path) -> EnvironmentChoice:
    """Choose the kind of check environment, trying an overlay.

    Raise UsageError if the goal forces one that does not work.
    """
    choice = _kind_here(goal, workspace, home)
    if (
        goal.workspace.setup
        and choice.kind == "in-place"
        and not was_set_up(workspace, home)
    ):
        _refuse_ignored(workspace, choice.why or 'the goal says check = "in-place"')
    return choice


def _refuse_ignored(workspace: Path, why: str) -> None:
    """Raise UsageError if the workspace has ignored files, which `setup` cannot do
    without in place.
    """
    names = listed_files(
        workspace,
        os.environ,
        "--others",
        "--ignored",
        "--directory",
        "--exclude-standard",
    )
    caches = Patterns(CACHES, builtin=True)
    if found := sorted(
        name
        for name in names
        if not caches.match(name) and not caches.match(f"{name}x")
    ):
        raise UsageError(
            "setup installs without the files that git ignores, which needs an "
            f"overlay ({why}), or a fresh clone: "
            f"{some(found, 3)} must not exist",
            "remove setup, and the validators use the packages of the workspace; or "
            "run in a new clone of it",
        )


def _kind_here(goal: Goal, workspace: Path, home: Path) -> EnvironmentChoice:
    wanted = goal.workspace.check
    if wanted == "in-place":
        return EnvironmentChoice("in-place")
    lines = (spec.run for spec in goal.validators if spec.run)
    daemon = next(
        (
            item.name
            for line in lines
            for item in programs(line)
            if item.name in DAEMONS
        ),
        "",
    )
    if daemon and wanted is None:
        return EnvironmentChoice(
            "in-place", f"{daemon} uses a daemon, which sees the live workspace"
        )
    why, scratch = _tried(workspace, home)
    if not why:
        return EnvironmentChoice("overlay", scratch=scratch)
    if wanted == "overlay":
        raise UsageError(
            f'check = "overlay" does not work here: {why}',
            'write check = "in-place", or remove the key',
        )
    return EnvironmentChoice("in-place", f"no overlay here: {why}")


def _tried(workspace: Path, home: Path) -> tuple[str, Path | None]:
    """Return why no overlay works; else an empty text and the folder for writes."""
    if sys.platform != "linux":
        return "overlays need Linux", None
    why = "no folder for its upper layer"
    new = [folder for folder in (home / "checks", home) if not os.path.lexists(folder)]
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for scratch in scratch_candidates(home, workspace):
            why = probe(
                workspace, scratch, GitSettings(workspace, Path(os.devnull)).roots()
            )
            if not why:
                return "", scratch
    # GOAL_HOME cannot be used; making the run's folder reports it.
    except OSError as error:
        return f"{error.filename or home}: {error.strerror}", None
    finally:
        for folder in new:  # a dry run leaves nothing behind
            with contextlib.suppress(OSError):
                folder.rmdir()
    return why, None


def checks_line(goal: Goal, choice: EnvironmentChoice) -> str:
    """Return how the goal is checked, in one line for people: kind, what is protected,
    and why it is this kind.
    """
    config = goal.workspace
    if config.editable:
        rules = f"only {', '.join(config.editable)} may change"
    elif config.protect:
        rules = f"protects {', '.join(config.protect)}"
    else:
        rules = "existing tests and their configuration are protected"
    return (
        f"{choice}, with what setup installs · {rules}"
        if config.setup
        else f"{choice} · {rules}"
    )


def undo_interrupted(workspace: Path, home: Path) -> tuple[str, ...]:
    """Undo in-place checks that were cut off in a workspace, by a power cut for one;
    return a line about each.
    """
    if not (home / "checks").is_dir():
        return ()
    with ThreadPoolExecutor(1) as pool:  # an event loop may run in this thread
        return pool.submit(replay, workspace, home).result()


def goal_file_rule(goal_file: Path | None, workspace: Path) -> dict[str, str]:
    """Return the path of the goal file in the workspace, with the reason why it is
    protected.
    """
    path = goal_file.resolve() if goal_file is not None else None
    if path is None or not path.is_relative_to(workspace):
        return {}
    return {path.relative_to(workspace).as_posix(): GOAL_FILE}


def describe_checks(
    goal: Goal,
    choice: EnvironmentChoice,
    workspace: Path,
    environ: Mapping[str, str],
    goal_file: Path | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield labels and texts: the kind of environment, protected files, and the classes
    of ignored files.
    """
    yield "checked in", checks_line(goal, choice)
    config = goal.workspace
    started = started_checks(goal.validators, workspace)
    rules = started.rules | goal_file_rule(goal_file, workspace)
    protection = Protection(config.protect, config.editable, config.allow, rules)
    paths = listed_files(
        workspace, environ, "--cached", "--others", "--exclude-standard"
    )
    held = sorted(
        protection.with_observed(
            observed_checks((), started), StartFiles(paths)
        ).protected()
    )
    yield (
        "protected",
        some(protected_groups(held, paths), _NAMED) if held else "no file",
    )
    names = listed_files(
        workspace, environ, "--others", "--ignored", "--directory", "--exclude-standard"
    )
    ignored = Classifier(workspace, names, config.dependencies)
    named = {
        "packages": list[str](),
        "build": list[str](),
        "ignored": list(ignored.others),
    }
    for item in ignored.classified:
        label = (
            "packages"
            if item.kind == "dependencies"
            else "build"
            if item.kind == "build"
            else "ignored"
        )
        named[label].append(
            item.path if item.kind == "other" else f"{item.path} ({item.why})"
        )
    yield from (
        (label, some(sorted(paths), _NAMED)) for label, paths in named.items() if paths
    )


def unmatched_patterns(
    goal: Goal, workspace: Path, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return a sentence for each pattern of `protect` and `editable` that matches no
    file of the repository.
    """
    config, found = goal.workspace, []
    if not (config.protect or config.editable):
        return ()
    above = ask_git(
        workspace, "rev-parse", "--show-prefix", environ=environ, timeout=60.0
    )[1]
    prefix = re.sub(r"([\\*?\[])", r"\\\1", os.fsdecode(above).rstrip("\n"))
    for key, lines in (("protect", config.protect), ("editable", config.editable)):
        for line in dict.fromkeys(lines):
            pattern = line.removeprefix("!")
            # Git takes it from the top of the repository.
            if "/" in pattern.rstrip("/"):
                pattern = f"/{prefix}{pattern.removeprefix('/')}"
            command = (
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--ignored",
                f"--exclude={pattern}",
            )
            any_case = {"core.ignoreCase": "true"}
            code, files, _ = ask_git(
                workspace, *command, environ=environ, timeout=60.0, settings=any_case
            )
            if code == 0 and not files:
                found.append(f'{key}: "{line}" matches no file')
    return tuple(found)


def listed_files(
    workspace: Path, environ: Mapping[str, str], *arguments: str
) -> list[str]:
    """Return the names that `git ls-files` prints.

    Without a repository, these are all files, and no ignored ones.
    """
    code, output, _ = ask_git(
        workspace, "ls-files", "-z", *arguments, environ=environ, timeout=60.0
    )
    if code == 0:
        names = sorted(set(output.split(b"\0")) - {b""})
        return [
            os.fsdecode(name) if "--ignored" in arguments else printable_path(name)
            for name in names
        ]
    found = []
    for folder, folders, files in (
        os.walk(workspace) if "--ignored" not in arguments else ()
    ):
        folders[:] = sorted(
            name for name in folders if name not in (".git", "node_modules", ".venv")
        )
        found += [
            printable_path(os.fsencode(os.path.relpath(f"{folder}/{name}", workspace)))
            for name in sorted(files)
        ]
    return found


def refuse_invalid_commands(goal: Goal, environ: Mapping[str, str]) -> None:
    """Raise ValidatorMissing for a line that the shell cannot parse, or whose first
    program is not on PATH.
    """
    workspace = workspace_of(goal)
    named = [(f"validator {name_of(spec)}", spec) for spec in goal.validators]
    if goal.scoring is not None:
        named.append((f"[{goal.scoring.name}]", goal.scoring))
    for name, spec in named:
        if spec.run and (why := syntax_error(spec.run)):
            first, *more = spec.run.strip().splitlines()
            hint = (
                "correct this line of the goal file: run = "
                f"{json.dumps(first + (' ...' if more else ''))}"
            )
            raise ValidatorMissing(
                f"{name} is not a valid command line for {SHELL}: {why}", hint
            )
        # What `setup` installs is not there yet.
        if (
            spec.run
            and spec.expect.exit_code not in _NOT_STARTED
            and not goal.workspace.setup
        ):
            folder = Path(os.path.realpath(workspace / spec.cwd))
            if missing := missing_program(
                spec.run, CheckPlace(workspace, folder, {**environ, **spec.env})
            ):
                raise ValidatorMissing(
                    f"{name} cannot run here: {missing.message}", missing.hint
                )


def warnings_before(goal: Goal, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return warnings for people before round 1: about the objective, weak validators,
    and patterns without a file.
    """
    workspace = workspace_of(goal)
    shown = [spec for spec in goal.validators if not spec.hidden]
    weak = (text for spec in shown for text in weaknesses_of(spec))
    missing = (missing_callable(spec, workspace) for spec in shown)
    patterns = unmatched_patterns(goal, workspace, environ)
    return tuple(
        filter(
            None, (activity_warning(goal), *dict.fromkeys((*weak, *missing)), *patterns)
        )
    )
