"""The files that make up a check: what its line names, and what its scripts, Makefile and package.json start."""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from goalrunner.checking.protection import BEFORE, COMPARED, IGNORE_FILE
from goalrunner.core.goal_tables import RunVariable, ValidatorSpec
from goalrunner.core.shell_programs import Program, programs
from goalrunner.core.tools import MAKE, MAKEFILES, PACKAGE_MANAGERS, PYTHON_TOOLS, SHELLS
from goalrunner.records.run_folder import damaged, read_json, write_json
from goalrunner.validators.spec_validator import variables_named

_INTERPRETERS = SHELLS | frozenset(
    "node deno bun ts-node tsx ruby perl php Rscript source . coverage".split()  # noqa: SIM905
)
_CONFIGURED = MAKE | {"pytest", "py.test", "just", "nox", "tox"}
_OPTIONS = ("-f", "-c", "--file", "--makefile", "--justfile", "--noxfile", "--conf", "--config-file")
"""Options of these programs whose value is a file that decides what is checked."""
_LONGEST = 4_000_000
"""Maximum number of bytes that are read of a file; no script is longer."""
_TARGET = re.compile(r"^([\w./-][\w./ -]*):(?!=).*$", re.MULTILINE)
_WORD = re.compile(r"[\w./:-]+")
_INCLUDE = re.compile(r"^[ ]*-?s?include[ \t]+([^#\n]+)", re.MULTILINE)
_PHONY = re.compile(r"^\.PHONY[ \t]*:(.*)$", re.MULTILINE)
_DEEPEST = 3
_LEAVES_OUT_IGNORED = frozenset({"ruff", "black", "prettier", "biome", "rg"})
_COMPARES = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "jq"})
_CHECKS = re.compile(r"(?:^|[_.-])(?:check|test|verify|validate|lint|ci)s?(?:[_.-]|$)", re.IGNORECASE)
_SHELL = re.compile(r"#!.*\b(?:sh|bash|dash|zsh|ksh)\b")
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+(?:\s*,\s*\w+)*)", re.MULTILINE)
_ELSEWHERE = ("-f", "--file", "--makefile", "-C", "--directory")
_INSTALLED = PYTHON_TOOLS | sys.stdlib_module_names

Role = Literal["named", "compared", "started", "before"]
"""Why a path belongs to a validator. named: its line names it; compared: its line only compares the path's output, so it
may be the work itself; started: a script starts it; before: it is missing, and would be found before a file of the check."""
_STRICT: tuple[Role, ...] = ("before", "compared", "started", "named")
NAMED: tuple[Role, ...] = ("named", "compared")
"""The roles of files that the line of a validator names."""
_RULES: Mapping[Role, str] = {
    "before": BEFORE,
    "compared": COMPARED,
    "started": "started by a script of validator",
    "named": "named by validator",
}
_Row = tuple[tuple[RunVariable, ...], dict[str, Role]]
"""What a validator's scripts name, and the files that make up its check."""


def scripts_at_start(
    specs: Sequence[ValidatorSpec], workspace: Path, record: Path | None = None
) -> tuple[tuple[ValidatorSpec, ...], dict[str, str]]:
    """Return the validators with the variables that their scripts name in `pass_env`, and the paths that belong to checks.

    The paths are relative to the workspace; their values are the reasons. The scripts are read once, before the agent
    works, and kept in the file `record` for a resumed run. Raise RecordError if that file is damaged or cannot be written.
    """
    # Paths alone are kept: the name of a validator may be its command line, which may hold a secret.
    rows: list[_Row] | None = None if record is None else read_json(record, list[_Row])
    if rows is None:
        rows = [_look(spec, workspace) for spec in specs]
        if record is not None:
            write_json(record, rows)
    if record is not None and len(rows) != len(specs):
        raise damaged(record, f"it is about {len(rows)} validators, not {len(specs)}")
    known: list[ValidatorSpec] = []
    found: dict[str, tuple[Role, str]] = {}
    for (variables, roles), spec in zip(rows, specs, strict=True):
        known.append(spec.model_copy(update={"pass_env": tuple(dict.fromkeys((*spec.pass_env, *variables)))}))
        for path, role in roles.items():
            # Another validator may be stricter with a path that this one only compares.
            if role != "compared" or found.get(path, ("",))[0] not in ("named", "started"):
                found[path] = role, f'{_RULES[role]} "{spec.name}"'
    return tuple(known), {path: rule for path, (_, rule) in found.items()}


def _look(spec: ValidatorSpec, workspace: Path) -> _Row:
    roles = check_files(spec, workspace)
    texts = "\n".join(file_text(workspace / path) for path, role in roles.items() if role in NAMED)
    return variables_named(texts), roles


