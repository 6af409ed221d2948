"""Every path that decides a validator's result: scripts it names, what these start, and names that would be found first."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.model.goal import ValidatorSpec
from goalrunner.shell import Program, programs
from goalrunner.shell.programs import SHELLS
from goalrunner.validators.script_text import included, recipes, scripts_called, targets_by_name, text_of
from goalrunner.validators.scripts import named_by, named_paths

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
