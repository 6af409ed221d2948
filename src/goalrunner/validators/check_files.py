"""The files that make up a check: what its line names and starts, directly or through scripts, make and package.json."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.shell_programs import Program, programs
from goalrunner.core.tools import (
    CHECKERS,
    CONFIGURED_BY_NAME,
    MAKE,
    MAKEFILES,
    PACKAGE_MANAGERS,
    PYTHON_TOOLS,
    SHELLS,
)
from goalrunner.validators.recipes import (
    INCLUDE,
    PHONY,
    file_text,
    make_targets,
    makefile_in,
    package_scripts,
    recipes_of,
)

_INTERPRETERS = SHELLS | frozenset(
    "node deno bun ts-node tsx ruby perl php Rscript source . coverage".split()
)
_CONFIGURED = MAKE | CHECKERS | CONFIGURED_BY_NAME | {"py.test", "just"}
_OPTIONS = (
    "-f", "-c", "--file", "--makefile", "--justfile", "--noxfile", "--conf", "--config-file", "--config", "--rcfile",
    "--project",
)  # fmt: skip
"""Options of these programs whose value is a file that decides what is checked."""
_DEEPEST = 3
_COMPARES = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "jq"})
_EXPECTS = frozenset({"diff", "cmp", "comm"})
_LOOKS_AT = frozenset(
    "grep egrep fgrep rg jq yq test [ [[ cat wc head tail ls stat file".split()
)
_WITH_PATTERN = frozenset({"grep", "egrep", "fgrep", "rg", "jq", "yq"})
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_CHECKS = re.compile(
    r"(?<![a-z])(?:run|smoke|unit|self)?(?:check|test|verify|validate|lint|spec|accept|acceptance|ci)(?:s|ing)?(?![a-z])"
)
_TOOLING = re.compile(
    r"(?:^|/)(?:tools|scripts|hack|devtools|\.\w+)/|(?:^|/)(?:manage|setup)\.py$"
)
"""Programs of a project that are not what it delivers."""
_SHELL = re.compile(r"#!.*\b(?:sh|bash|dash|zsh|ksh)\b")
_SETTINGS_OF_PYTEST = (
    "conftest.py",
    "pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
_PLUGINS = re.compile(
    r"^pytest_plugins\s*=\s*([\[(]?[^\])\n]*(?:\n[^\])]*)?)|(?<=[\s\"'])-p[ \"',]+([\w.]+)",
    re.MULTILINE,
)
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+(?:\s*,\s*\w+)*)", re.MULTILINE)
_ELSEWHERE = ("-f", "--file", "--makefile", "-C", "--directory")
_INSTALLED = PYTHON_TOOLS | sys.stdlib_module_names

Role = Literal["script", "named", "compared", "work", "read", "before"]
"""Why a path belongs to a validator. script: a check; named: started or included, but not named like a check; compared: an
expectation; work: the program that is checked; read: the `grep` or `test` of the line itself looks at it, while a file that a
script looks at may steer the script; before: it is missing, and would be found before a file of the check."""
STRICTNESS: tuple[Role, ...] = ("before", "read", "work", "compared", "named", "script")
"""The roles, the strictest last."""
NAMED: tuple[Role, ...] = ("script", "named", "work")
"""The roles of files that a validator starts."""


def _existing(
    workspace: Path, folder: str, names: Iterable[str], *, folders: bool = False
) -> set[str]:
    """Return those of the names that are files in the workspace, with what they link to; with `folders`, also folders."""
    root = os.path.realpath(workspace)
    paths = [os.path.normpath(os.path.join(root, folder, name)) for name in names]  # noqa: PTH118 - no link is resolved
    files = [path for path in paths if os.path.isfile(path)]  # noqa: PTH113
    found = [path for file in files for path in (file, os.path.realpath(file))]
    found += [
        f"{path}/"
        for path in paths
        if folders and os.path.isdir(path) and path != root  # noqa: PTH112
    ]
    return {
        path[len(root) + 1 :].replace(os.sep, "/")
        for path in found
        if path.startswith(root + os.sep)
    }


def _files(program: Program) -> Iterator[str]:
    """Yield the files that a program may be made of."""
    first, rest = (program.words[:1] or ("",))[0], program.words[1:]
    if program.module:
        yield from _module_files(first)
    elif _is_path(first):
        yield first
    interprets = program.name in _INTERPRETERS or program.name.startswith(
        ("python", "pypy")
    )
    # The text of the program follows this option. For a shell, -e has another meaning.
    inline = (
        "-e"
        if program.name in ("node", "deno", "bun", "ruby", "perl", "Rscript")
        else "-c"
    )
    if interprets and inline not in rest:
        operands = [
            word
            for word in rest
            if not word.startswith("-") and word not in ("run", "exec", "--")
        ]
        # An option's value may stand before the script, so two words are looked at.
        for word in operands[:1] + [
            word
            for word in operands[1:2]
            if _is_path(word) and not _is_path(operands[0])
        ]:
            yield from (str(word), f"{word.rstrip('/')}/__main__.py")


def _settings(program: Program) -> Iterator[str]:
    """Yield the files that options of a program name as its settings: `make -f X`, `pytest -c X`, `pytest -p plugin`."""
    rest = program.words[1:]
    for option, following in (
        zip_longest(rest, rest[1:], fillvalue="") if program.name in _CONFIGURED else ()
    ):
        name, equals, given = option.partition("=")
        if name in _OPTIONS:
            yield given if equals else following
        elif option[:2] in _OPTIONS:
            yield option[2:]
        elif option == "-p" and program.name in ("pytest", "py.test"):
            yield from _module_files(following)


def _operands(program: Program) -> list[str]:
    """Return the paths that a program which looks at files may look at."""
    words = [
        word
        for word in program.words[1:]
        if re.fullmatch(r"[\w.][\w./+-]*", word) and word not in program.expanded
    ]
    return (
        words[1:]
        if program.name in _WITH_PATTERN
        and not {"-e", "-f"}.intersection(program.words)
        else words
    )


def _decides(program: Program) -> bool:
    """Return whether the result of a program that looks at files counts: nothing runs in its place, or compares it."""
    lost = program.lost
    return lost is None or (
        lost.how != "||" and lost.instead.partition(" ")[0] not in _EXPECTS
    )


def _outside(program: Program, folder: str) -> Iterator[str]:
    """Yield the words of a program, and the values of its options, that may be paths outside of the workspace."""
    for word in program.words:
        path = posixpath.normpath(
            posixpath.join(folder, word.partition("=")[2] or word)
        )
        if path.startswith("../") and path.strip("./"):
            yield path


def _inside(workspace: Path, folder: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the names as paths in the workspace, if they are no folders there; they need not exist."""
    for name in names:
        path = posixpath.normpath(posixpath.join(folder, name))
        if not path.startswith("../") and not (workspace / path).is_dir():
            yield path


