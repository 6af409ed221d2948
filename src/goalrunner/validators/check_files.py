"""The files that make up a check.

They are what the validator's line starts, directly or through scripts, make and
package.json, and what it compares results with.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.checking.ignored_content import digest_of_path
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.shell_programs import Program, programs
from goalrunner.core.tools import (
    MAKE,
    MAKEFILES,
    PACKAGE_MANAGERS,
    PYTHON_TOOLS,
    SHELLS,
)
from goalrunner.validators.program_paths import (
    PYTEST_PROGRAMS,
    existing_paths,
    module_files,
    operands_of_reader,
    paths_inside,
    paths_outside,
    settings_files,
    started_files,
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

_DEEPEST = 3
"""Scripts that start scripts are followed this far."""
_COMPARES = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "jq"})
_EXPECTS = frozenset({"diff", "cmp", "comm"})
_LOOKS_AT = frozenset(
    "grep egrep fgrep rg jq yq test [ [[ cat wc head tail ls stat file".split()
)
# `runTests.sh` has the words `run` and `tests`.
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Not after a letter: `latest` and `contest` contain `test`.
_CHECKS = re.compile(
    r"(?<![a-z])(?:run|smoke|unit|self)?"
    r"(?:check|test|verify|validate|lint|spec|accept|acceptance|ci)(?:s|ing)?(?![a-z])"
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
# `pytest_plugins = ["a", "b"]` in a conftest.py, `-p a` in settings
_PLUGINS = re.compile(
    r"^pytest_plugins\s*=\s*([\[(]?[^\])\n]*(?:\n[^\])]*)?)"
    r"|(?<=[\s\"'])-p[ \"',]+([\w.]+)",
    re.MULTILINE,
)
_IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+(?:\s*,\s*\w+)*)", re.MULTILINE)
_ELSEWHERE = ("-f", "--file", "--makefile", "-C", "--directory")
"""Options with which make reads another Makefile than that of its folder."""
_INSTALLED = PYTHON_TOOLS | sys.stdlib_module_names

Role = Literal["script", "named", "compared", "work", "read", "before"]
"""Why a path belongs to a validator.

script: a check.
named: started or included, but not named like a check.
compared: an expectation.
work: the program that is checked.
read: the `grep` or `test` of the line itself looks at it. A file that a script looks at
    has no role: it may steer the script.