def _existing(workspace: Path, folder: str, names: Iterable[str]) -> set[str]:
    root = os.path.realpath(workspace)
    paths = [os.path.normpath(os.path.join(root, folder, name)) for name in names]  # noqa: PTH118 - no link is resolved
    files = [path for path in paths if os.path.isfile(path)]  # noqa: PTH113
    found = (path for file in files for path in (file, os.path.realpath(file)))
    return {path[len(root) + 1 :].replace(os.sep, "/") for path in found if path.startswith(root + os.sep)}


def _files(program: Program) -> Iterator[str]:
    """Yield the files that a program may be made of."""
    first, rest = (program.words[:1] or ("",))[0], program.words[1:]
    if program.module:
        yield from _module_files(first)
    elif _is_path(first):
        yield first
    interprets = program.name in _INTERPRETERS or program.name.startswith(("python", "pypy"))
    # The text of the program follows this option. For a shell, -e has another meaning.
    inline = "-e" if program.name in ("node", "deno", "bun", "ruby", "perl", "Rscript") else "-c"
    if interprets and inline not in rest:
        operands = [word for word in rest if not word.startswith("-") and word not in ("run", "exec", "--")]
        # An option's value may stand before the script, so two words are looked at.
        for word in operands[:1] + [word for word in operands[1:2] if _is_path(word) and not _is_path(operands[0])]:
            yield from (str(word), f"{word.rstrip('/')}/__main__.py")
    for option, following in zip_longest(rest, rest[1:], fillvalue="") if program.name in _CONFIGURED else ():
        name, equals, given = option.partition("=")
        if name in _OPTIONS:
            yield given if equals else following
        elif option[:2] in _OPTIONS:
            yield option[2:]


def _is_path(word: str) -> bool:
    return "/" in word or "." in word


def _module_files(module: str) -> Iterator[str]:
    """Yield what importing or running a module may execute: its packages' __init__ files, and itself."""
    parts = module.split(".")
    yield from (f"{'/'.join(parts[:length])}/__init__.py" for length in range(1, len(parts) + 1))
    yield from (f"{'/'.join(parts)}.py", f"{'/'.join(parts)}/__main__.py")


def makefile_in(folder: Path) -> str:
    """Return the name of the Makefile that make reads in a folder; empty if there is none."""
    return next((name for name in MAKEFILES if (folder / name).is_file()), "")


def make_targets(text: str) -> dict[str, str]:
    """Return the targets of a Makefile with their prerequisites and recipes."""
    found: dict[str, str] = {}
    starts = [*_TARGET.finditer(text)]
    for start, end in zip(starts, [*(later.start() for later in starts[1:]), len(text)], strict=False):
        for name in start[1].split():
            if not name.startswith("."):
                found[name] = f"{found.get(name, '')}{text[start.end(1) + 1 : end]}\n"
    return found


def _recipes(text: str, words: Sequence[str]) -> list[str]:
    """Return the lines of the recipes of a Makefile's targets that words of a command name, or of the first target.

    Prerequisites are followed from targets without a recipe: other ones build what is checked.
    """
    parts = make_targets(text)
    names = [word for word in words if word in parts] or [*parts][:1]
    found: list[str] = []
    for name in names:  # grows
        lines = parts[name].replace("\\\n", " ").split("\n")
        recipe = [line.lstrip("\t@+- ").replace("$$", "$") for line in lines[1:] if line.startswith("\t")]
        found += recipe
        if not recipe:
            names += [word for word in _WORD.findall(lines[0]) if word in parts and word not in names]
    return found


