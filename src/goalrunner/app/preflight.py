"""What is examined before a run: the check environment, commands and patterns."""

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
from goalrunner.checking.undo import undo_checks
from goalrunner.core.errors import UsageError, ValidatorMissing, some
from goalrunner.core.goal import Goal, activity_warning
from goalrunner.core.shell_programs import programs
from goalrunner.core.tools import DAEMONS
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.paths import printable_path
from goalrunner.snapshots.patterns import CACHES, Patterns
from goalrunner.snapshots.store_folder import store_of
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
    """The kind of check environment, and why it is this one.

    `scratch` is the folder for the upper layer of an overlay.
    """

    kind: Kind
    why: str = ""
    scratch: Path | None = None

    def __str__(self) -> str:
        return f"{self.kind} ({self.why})" if self.why else self.kind


def needs_environment(goal: Goal) -> bool:
    """Return whether the goal has validators that run in a check environment."""
    return goal.deliverable == "workspace" and bool(goal.validators)


def choose_environment(
    goal: Goal, workspace: Path, home: Path, store: Path | None = None
) -> EnvironmentChoice:
    """Choose the kind of check environment, trying an overlay.

    In a copy of the workspace, `store` is the folder of its own snapshot store.

    Raise UsageError if the goal forces one that does not work.
    """
    choice = _working_kind(goal, workspace, home)
    store = store or store_of(workspace.resolve(), home)
    is_in_place = choice.kind == "in-place"
    if goal.workspace.setup and is_in_place and not was_set_up(store, home):
        _refuse_ignored(workspace, choice.why or 'the goal says check = "in-place"')
    return choice


