"""Programs and Python modules of a validator's own command line that the machine lacks, found without running the line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path

from goalrunner.core.shell_programs import Program, programs
from goalrunner.system.launcher import SHELL
from goalrunner.validators.runners import RUNNERS

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_PLAIN = re.compile(r"[\w.+@%,:/-]+")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_BUILTINS = frozenset(
    """
    : [ [[ bg break cd command continue declare echo exit export false fc fg getopts jobs kill let local popd printf
    pushd pwd read readonly return set shift shopt test time times trap true type typeset ulimit umask unset wait
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Commands of the shell itself that make no program available."""
_LOADING = frozenset({".", "source", "eval", "alias", "builtin", "hash"})
"""Commands after which it is not known which programs there are."""
_TRANSPARENT = frozenset("env exec command nohup nice timeout sh bash dash coverage".split())  # noqa: SIM905
"""Programs that look up what they start on the same PATH as the shell."""
_BUILDERS = frozenset({"make", "just", "task", "tox", "nox", "ctest"})
_LOCAL = (".venv/bin", "venv/bin", "node_modules/.bin")
"""Folders of a workspace in which programs are installed."""
CHECKERS = frozenset(
    """
    ruff mypy pyright basedpyright flake8 pylint black isort bandit tox nox make just task ctest rspec phpunit eslint
    tsc biome prettier shellcheck golangci-lint diff cmp grep
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Programs whose exit code is their answer, beside the known test runners."""
TOOLS = CHECKERS | frozenset("pytest unittest behave build coverage nose2 pip pre_commit sphinx twine uv".split())  # noqa: SIM905
"""Modules that are started with `python -m` to check or build a project. The work does not bring them."""
_AROUND = re.compile(r"^tests?_|_tests?(?=\.|$)|\..*")
_PARSE_TIMEOUT = 10.0


@dataclass(frozen=True)
class Place:
    """Where validators run: the workspace, the folder that a line starts in, and its environment variables."""

    workspace: Path
    folder: Path
    env: Mapping[str, str]

    @property
    def path_variable(self) -> str:
        """The variable PATH."""
        return self.env.get("PATH", os.defpath)

    def path(self, program: Program, word: str) -> str:
        """Return the path that a word with a slash means, absolute and without `..`."""
        return os.path.normpath(os.path.join(self.folder, program.folder, word))  # noqa: PTH118 - may not exist

    def expanded(self, word: str) -> str:
        """Return a word with its variables, as the shell does."""
        return _VARIABLE.sub(lambda found: self.env.get(found[1] or found[2], found[0]), word)

    def holds(self, path: str) -> bool:
        """Return whether a path lies in the workspace."""
        return Path(path).is_relative_to(self.workspace)

    @property
    def may_get_programs(self) -> bool:
        """Whether the work may put a program into a folder of PATH, rather than install a package there."""
        entries = (os.path.normpath(self.folder / entry) for entry in self.path_variable.split(os.pathsep) if entry)
        own = [Path(entry) for entry in entries if self.holds(entry)]
        return any(folder.name != ".bin" and not (folder.parent / "pyvenv.cfg").exists() for folder in own)


@dataclass(frozen=True)
class Absent:
    """A word of a line that names nothing."""

    word: str
    message: str
    """What follows "validator NAME"."""
    hint: str = ""
    """What to do, or the name that may be meant."""
    mistake: bool = True
    """Whether only a person can provide it, rather than the work."""
    path: str = ""
    """Of a path, the one relative to the workspace."""
    is_start: bool = False
    """Whether the line begins with it."""


def absent_program(line: str, place: Place, *, ran: bool = False) -> Absent | None:
    """Return the first program that a line certainly needs and that does not exist.

    A program below the workspace may be what the work is to bring. So may one that an earlier command of the line may
    install, unless the line `ran` and failed.
    """
    for program in programs(line):
        loads = _LOADING & {program.name, *program.through} or "PATH=" in " ".join(program.command.words[:2])
        if program.problem or not program.words or loads:
            return None
        command = program.command
        conditional = command.fallback or command.optional or (command.lost is not None and command.lost.how != "|")
        if not conditional and (found := _absent_program(program, place)):
            return found
        if not ran and not brings_nothing(program):
            return None
    return None


def brings_nothing(program: Program) -> bool:
    """Return whether a program is known to check or print, so that it provides nothing for later commands."""
    known = program.name in _BUILTINS or program.name in CHECKERS - _BUILDERS
    return known or any(runner.arguments(program) is not None for runner in RUNNERS)


def _absent_program(program: Program, place: Place) -> Absent | None:
    if program.clean or any(word.startswith("PATH=") for word in program.assignments):
        return None
    for word in map(place.expanded, _looked_up(program)):
        if not _PLAIN.fullmatch(word) or word in _BUILTINS:
            continue
        if "/" not in word and shutil.which(word, path=place.path_variable) is None:
            near = similar_program(word, place)
            hint = f"did you mean {near}?" if near else f"install {word}, or name another program in the goal file"
            may_be_made = not near and place.may_get_programs
            return None if may_be_made else Absent(word, f" cannot run here: {word}: not found", hint)
        path = place.path(program, word) if "/" in word else ""
        if path and not os.access(path, os.X_OK):
            if not place.holds(path):
                why = "cannot be executed" if Path(path).exists() else "not found"
                return Absent(word, f" cannot run here: {word}: {why}", f"correct its path, or provide {path}")
            if Path(path).is_file():  # validators see their own scripts in their original state
                inside = os.path.relpath(path, place.workspace)
                return Absent(word, f" cannot run here: {word} cannot be executed", f"chmod +x {word}", path=inside)
    return None


def _looked_up(program: Program) -> Iterator[str]:
    """Yield the words of a simple command that are looked up on PATH."""
    first = program.command.words[:1]
    others = (name for name in program.through if name not in _TRANSPARENT and not _PYTHON.fullmatch(name))
    foreign = next(others, None)
    asks = first == ("command",) and program.command.words[1:2] in (("-v",), ("-V",))
    if foreign is None or (first and Path(first[0]).name == foreign):
        yield from first
    if foreign is None and not program.module and not asks and program.words[:1] != first:
        yield program.words[0]


def similar_program(name: str, place: Place) -> str:
    """Return the program that may be meant: one of the workspace's own environment, or one on PATH with a similar name."""
    for folder in _LOCAL:
        if os.access(place.folder / folder / name, os.X_OK):
            return f"{folder}/{name}"
    folders = (Path(entry) for entry in place.path_variable.split(os.pathsep) if entry)
    return misspelled(name, {path.name for folder in folders if folder.is_dir() for path in folder.iterdir()})


def misspelled(word: str, known: Iterable[str]) -> str:
    """Return a name from which a word of four or more letters differs in one letter, but not in digits alone; else "".

    What names of tests have in common is not compared.
    """

    def differs_in_one(name: str) -> bool:
        one, other = stem(word), stem(name)
        longest, alike = max(len(one), len(other), 1), SequenceMatcher(None, one, other).ratio()
        return 4 <= longest <= longest * alike + 1 and re.sub(r"\d", "", one) != re.sub(r"\d", "", other)

    return next(filter(differs_in_one, get_close_matches(word, sorted(known), 5, 0.6)), "")


def stem(path: str) -> str:
    """Return the name of a file without what names of tests have in common."""
    return _AROUND.sub("", Path(path).name)


def syntax_error(line: str) -> str:
    """Return what the shell says of a line that it cannot parse; empty if it can. The line is not executed."""
    argv = [SHELL, "-n", "-c", line]
    try:
        done = subprocess.run(
            argv, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PARSE_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ""
    said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
    return re.sub(r"^\S*sh: (?:-c: )?(?:line )?\d+: ", "", said) if done.returncode else ""
