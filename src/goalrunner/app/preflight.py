"""What keeps a run from starting, and warnings, before anything is spent."""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.location import workspace_of
from goalrunner.core.errors import ValidatorMissing
from goalrunner.core.goal import Goal, ValidatorSpec
from goalrunner.snapshots.diff import Patterns
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.objects import shown
from goalrunner.system.launcher import SHELL
from goalrunner.validators.absent_paths import (
    TestTree,
    absent_paths,
    absent_start,
    mentions,
    runs_all_tests,
)
from goalrunner.validators.absent_programs import (
    Place,
    absent_program,
    as_written,
    sets_pipefail,
    shell_knows_pipefail,
    syntax_error,
    unstartable_script,
)
from goalrunner.validators.absent_targets import absent_targets
from goalrunner.validators.command_lint import weaknesses_of
from goalrunner.validators.spec_validator import name_of

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


_NOT_STARTED = (126, 127)


@dataclass(frozen=True)
class Finding:
    """Why a validator cannot work as it is written, and what to type."""

    message: str
    hint: str


def refuse_hopeless_validators(goal: Goal, environ: Mapping[str, str]) -> None:
    """Raise ValidatorMissing for the first validator whose command line only a person can correct."""
    finding = next(hopeless_validators(goal, environ), None)
    if finding is not None:
        raise ValidatorMissing(finding.message, finding.hint)


def hopeless_validators(goal: Goal, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what only a person can correct: a syntax error, a missing program or tool, a mistyped path."""
    workspace, said = workspace_of(goal), _said(goal)
    tree = TestTree(workspace)
    for spec in goal.validators:
        if spec.run and (why := syntax_error(spec.run)):
            first, *more = spec.run.strip().splitlines()
            hint = f'correct this line of the goal file: run = "{as_written(first)}{" ..." if more else ""}"'
            yield Finding(f"validator {name_of(spec)} is not a valid command line for {SHELL}: {why}", hint)
    for spec, place in _commands(goal, workspace, environ):
        line, name = spec.run or "", name_of(spec)
        # What `setup` installs is not there yet.
        absent = None if goal.workspace.setup else absent_program(line, place)
        if absent is not None and not (absent.is_guess and mentions(said, absent.word)):
            yield Finding(f"validator {name} cannot run here: {absent.what}", absent.line(line))
        for item in (*absent_paths(line, place, tree, said), *absent_targets(line, place, tree, said)):
            if item.mistake:
                yield Finding(f"validator {name}{item.message}", item.hint(line))
        if sets_pipefail(line) and not shell_knows_pipefail():
            what = f"validator {name} cannot run here: {SHELL} does not know `set -o pipefail`"
            yield Finding(what, _with_bash(line))
        script = unstartable_script(line, place)
        if script and not (Patterns(goal.workspace.allow).match(_inside(place, script)) or mentions(said, script)):
            yield Finding(f"validator {name} cannot run here: {script} cannot be executed", f"chmod +x {script}")


def warnings_before(goal: Goal, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each way in which a validator always passes, for each path of one that does not
    exist yet or holds no tests, and for each pattern of `protect` and `editable` that matches no file.
    """
    workspace = workspace_of(goal)
    tree = TestTree(workspace)
    found = [
        f"validator {name_of(spec)} is red until the folder {spec.cwd} exists"
        for spec in goal.validators
        if spec.run and not (spec.hidden or goal.workspace.setup or (workspace / spec.cwd).is_dir())
    ]
    found += [
        f"validator {name_of(spec)} is red until the module {module} exists, in the workspace or installed"
        for spec in goal.validators
        if spec.python and not spec.hidden and (module := _absent_module(spec.python, workspace / spec.cwd))
    ]
    for spec, place in _commands(goal, workspace, environ):
        if spec.hidden:
            continue
        found += weaknesses_of(spec, workspace)
        line, said = spec.run or "", _said(goal)
        items = (*absent_paths(line, place, tree, said), *absent_targets(line, place, tree, said))
        found += [f"validator {name_of(spec)}{item.warning}" for item in items if not item.mistake]
        start = "" if goal.workspace.setup else absent_start(line, place)
        if start and start not in (item.path for item in items):
            found.append(f"validator {name_of(spec)} is red until {start} exists")
        if not tree.files and runs_all_tests(line):
            found.append(f"validator {name_of(spec)} is red until there are tests: the workspace has no test file")
    return (*dict.fromkeys(found), *unmatched_patterns(goal, workspace, environ))


def _absent_module(target: str, folder: Path) -> str:
    """Return the top-level module of `module:function` if neither the folder nor this Python has it; else empty."""
    module = target.partition(":")[0].partition(".")[0]
    exists = (folder / module).is_dir() or (folder / f"{module}.py").is_file()
    return "" if exists or importlib.util.find_spec(module) is not None else module


def _with_bash(line: str) -> str:
    if "\n" in line:
        return 'move the lines into a script, and write "bash SCRIPT"'
    return f'write "{as_written(f"bash -c {shlex.quote(line)}")}"'


def _commands(goal: Goal, workspace: Path, environ: Mapping[str, str]) -> Iterator[tuple[ValidatorSpec, Place]]:
    for spec in goal.validators:
        if spec.run and spec.expect.exit_code not in _NOT_STARTED:
            folder = Path(os.path.realpath(workspace / spec.cwd))
            if folder.is_dir():
                yield spec, Place(workspace, folder, {**environ, **spec.env})


def _inside(place: Place, word: str) -> str:
    """Return a path of a validator's line, relative to the workspace."""
    return os.path.relpath(place.folder / word, place.workspace)


def _said(goal: Goal) -> str:
    """Return the text of the goal; a path in it may be what the work has to create."""
    return "\n".join((goal.objective, *goal.success_criteria, *goal.constraints))
