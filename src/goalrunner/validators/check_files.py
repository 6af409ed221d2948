"""The files that a check consists of, as they were at the start of a run."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.checking.protection import BEFORE, COMPARED
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.goal import ValidatorSpec
from goalrunner.records.run_folder import write_whole
from goalrunner.shell import Program, programs
from goalrunner.shell.programs import SHELLS
from goalrunner.validators.check_env import variables_named
from goalrunner.validators.script_text import (
    included,
    named_by,
    named_paths,
    recipes,
    scripts_called,
    targets_by_name,
    text_of,
)

Role = Literal["named", "compared", "started", "before"]
"""Why a path belongs to a validator: it is named, it is named and its output alone is compared, so that it may be the work
itself; it is started by a script; or it does not exist and would be found before a file of the check."""

_DEEPEST = 3
_COMPARES = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "jq"})
_CHECKS = re.compile(r"(?:^|[_.-])(?:check|test|verify|validate|lint|ci)s?(?:[_.-]|$)", re.IGNORECASE)
_SHELL = re.compile(r"#!.*\b(?:sh|bash|dash|zsh|ksh)\b")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+)((?:\s*,\s*\w+)*)", re.MULTILINE)
_MAKE = frozenset({"make", "gmake"})
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_ELSEWHERE = ("-f", "--file", "--makefile", "-C", "--directory")
_INSTALLED = frozenset({"pytest", "coverage", "mypy", "ruff", "tox", "nox"}) | sys.stdlib_module_names


@dataclass(frozen=True)
class _Step:
    """One program that a check starts, with the folder of its line, relative to the workspace, and its depth."""

    program: Program
    folder: str
    depth: int


def check_files(spec: ValidatorSpec, workspace: Path) -> dict[str, Role]:
    """Return the workspace-relative paths that decide a validator's result, sorted, each with its role."""
    found = _Found(workspace)
    found.of_line(spec.run or "", spec.cwd if spec.cwd != "." else "")
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

    def of_line(self, line: str, folder: str, depth: int = 0) -> None:
        """Follow the programs of a line that runs in a folder of the workspace."""
        for program in programs(line):
            self._follow(_Step(program, posixpath.normpath(posixpath.join(folder, program.folder)), depth))

    def _follow(self, step: _Step) -> None:
        self.shadows.update(self._before(step.program, step.folder))
        for path in named_by(step.program, self._workspace, step.folder):
            self._take(path, step)
        if step.depth < _DEEPEST:
            self._called(step)

    def _take(self, path: str, step: _Step) -> None:
        lost = step.program.command.lost
        if lost and lost.how == "|" and lost.instead.partition(" ")[0] in _COMPARES:
            self.compared.add(path)
            return
        self.decides.add(path)
        text, name = text_of(self._workspace / path), step.program.name
        shell = name in SHELLS or name in ("source", ".") or path.endswith(".sh") or _SHELL.match(text) is not None
        if step.depth:
            if not (shell or _CHECKS.search(posixpath.basename(path))):
                return  # it may be the work itself
            self.started.add(path)
        if path.endswith(".py"):
            self.shadows.update(_library(text, posixpath.dirname(path), self._workspace))
        if shell and step.depth < _DEEPEST and (path, step.folder) not in self._read:
            self._read.add((path, step.folder))
            self.of_line(text, step.folder, step.depth + 1)

    def _called(self, step: _Step) -> None:
        """Follow the recipes of make and the scripts of package.json that a program calls."""
        folder = self._workspace / step.folder
        words = tuple(map(str, step.program.words))
        if step.program.name in _MAKE:
            text = _makefile(folder, words)
            for path in included(text):
                if (folder / path).is_file():
                    self.started.add(posixpath.normpath(posixpath.join(step.folder, path)))
            lines = recipes(text, words[1:])
        else:
            lines = scripts_called(text_of(folder / "package.json"), words)
        for line in lines:
            if (step.folder, line) not in self._read:
                self._read.add((step.folder, line))
                self.of_line(line, step.folder, step.depth + 1)

    def _before(self, program: Program, folder: str) -> Iterator[str]:
        """Yield paths that do not exist and would be taken for a module, or read by make, in place of what is there."""
        if program.module:
            yield from _earlier(program.words[0], folder, self._workspace)
            for word in program.words[1:] if program.words[0] == "unittest" else ():
                if word.partition(".")[0].isidentifier():
                    yield from _earlier(word, folder, self._workspace)
        if program.name in _MAKE and not program.module:
            text = _makefile(self._workspace / folder, program.words)
            at = next((at for at, name in enumerate(_MAKEFILES) if (self._workspace / folder / name).is_file()), 0)
            names = _MAKEFILES[:at] if text else ()
            yield from _missing(self._workspace, folder, *names, *targets_by_name(text, program.words[1:]))