def package_scripts(text: str) -> dict[str, str]:
    """Return the scripts of a package.json."""
    try:
        scripts = json.loads(text)["scripts"]
        return {str(name): str(script) for name, script in scripts.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def file_text(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_LONGEST).decode(errors="replace")
    except OSError:
        return ""


def check_files(spec: ValidatorSpec, workspace: Path) -> dict[str, Role]:
    """Return the workspace-relative paths that decide a validator's result, sorted, each with its role.

    `./check.sh`, `python tools/check.py`, `python tools` (its __main__.py), `python -m tools.check`, `make -f X`, and what
    they start; `checks:done` is checks.py, or the package. A link is named together with the file it leads to. What a
    program merely reads (`mypy src/app.py`) is left out.
    """
    found = _Found(workspace)
    found.follow(spec.run or "", spec.cwd)
    if spec.python is not None:
        module = spec.python.partition(":")[0]
        entries = [entry for entry in spec.env.get("PYTHONPATH", "").split(os.pathsep) if entry]
        for folder in (spec.cwd, "", *(posixpath.join(spec.cwd, entry) for entry in entries)):
            found.add("named", _existing(workspace, folder, _module_files(module)))
        found.add_earlier(module, spec.cwd)
    return dict(sorted(found.roles.items()))


def lines_followed(spec: ValidatorSpec, workspace: Path) -> tuple[str, ...]:
    """Return the command line of a validator and the texts of scripts, recipes and npm scripts that it leads to."""
    found = _Found(workspace)
    found.follow(spec.run or "", spec.cwd)
    return tuple(line for line, _ in found.read)


class _Found:
    """The files that a line leads to, with their roles, and the lines that were read."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.roles: dict[str, Role] = {}
        self.read: dict[tuple[str, str], None] = {}

    def add(self, role: Role, paths: Iterable[str]) -> None:
        """Add paths; of several roles of a path, the strictest counts."""
        for path in paths:
            self.roles[path] = max(role, self.roles.get(path, role), key=_STRICT.index)

    def follow(self, line: str, folder: str, depth: int = 0) -> None:
        """Follow the programs of a line that runs in a folder of the workspace, and the scripts that they run."""
        if depth > _DEEPEST or (line, folder) in self.read:
            return
        self.read[line, folder] = None
        # A script that is not understood as a whole is read line by line.
        for program in programs(line) or (found for part in line.splitlines() for found in programs(part)):
            place = posixpath.normpath(posixpath.join(folder, program.folder))
            if program.name in _LEAVES_OUT_IGNORED:
                self.add("before", (IGNORE_FILE,))
            if program.module:
                tests = [word for word in program.words[1:] if word.partition(".")[0].isidentifier()]
                for module in (program.words[0], *(tests if program.name == "unittest" else ())):
                    self.add_earlier(module, place)
            for where in dict.fromkeys((place, folder)):  # a `cd` in a subshell counts as well
                for path in sorted(_existing(self._workspace, where, _files(program))):
                    self._take(path, program, where, depth)
            for called in self._called(program, place) if depth < _DEEPEST else ():
                self.follow(called, place, depth + 1)

    def _take(self, path: str, program: Program, folder: str, depth: int) -> None:
        lost, is_check = program.lost, _CHECKS.search(posixpath.basename(path)) is not None
        if lost and lost.how == "|" and lost.instead.partition(" ")[0] in _COMPARES:
            self.add("named" if is_check else "compared", () if depth else (path,))
            return
        text = file_text(self._workspace / path)
        is_shell = program.name in (*SHELLS, "source", ".") or path.endswith(".sh") or _SHELL.match(text) is not None
        if depth and not (is_shell or is_check):
            return  # it may be the work itself
        self.add("started" if depth else "named", (path,))
        if path.endswith(".py"):
            modules = {name for found in _IMPORT.findall(text) for name in re.findall(r"\w+", found)}
            for name in modules & sys.stdlib_module_names:
                self._add_missing(posixpath.dirname(path), f"{name}.py", f"{name}/__init__.py")
        if is_shell:
            self.follow(text, folder, depth + 1)

    def _called(self, program: Program, folder: str) -> list[str]:
        """Return the lines of recipes of make and of scripts of package.json that a program calls."""
        words, place = program.words[1:], self._workspace / folder
        if program.name in PACKAGE_MANAGERS:
            operands = [word for word in words if not word.startswith("-") and word not in ("run", "run-script")]
            name = "test" if operands[:1] == ["t"] else "".join(operands[:1])
            return [package_scripts(file_text(place / "package.json")).get(name, "")]
        if program.name not in MAKE or any(word.startswith(_ELSEWHERE) for word in words):
            return []
        makefile = makefile_in(place)
        text = file_text(place / makefile) if makefile else ""
        for included in " ".join(_INCLUDE.findall(text)).split():
            self.add("started", _existing(self._workspace, folder, [included]))
        if makefile:
            # make does not run a target that is the name of an existing file, unless it is phony.
            phony = " ".join(_PHONY.findall(text)).split()
            targets = (word for word in words if word in make_targets(text) and word not in phony)
            self._add_missing(folder, *MAKEFILES[: MAKEFILES.index(makefile)], *targets)
        return _recipes(text, words)

    def add_earlier(self, module: str, folder: str) -> None:
        """Add files that do not exist and would be imported in place of a module that exists."""
        top, path = module.partition(".")[0], module.replace(".", "/")
        if top in _INSTALLED:
            self._add_missing(folder, f"{top}.py", f"{top}/__init__.py")
        if (self._workspace / folder / f"{path}.py").is_file():
            self._add_missing(folder, f"{path}/__init__.py")
        if (self._workspace / folder / top).is_dir():
            self._add_missing(folder, f"{top}.py")

    def _add_missing(self, folder: str, *names: str) -> None:
        for name in names:
            path = posixpath.normpath(posixpath.join(folder, name))
            if not path.startswith("../") and not os.path.lexists(self._workspace / path):
                self.add("before", (path,))