def _is_path(word: str) -> bool:
    return "/" in word or "." in word


def _module_files(module: str) -> Iterator[str]:
    """Yield what importing or running a module may execute: its packages' __init__ files, and itself."""
    parts = module.split(".")
    yield from (
        f"{'/'.join(parts[:length])}/__init__.py" for length in range(1, len(parts) + 1)
    )
    yield from (f"{'/'.join(parts)}.py", f"{'/'.join(parts)}/__main__.py")


def check_files(spec: ValidatorSpec, workspace: Path) -> dict[str, Role]:
    """Return the workspace-relative paths that a validator starts or compares with, sorted, each with its role.

    `./check.sh`, `python tools/check.py`, `python tools` (its __main__.py), `python -m tools.check`, `make -f X`, and what
    they start; `checks:done` is checks.py, or the package. A link is named together with the file it leads to. A folder
    that `diff` reads ends with a slash. What a program merely reads (`mypy src/app.py`) is left out.
    """
    return dict(sorted(FollowedLines(spec, workspace).roles.items()))


def lines_followed(spec: ValidatorSpec, workspace: Path) -> tuple[str, ...]:
    """Return the command line of a validator and the texts of scripts, recipes and npm scripts that it leads to."""
    return tuple(line for line, _ in FollowedLines(spec, workspace).read)


def is_named_like_check(path: str) -> bool:
    """Return whether the name of a file or of one of its folders says that it checks something."""
    stem = posixpath.splitext(path)[0]
    return _CHECKS.search(_CAMEL.sub("_", stem).lower().replace("_", "-")) is not None


