"""The paths in the words of one program of a command line."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from goalrunner.core.shell_programs import Program
from goalrunner.core.tools import CHECKERS, CONFIGURED_BY_NAME, MAKE, SHELLS

PYTEST_PROGRAMS = ("pytest", "py.test")
_INTERPRETERS = SHELLS | frozenset(
    "node deno bun ts-node tsx ruby perl php Rscript source . coverage".split()
)
_TEXT_AFTER_E = frozenset("node deno bun ruby perl Rscript".split())
"""Interpreters that run the text after `-e`. For a shell, -e has another meaning."""
_CONFIGURED = MAKE | CHECKERS | CONFIGURED_BY_NAME | {"py.test", "just"}
_SETTINGS_OPTIONS = (
    "-f", "-c", "--file", "--makefile", "--justfile", "--noxfile", "--conf",
    "--config-file", "--config", "--rcfile", "--project",
)  # fmt: skip
"""Options of these programs whose value is a file that decides what is checked."""
_WITH_PATTERN = frozenset({"grep", "egrep", "fgrep", "rg", "jq", "yq"})
"""Programs whose first operand is a pattern, unless an option gives it."""


def existing_paths(
    workspace: Path, folder: str, names: Iterable[str], *, folders: bool = False
) -> set[str]:
    """Return those of the names that are files in the workspace, with their targets.

    The names are relative to a folder, the result to the workspace. With `folders`,
    folders count as well; they end with a slash.
    """
    root = os.path.realpath(workspace)
    paths: list[str] = []
    for name in names:
        # Links are not resolved here: both the link and its target belong to a check.
        path = os.path.normpath(os.path.join(root, folder, name))  # noqa: PTH118
        if os.path.isfile(path):  # noqa: PTH113
            paths += (path, os.path.realpath(path))
        elif folders and os.path.isdir(path) and path != root:  # noqa: PTH112
            paths.append(f"{path}/")
    inside: set[str] = set()
    for path in paths:
        if path.startswith(root + os.sep):
            inside.add(path[len(root) + 1 :].replace(os.sep, "/"))
    return inside


def paths_inside(workspace: Path, folder: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the names as paths in the workspace, without folders.

    The paths need not exist: a check may be that a file is missing.
    """
    for name in names:
        path = posixpath.normpath(posixpath.join(folder, name))
        if not path.startswith("../") and not (workspace / path).is_dir():
            yield path


def paths_outside(program: Program, folder: str) -> Iterator[str]:
    """Yield the words and option values that may be paths outside of the workspace."""
    for word in program.words:
        # `--config=../pytest.ini`
        option_value = word.partition("=")[2]
        path = posixpath.normpath(posixpath.join(folder, option_value or word))
        if path.startswith("../") and path.strip("./"):
            yield path


def started_files(program: Program) -> Iterator[str]:
    """Yield the files that a program may be made of."""
    first_word = program.words[0] if program.words else ""
    if program.module:
        yield from module_files(first_word)
    elif _is_path(first_word):
        yield first_word
    for script in _interpreted_scripts(program):
        yield script
        # Python runs a folder by this file in it.
        yield f"{script.rstrip('/')}/__main__.py"


def _interpreted_scripts(program: Program) -> list[str]:
    """Return the words of an interpreter that may be its script."""
    is_python = program.name.startswith(("python", "pypy"))
    text_option = "-e" if program.name in _TEXT_AFTER_E else "-c"
    arguments = program.words[1:]
    if not (is_python or program.name in _INTERPRETERS) or text_option in arguments:
        return []
    words = [word for word in arguments if not word.startswith("-")]
    operands = [word for word in words if word not in ("run", "exec")]
    # An option's value may stand before the script, so two words are looked at.
    is_second_script = (
        len(operands) > 1 and _is_path(operands[1]) and not _is_path(operands[0])
    )
    return operands[: 2 if is_second_script else 1]


def settings_files(program: Program) -> Iterator[str]:
    """Yield the files that options of a program name as its settings.

    `make -f X`, `pytest -c X`, `pytest -p plugin`.
    """
    if program.name not in _CONFIGURED:
        return
    arguments = program.words[1:]
    for option, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        name, equals, value = option.partition("=")
        if name in _SETTINGS_OPTIONS:
            yield value if equals else following
        elif option[:2] in _SETTINGS_OPTIONS:
            yield option[2:]
        elif option == "-p" and program.name in PYTEST_PROGRAMS:
            yield from module_files(following)


def operands_of_reader(program: Program) -> list[str]:
    """Return the paths that a program which looks at files may look at."""
    operands: list[str] = []
    for word in program.words[1:]:
        is_path = re.fullmatch(r"[\w.][\w./+-]*", word) is not None
        if is_path and word not in program.expanded:
            operands.append(word)
    # `grep -e PATTERN`, `jq -f FILE`
    has_pattern_option = not {"-e", "-f"}.isdisjoint(program.words)
    if program.name in _WITH_PATTERN and not has_pattern_option:
        return operands[1:]
    return operands


def module_files(module: str) -> Iterator[str]:
    """Yield what importing or running a Python module may execute.

    The __init__ files of its packages and its own, then the module and its __main__.
    """
    names = module.split(".")
    for depth in range(1, len(names) + 1):
        package = "/".join(names[:depth])
        yield f"{package}/__init__.py"
    path = "/".join(names)
    yield f"{path}.py"
    yield f"{path}/__main__.py"


def _is_path(word: str) -> bool:
    return "/" in word or "." in word
