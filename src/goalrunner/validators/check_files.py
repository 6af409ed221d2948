"""The files that a check consists of, as they were at the start of a run."""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from goalrunner.checking.protection import BEFORE, COMPARED
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.goal import ValidatorSpec
from goalrunner.core.shell_programs import SHELLS, Program, programs
from goalrunner.records.run_folder import write_whole
from goalrunner.validators.script_text import (
    MAKEFILES,
    included,
    makefile_in,
    named_by,
    named_paths,
    recipes,
    scripts_called,
    targets_by_name,
    text_of,
)
from goalrunner.validators.spec_validator import variables_named

Role = Literal["named", "compared", "started", "before"]
"""Why a path belongs to a validator: it is named, it is named and its output alone is compared, so that it may be the work
itself; it is started by a script; or it does not exist and would be found before a file of the check."""

_DEEPEST = 3
_COMPARES = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "jq"})
_CHECKS = re.compile(r"(?:^|[_.-])(?:check|test|verify|validate|lint|ci)s?(?:[_.-]|$)", re.IGNORECASE)
_SHELL = re.compile(r"#!.*\b(?:sh|bash|dash|zsh|ksh)\b")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+)((?:\s*,\s*\w+)*)", re.MULTILINE)
_MAKE = frozenset({"make", "gmake"})
_ELSEWHERE = ("-f", "--file", "--makefile", "-C", "--directory")
_INSTALLED = frozenset({"pytest", "coverage", "mypy", "ruff", "tox", "nox"}) | sys.stdlib_module_names


def check_files(spec: ValidatorSpec, workspace: Path) -> dict[str, Role]:
    """Return the workspace-relative paths that decide a validator's result, sorted, each with its role."""
    found = _Found(workspace)
    found.follow(spec.run or "", spec.cwd)
    if spec.python is not None:
        found.shadows.update(_earlier(spec.python.partition(":")[0], spec.cwd, workspace))
    roles: dict[str, Role] = dict.fromkeys(found.shadows, "before")
    roles |= dict.fromkeys(found.started, "started")
    roles |= dict.fromkeys(named_paths(spec, workspace), "named")
    for path in found.compared - found.started - found.decides:
        if path in roles and not _CHECKS.search(posixpath.basename(path)):
            roles[path] = "compared"
    return dict(sorted(roles.items()))