class FollowedLines:
    """The lines that a validator runs, directly or through scripts, with their programs, and the files that they lead to."""

    def __init__(self, spec: ValidatorSpec, workspace: Path) -> None:
        self._workspace = workspace
        self.roles: dict[str, Role] = {}
        self.read: dict[tuple[str, str], None] = {}
        """The lines that were read, with the folder in which they run."""
        self.outside: set[str] = set()
        """Files and folders outside of the workspace that the lines name, relative to it: "../ci/check.sh"."""
        self.programs: list[Program | None] = []
        """None stands for a line that is not understood, and for a Python callable."""
        self.follow(spec.run or "", spec.cwd)
        if spec.python is not None:
            self.programs.append(None)
            module = spec.python.partition(":")[0]
            entries = [
                entry
                for entry in spec.env.get("PYTHONPATH", "").split(os.pathsep)
                if entry
            ]
            for folder in (
                spec.cwd,
                "",
                *(posixpath.join(spec.cwd, entry) for entry in entries),
            ):
                self.add(
                    "script", _existing(self._workspace, folder, _module_files(module))
                )
            self.add_earlier(module, spec.cwd)

    def add(self, role: Role, paths: Iterable[str]) -> None:
        """Add paths; of several roles of a path, the strictest counts."""
        for path in paths:
            self.roles[path] = max(
                role, self.roles.get(path, role), key=STRICTNESS.index
            )

    def follow(self, line: str, folder: str, depth: int = 0) -> None:
        """Follow the programs of a line that runs in a folder of the workspace, and the scripts that they run."""
        if depth > _DEEPEST or (line, folder) in self.read:
            return
        self.read[line, folder] = None
        # A script that is not understood as a whole is read line by line.
        found = programs(line) or [
            program for part in line.splitlines() for program in programs(part)
        ]
        self.programs += found or ([None] if line.strip() else [])
        for program in found:
            place = posixpath.normpath(posixpath.join(folder, program.folder))
            self.outside |= {
                path
                for path in _outside(program, place)
                if (self._workspace / path).exists()
            }
            if program.module:
                tests = [
                    word
                    for word in program.words[1:]
                    if word.partition(".")[0].isidentifier()
                ]
                for module in (
                    program.words[0],
                    *(tests if program.name == "unittest" else ()),
                ):
                    self.add_earlier(module, place)
            if program.name in _EXPECTS:
                self.add(
                    "compared",
                    _existing(self._workspace, place, program.words[1:], folders=True),
                )
            elif program.name in _LOOKS_AT and not depth and _decides(program):
                self.add("read", _inside(self._workspace, place, _operands(program)))
            for where in dict.fromkeys(
                (place, folder)
            ):  # a `cd` in a subshell counts as well
                self.add(
                    "script", _existing(self._workspace, where, _settings(program))
                )
                for path in sorted(_existing(self._workspace, where, _files(program))):
                    self._take(path, program, where, depth)
            if program.name in ("pytest", "py.test"):
                self._add_plugins(place)
            for called in self._called(program, place) if depth < _DEEPEST else ():
                self.follow(called, place, depth + 1)

    def _take(self, path: str, program: Program, folder: str, depth: int) -> None:
        lost, is_check = program.lost, is_named_like_check(path)
        text = file_text(self._workspace / path)
        is_run_by_shell = program.name in SHELLS | {"source", "."} or path.endswith(
            ".sh"
        )
        is_shell = is_run_by_shell or (
            "." not in posixpath.basename(path) and _SHELL.match(text) is not None
        )
        is_compared = (
            lost is not None
            and lost.how == "|"
            and lost.instead.partition(" ")[0] in _COMPARES
        )
        if is_check and not (is_compared and depth):
            self.add("script", (path,))
        elif not is_compared and (is_shell or (_TOOLING.search(path) and not depth)):
            self.add("named", (path,))
        elif not depth:
            self.add("work", (path,))
        if path.endswith(".py") and self.roles.get(path) == "script":
            modules = {
                name
                for found in _IMPORT.findall(text)
                for name in re.findall(r"\w+", found)
            }
            for name in modules & sys.stdlib_module_names:
                self._add_missing(
                    posixpath.dirname(path), f"{name}.py", f"{name}/__init__.py"
                )
        if is_shell and not is_compared:
            self.follow(text, folder, depth + 1)

    def _add_plugins(self, folder: str) -> None:
        """Add the modules of the workspace that pytest loads as plugins, by its settings and the first conftest.py."""
        texts = [
            file_text(self._workspace / folder / name) for name in _SETTINGS_OF_PYTEST
        ]
        names = [
            name
            for text in texts
            for found in _PLUGINS.findall(text)
            for name in re.findall(r"[\w.]+", "".join(found))
        ]
        for name in names:
            self.add(
                "script",
                _existing(self._workspace, folder, [*_module_files(name)][-3:-1]),
            )

    def _called(self, program: Program, folder: str) -> list[str]:
        """Return the lines of recipes of make and of scripts of package.json that a program calls."""
        words, place = program.words[1:], self._workspace / folder
        if program.name in PACKAGE_MANAGERS:
            operands = [
                word
                for word in words
                if not word.startswith("-") and word not in ("run", "run-script")
            ]
            name = "test" if operands[:1] == ["t"] else "".join(operands[:1])
            return [package_scripts(file_text(place / "package.json")).get(name, "")]
        if program.name not in MAKE or any(
            word.startswith(_ELSEWHERE) for word in words
        ):
            return []
        makefile = makefile_in(place)
        text = file_text(place / makefile) if makefile else ""
        for included in " ".join(INCLUDE.findall(text)).split():
            self.add("named", _existing(self._workspace, folder, [included]))
        if makefile:
            # make does not run a target that is the name of an existing file, unless it is phony.
            phony = " ".join(PHONY.findall(text)).split()
            targets = (
                word
                for word in words
                if word in make_targets(text) and word not in phony
            )
            self._add_missing(folder, *MAKEFILES[: MAKEFILES.index(makefile)], *targets)
        return recipes_of(text, words)

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
            if not path.startswith("../") and not os.path.lexists(
                self._workspace / path
            ):
                self.add("before", (path,))