def _refuse_ignored(workspace: Path, why: str) -> None:
    """Raise UsageError if the workspace has files that git ignores.

    In place, `setup` cannot be run without them.
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
    ignored: list[str] = []
    for name in names:
        # A folder is named with a slash at its end; a pattern may match only the files
        # in it.
        if not caches.match(name) and not caches.match(f"{name}x"):
            ignored.append(name)
    if ignored:
        raise UsageError(
            "setup installs without the files that git ignores, which needs an "
            f"overlay ({why}), or a fresh clone: {some(sorted(ignored), 3)} must not "
            "exist",
            "remove setup, and the validators use the packages of the workspace; or "
            "run in a new clone of it",
        )


def _working_kind(goal: Goal, workspace: Path, home: Path) -> EnvironmentChoice:
    forced = goal.workspace.check
    if forced == "in-place":
        return EnvironmentChoice("in-place")
    daemon = _daemon_of(goal)
    # A daemon does not see the namespace in which the overlay is.
    if daemon and forced is None:
        return EnvironmentChoice(
            "in-place", f"{daemon} uses a daemon, which sees the live workspace"
        )
    why, scratch = _tried(workspace, home)
    if not why:
        return EnvironmentChoice("overlay", scratch=scratch)
    if forced == "overlay":
        raise UsageError(
            f'check = "overlay" does not work here: {why}',
            'write check = "in-place", or remove the key',
        )
    return EnvironmentChoice("in-place", f"no overlay here: {why}")


def why_clone(goal: Goal) -> str:
    """Return why a copy for a run of this goal must be a clone; empty if it need not.

    A daemon would check the workspace itself instead of an overlay at its path.
    """
    if goal.workspace.isolate == "clone":
        return 'the goal says isolate = "clone"'
    daemon = _daemon_of(goal)
    if daemon and goal.workspace.check != "overlay":
        return f"{daemon} uses a daemon, which does not see an overlay"
    return ""


def _daemon_of(goal: Goal) -> str:
    """Return the first program of the validators that lets a daemon work; or empty."""
    for spec in goal.validators:
        for program in programs(spec.run) if spec.run else ():
            if program.name in DAEMONS:
                return program.name
    return ""


def _tried(workspace: Path, home: Path) -> tuple[str, Path | None]:
    """Return why no overlay works; else an empty text and the folder for writes."""
    if sys.platform != "linux":
        return "overlays need Linux", None
    why = "no file system for its upper layer that is no overlay itself"
    new = [folder for folder in (home / "checks", home) if not os.path.lexists(folder)]
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for scratch in scratch_candidates(home, workspace):
            git = GitSettings(workspace, Path(os.devnull))
            why = probe(workspace, scratch, git.roots())
            if not why:
                return "", scratch
    except OSError as error:
        # GOAL_HOME cannot be used; making the run's folder reports it.
        return f"{error.filename or home}: {error.strerror}", None
    finally:
        # A dry run must leave nothing behind.
        for folder in new:
            with contextlib.suppress(OSError):
                folder.rmdir()
    return why, None


def checks_line(goal: Goal, choice: EnvironmentChoice) -> str:
    """Return how the goal is checked, in one line for people.

    It has the kind of environment and why it is this one, and what is protected.
    """
    config = goal.workspace
    rules = "existing tests and their configuration are protected"
    if config.editable:
        rules = f"only {', '.join(config.editable)} may change"
    elif config.protect:
        rules = f"protects {', '.join(config.protect)}"
    installed = ", with what setup installs" if config.setup else ""
    return f"{choice}{installed} · {rules}"


def undo_interrupted(
    workspace: Path, home: Path, store: Path | None = None
) -> tuple[str, ...]:
    """Undo in-place checks that were cut off in a workspace; return a line about each.

    A power cut may be the reason, for example. In a copy of the workspace, `store` is
    the folder of its own snapshot store.
    """
    if not (home / "checks").is_dir():
        return ()
    # An event loop may run in this thread, and `undo_checks` runs one of its own.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(undo_checks, workspace, home, store=store).result()


def goal_file_rule(goal_file: Path | None, workspace: Path) -> dict[str, str]:
    """Return the path of the goal file in the workspace, and why it is protected."""
    path = goal_file.resolve() if goal_file is not None else None
    # The agent does not deliver a file outside of the workspace.
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
    """Yield labels and texts about the checks of a goal.

    They are about the kind of environment, protected files, and the classes of ignored
    files.
    """
    yield "checked in", checks_line(goal, choice)
    config = goal.workspace
    started = started_checks(goal.validators, workspace)
    rules = started.rules | goal_file_rule(goal_file, workspace)
    protection = Protection(config.protect, config.editable, config.allow, rules)
    paths = listed_files(
        workspace, environ, "--cached", "--others", "--exclude-standard"
    )
    # Nothing has run yet, so only the command lines show what the checks use.
    observed = observed_checks((), started)
    protected = protection.with_observed(observed, StartFiles(paths)).protected()
    groups = protected_groups(sorted(protected), paths)
    yield "protected", some(groups, _NAMED) if groups else "no file"
    names = listed_files(
        workspace, environ, "--others", "--ignored", "--directory", "--exclude-standard"
    )
    ignored = Classifier(workspace, names, config.dependencies)
    for label, ignored_paths in _ignored_by_label(ignored).items():
        if ignored_paths:
            yield label, some(sorted(ignored_paths), _NAMED)


def _ignored_by_label(ignored: Classifier) -> dict[str, list[str]]:
    """Return ignored paths by the label of their class."""
    packages: list[str] = []
    build: list[str] = []
    others = list(ignored.others)
    for item in ignored.classified:
        if item.kind == "dependencies":
            packages.append(f"{item.path} ({item.why})")
        elif item.kind == "build":
            build.append(f"{item.path} ({item.why})")
        else:
            others.append(item.path)
    return {"packages": packages, "build": build, "ignored": others}


def unmatched_patterns(
    goal: Goal, workspace: Path, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return a sentence for each pattern that matches no file of the repository.

    Patterns are those of `protect` and `editable`.
    """
    config = goal.workspace
    if not (config.protect or config.editable):
        return ()
    _, output, _ = ask_git(
        workspace, "rev-parse", "--show-prefix", environ=environ, timeout=60.0
    )
    # The path of the workspace is no pattern.
    prefix = re.sub(r"([\\*?\[])", r"\\\1", os.fsdecode(output).rstrip("\n"))
    sentences: list[str] = []
    for key, lines in (("protect", config.protect), ("editable", config.editable)):
        for line in dict.fromkeys(lines):
            pattern = line.removeprefix("!")
            if "/" in pattern.rstrip("/"):
                # git takes such a pattern from the top of the repository.
                pattern = f"/{prefix}{pattern.removeprefix('/')}"
            code, files, _ = ask_git(
                workspace,
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--ignored",
                f"--exclude={pattern}",
                environ=environ,
                timeout=60.0,
                # A pattern that differs from a path only in case is no reason to warn.
                settings={"core.ignoreCase": "true"},
            )
            if code == 0 and not files:
                sentences.append(f'{key}: "{line}" matches no file')
    return tuple(sentences)