class _Found:
    """The files that a line leads to. `started` are those of scripts, `compared` those whose output is compared."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.started: set[str] = set()
        self.compared: set[str] = set()
        self.decides: set[str] = set()
        self.shadows: set[str] = set()
        self._read: set[tuple[str, str]] = set()

    def follow(self, line: str, folder: str, depth: int = 0) -> None:
        """Follow the programs of a line that runs in a folder of the workspace, and the scripts that they run."""
        if depth > _DEEPEST or (line, folder) in self._read:
            return
        self._read.add((line, folder))
        for program in programs(line):
            place = posixpath.normpath(posixpath.join(folder, program.folder))
            self._shadow(program, place)
            for path in named_by(program, self._workspace, place):
                self._take(path, program, place, depth)
            for called in self._called(program, place) if depth < _DEEPEST else ():
                self.follow(called, place, depth + 1)

    def _take(self, path: str, program: Program, folder: str, depth: int) -> None:
        lost = program.command.lost
        if lost and lost.how == "|" and lost.instead.partition(" ")[0] in _COMPARES:
            self.compared.add(path)
            return
        self.decides.add(path)
        text = text_of(self._workspace / path)
        is_shell = program.name in (*SHELLS, "source", ".") or path.endswith(".sh") or _SHELL.match(text) is not None
        if depth:
            if not (is_shell or _CHECKS.search(posixpath.basename(path))):
                return  # it may be the work itself
            self.started.add(path)
        if path.endswith(".py"):
            modules = {name for found in _IMPORT.findall(text) for name in re.findall(r"\w+", "".join(found))}
            for name in modules & sys.stdlib_module_names:
                self.shadows.update(_missing(self._workspace, posixpath.dirname(path), *_module(name)))
        if is_shell:
            self.follow(text, folder, depth + 1)

    def _called(self, program: Program, folder: str) -> Sequence[str]:
        """Return the lines of recipes of make and of scripts of package.json that a program calls."""
        words = tuple(map(str, program.words))
        if program.name not in _MAKE:
            return scripts_called(text_of(self._workspace / folder / "package.json"), words)
        text = _makefile(self._workspace / folder, words)
        paths = (posixpath.normpath(posixpath.join(folder, name)) for name in included(text))
        self.started.update(path for path in paths if (self._workspace / path).is_file())
        return recipes(text, words[1:])

    def _shadow(self, program: Program, folder: str) -> None:
        """Add paths that do not exist and would be taken for a module, or read by make, in place of what is there."""
        words = program.words
        if program.module:
            tests = [word for word in words[1:] if word.partition(".")[0].isidentifier()]
            for module in (words[0], *(tests if words[0] == "unittest" else ())):
                self.shadows.update(_earlier(module, folder, self._workspace))
        elif program.name in _MAKE and (text := _makefile(self._workspace / folder, words)):
            earlier = MAKEFILES[: MAKEFILES.index(makefile_in(self._workspace / folder))]
            names = (*earlier, *targets_by_name(text, words[1:]))
            self.shadows.update(_missing(self._workspace, folder, *names))


def _makefile(folder: Path, words: Sequence[str]) -> str:
    """Return the text of the Makefile that a call of make reads in its folder; empty if it reads another one."""
    if any(word.startswith(_ELSEWHERE) for word in words):
        return ""
    return text_of(folder / makefile_in(folder))


def _earlier(module: str, folder: str, workspace: Path) -> Iterator[str]:
    """Yield files that do not exist and would be imported in place of a module that exists."""
    top, path = module.partition(".")[0], module.replace(".", "/")
    if top in _INSTALLED:
        yield from _missing(workspace, folder, *_module(top))
    if (workspace / folder / f"{path}.py").is_file():
        yield from _missing(workspace, folder, f"{path}/__init__.py")
    if (workspace / folder / top).is_dir():
        yield from _missing(workspace, folder, f"{top}.py")


def _module(name: str) -> tuple[str, str]:
    return f"{name}.py", f"{name}/__init__.py"


def _missing(workspace: Path, folder: str, *names: str) -> Iterator[str]:
    for name in names:
        path = posixpath.normpath(posixpath.join(folder, name))
        if not path.startswith("../") and not os.path.lexists(workspace / path):
            yield path


_RULES: Mapping[str, str] = {
    "before": BEFORE,
    "compared": COMPARED,
    "started": "started by a script of validator",
    "named": "named by validator",
}


def check_scripts_at_start(specs: Sequence[ValidatorSpec], workspace: Path, record: Path) -> dict[str, str]:
    """Return workspace-relative paths, each with the reason why it belongs to a check.

    They are looked up once, before the agent works, and kept in the file `record` for a run that is resumed. Raise
    WorkspaceError if that file is damaged or cannot be written.
    """
    # Paths alone: the name of a validator may be its command line, which may hold a secret.
    rows = _recorded(
        record,
        lambda: [[f"{role}\t{path}" for path, role in check_files(spec, workspace).items()] for spec in specs],
        len(specs),
    )
    found: dict[str, tuple[str, str]] = {}
    for row, spec in zip(rows, specs, strict=True):
        for role, _, path in (text.partition("\t") for text in row):
            # Another validator may be stricter with a path that this one only compares.
            if role != "compared" or found.get(path, ("",))[0] not in ("named", "started"):
                found[path] = role, f'{_RULES[role]} "{spec.name}"'
    return {path: rule for path, (_, rule) in found.items()}


def with_variables(
    specs: Sequence[ValidatorSpec], workspace: Path, record: Path | None = None
) -> tuple[ValidatorSpec, ...]:
    """Return the validators, with the variables of the run that their scripts name in `pass_env`.

    The scripts are read once, before the agent works; what they name is kept in the file `record`. Raise WorkspaceError
    like `check_scripts_at_start`.
    """

    def find() -> list[tuple[str, ...]]:
        texts = ["\n".join(text_of(workspace / path) for path in named_paths(spec, workspace)) for spec in specs]
        return [variables_named(text) for text in texts]

    rows = find() if record is None else _recorded(record, find, len(specs))
    return tuple(
        spec.model_copy(update={"pass_env": tuple(dict.fromkeys((*spec.pass_env, *row)))}) if row else spec
        for spec, row in zip(specs, rows, strict=True)
    )


def _recorded(record: Path, find: Callable[[], Sequence[Sequence[str]]], rows: int) -> list[list[str]]:
    """Return the rows of names that `record` holds; if it does not exist, find and write them."""
    try:
        known = zip(json.loads(record.read_text("utf-8")), range(rows), strict=True)
        return [[str(name) for name in row] for row, _ in known]
    except FileNotFoundError:
        pass
    except (OSError, ValueError, TypeError) as error:
        raise WorkspaceError(f"{record} is damaged: {error}", "start a new run: goal run GOAL_FILE") from error
    found = [list(row) for row in find()]
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(record, json.dumps(found).encode())
    except OSError as error:
        raise WorkspaceError(f"cannot write {record}: {error.strerror or error}", "free some space") from error
    return found