def _makefile(folder: Path, words: Sequence[str]) -> str:
    """Return the text of the Makefile that a call of make reads in its folder; empty if it reads another one."""
    if any(word.startswith(_ELSEWHERE) for word in words):
        return ""
    return next((text_of(folder / name) for name in _MAKEFILES if (folder / name).is_file()), "")


def _earlier(module: str, folder: str, workspace: Path) -> Iterator[str]:
    """Yield files that do not exist and would be imported in place of a module that exists."""
    top, path = module.partition(".")[0], module.replace(".", "/")
    if top in _INSTALLED:
        yield from _missing(workspace, folder, f"{top}.py", f"{top}/__init__.py")
    if (workspace / folder / f"{path}.py").is_file():
        yield from _missing(workspace, folder, f"{path}/__init__.py")
    if (workspace / folder / top).is_dir():
        yield from _missing(workspace, folder, f"{top}.py")


def _library(text: str, folder: str, workspace: Path) -> Iterator[str]:
    """Yield files that do not exist and would hide modules of the standard library that a script imports."""
    for found in _IMPORT.finditer(text):
        for name in (found[1], *re.findall(r"\w+", found[2])):
            if name in sys.stdlib_module_names:
                yield from _missing(workspace, folder, f"{name}.py", f"{name}/__init__.py")


def _missing(workspace: Path, folder: str, *names: str) -> Iterator[str]:
    for name in names:
        path = posixpath.normpath(posixpath.join(folder, name))
        if not path.startswith("../") and not os.path.lexists(workspace / path):
            yield path


_LONGEST_SCRIPT = 4_000_000
_RULES: Mapping[str, str] = {
    "before": BEFORE,
    "compared": COMPARED,
    "started": "started by a script of validator",
    "named": "named by validator",
}
_STRICTER: Mapping[str, tuple[str, ...]] = {"compared": ("named", "started")}
"""Roles that count in place of another one, if two validators name a path."""


def check_scripts_at_start(specs: Sequence[ValidatorSpec], workspace: Path, record: Path) -> dict[str, str]:
    """Return workspace-relative paths, each with the reason why it belongs to a check.

    They are looked up once, before the agent works, and kept in the file `record` for a run that is resumed. Raise
    WorkspaceError if that file is damaged or cannot be written.
    """
    # Paths alone: the name of a validator may be its command line, which may hold a secret.
    rows = _recorded(record, lambda: [_rows(spec, workspace) for spec in specs], len(specs))
    found: dict[str, tuple[str, str]] = {}
    for row, spec in zip(rows, specs, strict=True):
        for role, _, path in (text.partition("\t") for text in row):
            if path not in found or found[path][0] not in _STRICTER.get(role, ()):
                found[path] = role, f'{_RULES[role]} "{spec.name}"'
    return {path: rule for path, (_, rule) in found.items()}


def _rows(spec: ValidatorSpec, workspace: Path) -> list[str]:
    return [f"{role}\t{path}" for path, role in check_files(spec, workspace).items()]


def with_variables(
    specs: Sequence[ValidatorSpec], workspace: Path, record: Path | None = None
) -> tuple[ValidatorSpec, ...]:
    """Return the validators, with the variables of the run that their scripts name in `pass_env`.

    The scripts are read once, before the agent works; what they name is kept in the file `record`. Raise WorkspaceError
    like `check_scripts_at_start`.
    """

    def found() -> list[tuple[str, ...]]:
        return [variables_named(_text(named_paths(spec, workspace), workspace)) for spec in specs]

    rows = found() if record is None else _recorded(record, found, len(specs))
    more = zip(specs, rows, strict=True)
    return tuple(
        spec.model_copy(update={"pass_env": tuple(dict.fromkeys((*spec.pass_env, *row)))}) if row else spec
        for spec, row in more
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


def _text(paths: Sequence[str], workspace: Path) -> str:
    """Return the content of the files that can be read, up to a size at which none is a script any more."""
    texts = []
    for path in paths:
        with contextlib.suppress(OSError), (workspace / path).open("rb") as file:
            texts.append(file.read(_LONGEST_SCRIPT).decode(errors="replace"))
    return "\n".join(texts)