before: it does not exist; if it did, it would be used in place of a file of the check.
"""
STRICTNESS: tuple[Role, ...] = ("before", "read", "work", "compared", "named", "script")
"""The roles, the strictest last."""
NAMED: tuple[Role, ...] = ("script", "named", "work")
"""The roles of files that a validator starts."""


def check_files(spec: ValidatorSpec, workspace: Path) -> dict[str, Role]:
    """Return the paths that a validator starts or compares with, each with its role.

    The paths are sorted and relative to the workspace. They come from `./check.sh`,
    `python tools/check.py`, `python tools` (its __main__.py), `python -m tools.check`,
    `make -f X`, and from what these start; `checks:done` is checks.py, or the package.
    A link is named together with its target. A folder that `diff` reads ends with a
    slash. What a program only reads (`mypy src/app.py`) is left out.
    """
    return dict(sorted(FollowedLines(spec, workspace).roles.items()))


def lines_followed(spec: ValidatorSpec, workspace: Path) -> tuple[str, ...]:
    """Return the command line of a validator and the scripts that it leads to.

    These are the texts of shell scripts, recipes of make and scripts of package.json.
    """
    followed = FollowedLines(spec, workspace)
    return tuple(line for line, _ in followed.read)


@dataclass(frozen=True)
class NeededPaths:
    """Files and folders without which a validator cannot run."""

    scripts: frozenset[str]
    """Those that belong to the check."""
    operands: frozenset[str]
    """Others that it names; folders end with a slash."""
    manifests: frozenset[str]
    """A Makefile or package.json that has recipes or scripts of the validator which the
    start does not have, so that its version of the start does not do."""


def needed_paths(
    spec: ValidatorSpec, workspace: Path, known_lines: Collection[str]
) -> NeededPaths:
    """Return what a command line names, and the scripts name to which it leads.

    Examples are `sh run.sh`, `mypy new.py` and `cd new && make`. `known_lines` are
    digests of lines (`digest_of_path`) of which only scripts of checks count: a script
    that existed before the work may start what the work is to create. What `grep` or
    `test` looks at is left out, because its absence is a result.
    """
    followed = FollowedLines(spec, workspace)
    scripts: set[str] = set()
    for path, role in followed.roles.items():
        if role in ("script", "named"):
            scripts.add(path)
    operands: set[str] = set()
    manifests: set[str] = set()
    for (line, folder), needed in followed.needed.items():
        is_new = digest_of_path(line) not in known_lines
        if is_new or (line, folder) == (spec.run, spec.cwd):
            operands |= needed
        if is_new and (line, folder) in followed.manifests:
            manifests.add(followed.manifests[line, folder])
    return NeededPaths(
        frozenset(scripts), frozenset(operands - scripts), frozenset(manifests)
    )


def is_named_like_check(path: str) -> bool:
    """Return whether a file, or one of its folders, has the name of a check."""
    stem = posixpath.splitext(path)[0]
    words = _CAMEL.sub("_", stem).lower().replace("_", "-")
    return _CHECKS.search(words) is not None


class FollowedLines:
    """The lines that a validator runs, with the programs and files that they name.

    It runs them directly or through scripts.
    """

    def __init__(self, spec: ValidatorSpec, workspace: Path) -> None:
        self._workspace = workspace
        self.roles: dict[str, Role] = {}
        self.read: dict[tuple[str, str], None] = {}
        """The lines that were read, in order, each with the folder in which it runs."""
        self.needed: dict[tuple[str, str], set[str]] = {}
        """The existing files and folders that the programs of each line name."""
        self.manifests: dict[tuple[str, str], str] = {}
        """The Makefile or package.json that has a line."""
        self.outside: set[str] = set()
        """Paths outside of the workspace that the lines name: "../ci/check.sh"."""
        self.programs: list[Program | None] = []
        """None stands for a line that is not understood, and for a Python callable."""
        self._follow(spec.run or "", spec.cwd)
        if spec.python is not None:
            self._add_callable(spec.python.partition(":")[0], spec)

    def _add(self, role: Role, paths: Iterable[str]) -> None:
        """Add paths; of several roles of a path, the strictest counts."""
        for path in paths:
            earlier_role = self.roles.get(path, role)
            self.roles[path] = max(role, earlier_role, key=STRICTNESS.index)

    def _add_callable(self, module: str, spec: ValidatorSpec) -> None:
        """Add the module of a Python validator, wherever it may be imported from."""
        self.programs.append(None)
        python_path = spec.env.get("PYTHONPATH", "").split(os.pathsep)
        entries = [posixpath.join(spec.cwd, entry) for entry in python_path if entry]
        for folder in (spec.cwd, "", *entries):
            modules = existing_paths(self._workspace, folder, module_files(module))
            self._add("script", modules)
        self._add_shadowing(module, spec.cwd)

    def _follow(self, line: str, folder: str, depth: int = 0) -> None:
        """Follow the programs of a line that runs in a folder of the workspace."""
        if depth > _DEEPEST or (line, folder) in self.read:
            return
        self.read[line, folder] = None
        started = list(programs(line))
        if not started:
            # A script that is not understood as a whole is read line by line.
            for part in line.splitlines():
                started += programs(part)
        self.programs += started
        if not started and line.strip():
            self.programs.append(None)
        needed = self.needed.setdefault((line, folder), set())
        for program in started:
            needed |= self._needed_by(program, folder)
            self._follow_program(program, folder, depth)

    def _needed_by(self, program: Program, folder: str) -> set[str]:
        """Return the existing paths without which a program cannot run."""
        # Without what these look at, they still run.
        if program.name in _LOOKS_AT | _EXPECTS or _is_compared(program):
            return set()
        names = [*settings_files(program), *started_files(program)]
        for word in program.words:
            # `--config=check.toml`
            names += (word, word.partition("=")[2])
        place = posixpath.join(folder, program.folder)
        names = [posixpath.join(place, name) for name in names if name]
        return existing_paths(self._workspace, "", [place, *names], folders=True)

    def _follow_program(self, program: Program, folder: str, depth: int) -> None:
        """Add the files of a program, and follow the scripts that it runs."""
        place = posixpath.normpath(posixpath.join(folder, program.folder))
        for path in paths_outside(program, place):
            if (self._workspace / path).exists():
                self.outside.add(path)
        self._add_shadowing_modules(program, place)
        self._add_read_files(program, place, is_of_line=depth == 0)
        # A `cd` in a subshell counts as one before the program, so both folders are
        # looked at.
        for start_folder in dict.fromkeys((place, folder)):
            self._add_started_files(program, start_folder, depth)
        if program.name in PYTEST_PROGRAMS:
            self._add_plugins(place)
        if depth < _DEEPEST:
            manifest, called_lines = self._called_lines(program, place)
            for called_line in called_lines:
                self.manifests[called_line, place] = manifest
                self._follow(called_line, place, depth + 1)

    def _add_shadowing_modules(self, program: Program, folder: str) -> None:
        """Add what would be imported in place of the modules of `python -m`."""
        if not program.module:
            return
        self._add_shadowing(program.words[0], folder)
        if program.name != "unittest":
            return
        for word in program.words[1:]:
            # A word of unittest that is no option names a module of tests.
            if word.partition(".")[0].isidentifier():
                self._add_shadowing(word, folder)

    def _add_read_files(
        self, program: Program, folder: str, *, is_of_line: bool
    ) -> None:
        """Add the files that a program compares or looks at."""
        if program.name in _EXPECTS:
            operands = program.words[1:]
            expectations = existing_paths(
                self._workspace, folder, operands, folders=True
            )
            self._add("compared", expectations)
        elif program.name in _LOOKS_AT and is_of_line and _decides(program):
            operands_in_workspace = paths_inside(
                self._workspace, folder, operands_of_reader(program)
            )
            self._add("read", operands_in_workspace)

    def _add_started_files(self, program: Program, folder: str, depth: int) -> None:
        settings = existing_paths(self._workspace, folder, settings_files(program))
        self._add("script", settings)
        started = existing_paths(self._workspace, folder, started_files(program))
        for path in sorted(started):
            text = file_text(self._workspace / path)
            is_script = _is_run_by_shell(path, program) or _is_shell_script(path, text)
            is_compared = _is_compared(program)
            role = _role_of_started(path, depth, is_script, is_compared)
            if role is not None:
                self._add(role, (path,))
            if path.endswith(".py") and self.roles.get(path) == "script":
                self._add_shadowed_imports(path, text)
            if is_script and not is_compared:
                self._follow(text, folder, depth + 1)

    def _add_shadowed_imports(self, path: str, text: str) -> None:
        """Add files beside a script that would replace the standard library."""
        imported: set[str] = set()
        for names in _IMPORT.findall(text):
            imported.update(re.findall(r"\w+", names))
        for name in imported & sys.stdlib_module_names:
            self._add_missing(
                posixpath.dirname(path), f"{name}.py", f"{name}/__init__.py"
            )

    def _add_plugins(self, folder: str) -> None:
        """Add the modules of the workspace that pytest loads as plugins.

        They are named in its settings and in the first conftest.py.
        """
        for settings_name in _SETTINGS_OF_PYTEST:
            text = file_text(self._workspace / folder / settings_name)
            for groups in _PLUGINS.findall(text):
                for module in re.findall(r"[\w.]+", "".join(groups)):
                    # Of the plugin itself, not of the packages around it.
                    files = [*module_files(module)][-3:-1]
                    plugin = existing_paths(self._workspace, folder, files)
                    self._add("script", plugin)

    def _called_lines(self, program: Program, folder: str) -> tuple[str, list[str]]:
        """Return the recipes of make, or the script of package.json, of a program.

        The file that has them comes first.
        """
        # `npm test`, `npm run test` and `npm t` run the script test.
        if program.name in PACKAGE_MANAGERS:
            manifest = posixpath.normpath(posixpath.join(folder, "package.json"))
            scripts = package_scripts(file_text(self._workspace / manifest))
            return manifest, [scripts.get(_script_name(program), "")]
        words = program.words[1:]
        if program.name not in MAKE:
            return "", []
        if any(word.startswith(_ELSEWHERE) for word in words):
            return "", []
        makefile = makefile_in(self._workspace / folder)
        if not makefile:
            return "", []
        text = file_text(self._workspace / folder / makefile)
        for included in " ".join(INCLUDE.findall(text)).split():
            self._add("named", existing_paths(self._workspace, folder, [included]))
        other_makefiles = MAKEFILES[: MAKEFILES.index(makefile)]
        self._add_missing(folder, *other_makefiles, *_file_targets(text, words))
        path = posixpath.normpath(posixpath.join(folder, makefile))
        return path, recipes_of(text, words)

    def _add_shadowing(self, module: str, folder: str) -> None:
        """Add missing files that would be imported in place of an existing module."""
        # The working folder comes before installed modules on sys.path, a package
        # before a module, and a module before a folder without an __init__.py.
        top, path = module.partition(".")[0], module.replace(".", "/")
        if top in _INSTALLED:
            self._add_missing(folder, f"{top}.py", f"{top}/__init__.py")
        if (self._workspace / folder / f"{path}.py").is_file():
            self._add_missing(folder, f"{path}/__init__.py")
        if (self._workspace / folder / top).is_dir():
            self._add_missing(folder, f"{top}.py")

    def _add_missing(self, folder: str, *names: str) -> None:
        """Add those of the names that do not exist in the workspace."""
        for name in names:
            path = posixpath.normpath(posixpath.join(folder, name))
            is_inside = not path.startswith("../")
            if is_inside and not os.path.lexists(self._workspace / path):
                self._add("before", (path,))


def _decides(program: Program) -> bool:
    """Return whether the result of a program that looks at files counts.

    It does not if another program runs in its place, or compares its output.
    """
    lost = program.lost
    if lost is None:
        return True
    return lost.how != "||" and lost.instead.partition(" ")[0] not in _EXPECTS


def _is_compared(program: Program) -> bool:
    """Return whether the output of a program goes to one that compares."""
    lost = program.lost
    if lost is None or lost.how != "|":
        return False
    return lost.instead.partition(" ")[0] in _COMPARES


def _is_run_by_shell(path: str, program: Program) -> bool:
    return program.name in SHELLS | {"source", "."} or path.endswith(".sh")


def _is_shell_script(path: str, text: str) -> bool:
    has_extension = "." in posixpath.basename(path)
    return not has_extension and _SHELL.match(text) is not None


def _role_of_started(
    path: str, depth: int, is_script: bool, is_compared: bool
) -> Role | None:
    """Return the role of a file that a program starts; None if it has none.

    `depth` is 0 in the line of the validator itself. A program whose output is compared
    is the work that is checked, unless the line itself starts a check that way.
    """
    is_of_line = depth == 0
    if is_named_like_check(path) and (is_of_line or not is_compared):
        return "script"
    is_tooling = is_of_line and _TOOLING.search(path) is not None
    if not is_compared and (is_script or is_tooling):
        return "named"
    return "work" if is_of_line else None


def _script_name(program: Program) -> str:
    """Return the name of the script of package.json that a program runs."""
    for word in program.words[1:]:
        if not word.startswith("-") and word not in ("run", "run-script"):
            return "test" if word == "t" else word
    return ""


def _file_targets(makefile: str, words: Iterable[str]) -> list[str]:
    """Return the targets among the words that are not phony.

    make does not run such a target if a file has its name.
    """
    phony = " ".join(PHONY.findall(makefile)).split()
    targets = make_targets(makefile)
    return [word for word in words if word in targets and word not in phony]