def listed_files(
    workspace: Path, environ: Mapping[str, str], *arguments: str
) -> list[str]:
    """Return the names that `git ls-files` prints.

    Without a repository, these are all files, and no ignored ones.
    """
    is_ignored = "--ignored" in arguments
    code, output, _ = ask_git(
        workspace, "ls-files", "-z", *arguments, environ=environ, timeout=60.0
    )
    if code == 0:
        names = sorted(set(output.split(b"\0")) - {b""})
        return [os.fsdecode(n) if is_ignored else printable_path(n) for n in names]
    return [] if is_ignored else _walked_files(workspace)


def _walked_files(workspace: Path) -> list[str]:
    """Return the paths of all files, without large folders that tools make."""
    paths: list[str] = []
    for folder, folders, files in os.walk(workspace):
        # `os.walk` enters the folders that are left in this list.
        folders[:] = sorted({*folders} - {".git", "node_modules", ".venv"})
        for name in sorted(files):
            path = os.path.relpath(f"{folder}/{name}", workspace)
            paths.append(printable_path(os.fsencode(path)))
    return paths


def refuse_invalid_commands(goal: Goal, environ: Mapping[str, str]) -> None:
    """Raise ValidatorMissing for a command line that cannot work here.

    The shell cannot parse it, or its first program is not on PATH.
    """
    workspace = workspace_of(goal)
    named = [(f"validator {name_of(spec)}", spec) for spec in goal.validators]
    if goal.scoring is not None:
        # A critic is a command line as well.
        named.append((f"[{goal.scoring.name}]", goal.scoring))
    for name, spec in named:
        if not spec.run:
            continue
        _refuse_syntax_error(name, spec.run)
        expects_no_program = spec.expect.exit_code in _NOT_STARTED
        if expects_no_program or goal.workspace.setup:
            # What `setup` installs does not exist yet.
            continue
        folder = Path(os.path.realpath(workspace / spec.cwd))
        place = CheckPlace(workspace, folder, {**environ, **spec.env})
        missing = missing_program(spec.run, place)
        if missing:
            raise ValidatorMissing(
                f"{name} cannot run here: {missing.message}", missing.hint
            )


def _refuse_syntax_error(name: str, command: str) -> None:
    why = syntax_error(command)
    if not why:
        return
    first, *more = command.strip().splitlines()
    line = json.dumps(first + (" ..." if more else ""))
    raise ValidatorMissing(
        f"{name} is not a valid command line for {SHELL}: {why}",
        f"correct this line of the goal file: run = {line}",
    )


def warnings_before(goal: Goal, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return warnings for people before round 1.

    They are about the objective, weak validators, and patterns without a file.
    """
    workspace = workspace_of(goal)
    warnings: dict[str, None] = {}
    # The agent would read about hidden ones.
    visible = [spec for spec in goal.validators if not spec.hidden]
    for spec in visible:
        warnings |= dict.fromkeys(weaknesses_of(spec))
    for spec in visible:
        warnings[missing_callable(spec, workspace)] = None
    patterns = unmatched_patterns(goal, workspace, environ)
    return tuple(filter(None, (activity_warning(goal), *warnings, *patterns)))
