"""Programs of a command line that this machine does not have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.shell_programs import Program, programs
from goalrunner.core.tools import PROGRAM_FOLDERS
from goalrunner.system.launcher import SHELL
from goalrunner.validators.spec_validator import CheckPlace

# Without `$`, quotes and patterns, whose value the shell knows alone.
_PLAIN = re.compile(r"[\w.+@%,:/][\w.+@%,:/-]*")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_BUILTINS = frozenset(
    """
    : [ [[ bg break cd command continue declare echo exec exit export false fc fg
    getopts jobs kill let local popd printf pushd pwd read readonly return set shift
    shopt test time times trap true type typeset ulimit umask unset wait
    """.split()
)
"""Commands of the shell itself that make no program available."""
_LOADING = frozenset({".", "source", "eval", "alias", "builtin", "hash"})
"""Commands after which the available programs are unknown."""
_TRANSPARENT = frozenset(
    "env exec command nohup nice timeout sh bash dash coverage".split()
)
"""Programs that look up what they start on the same PATH as the shell."""
_PARSE_TIMEOUT = 10.0
"""Seconds."""


@dataclass(frozen=True)
class MissingProgram:
    """A program that is not on PATH, and what to do."""

    name: str
    hint: str

    @property
    def message(self) -> str:
        return f"{self.name}: not found"

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}"


def syntax_error(line: str) -> str:
    """Return the shell's error for a line that it cannot parse; empty if it can.

    The line is not executed.
    """
    try:
        done = subprocess.run(
            [SHELL, "-n", "-c", line],
            env={},
            capture_output=True,
            timeout=_PARSE_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        # Whether the line is valid is seen when it runs.
        return ""
    if done.returncode == 0:
        return ""
    message = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    return re.sub(r"^\S*sh: (?:-c: )?(?:line )?\d+: ", "", message)


def missing_program(line: str, place: CheckPlace) -> MissingProgram | None:
    """Return the first program of a line if it is not on PATH.

    None if it is, or if it is not certain that the program runs.
    """
    # Only the first program: what later ones need may be made by earlier ones.
    for program in programs(line):
        is_conditional = program.fallback or program.optional
        # The exit code of a program in a pipeline is lost, but it runs.
        is_lost = program.lost is not None and program.lost.how != "|"
        if is_conditional or is_lost or _is_unknown(program):
            return None
        if program.name not in _BUILTINS:
            return next(missing_words(program, place), None)
    return None


def missing_words(program: Program, place: CheckPlace) -> Iterator[MissingProgram]:
    """Yield each word of a command that is looked up on PATH and not found."""
    # A clean environment has another PATH.
    if program.clean or _is_unknown(program):
        return
    for word in _looked_up(program):
        # Other words are expansions of the shell, or paths.
        is_name = _PLAIN.fullmatch(word) is not None and "/" not in word
        if not is_name or word in _BUILTINS:
            continue
        if shutil.which(word, path=_path(place)):
            continue
        installed = _installed_here(word, place)
        if installed:
            yield MissingProgram(word, f"write {installed}")
        elif not _may_get_programs(place):
            hint = f"install {word}, or name another program in the goal file"
            yield MissingProgram(word, hint)


def _is_unknown(program: Program) -> bool:
    """Return whether a program may run anything, or change which programs there are."""
    words = (*program.assignments, *program.words[:2])
    sets_path = any("PATH=" in word for word in words)
    return bool(program.problem) or sets_path or program.name in _LOADING


def _looked_up(program: Program) -> Iterator[str]:
    """Yield the words of a command that are looked up on PATH.

    Its first one, and the program behind wrappers.
    """
    is_passed_on = all(
        name in _TRANSPARENT or _PYTHON.fullmatch(name) for name in program.through
    )
    first_word = program.first_word
    if first_word and (is_passed_on or first_word in program.through):
        yield first_word
    is_wrapped = program.words[:1] != (first_word,)
    if is_passed_on and is_wrapped and not program.module:
        yield from program.words[:1]


def _installed_here(name: str, place: CheckPlace) -> str:
    """Return the path of a program in an environment of the workspace; else empty."""
    for folder in PROGRAM_FOLDERS:
        path = f"{folder}/{name}"
        if os.access(place.folder / path, os.X_OK):
            return path
    return ""


def _may_get_programs(place: CheckPlace) -> bool:
    """Return whether the work may put a program into a folder of PATH.

    The programs of an environment there come from installed packages, not from the
    work.
    """
    for entry in filter(None, _path(place).split(os.pathsep)):
        folder = Path(os.path.normpath(place.folder / entry))
        if not folder.is_relative_to(place.workspace):
            continue
        has_environment = (folder.parent / "pyvenv.cfg").exists()
        if folder.name != ".bin" and not has_environment:
            return True
    return False


def _path(place: CheckPlace) -> str:
    return place.env.get("PATH", os.defpath)
