"""The files that a validator names: its scripts and its Python module, as they are found in the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from goalrunner.model.goal import ValidatorSpec
from goalrunner.shell import Program, programs

_INTERPRETERS = frozenset(
    """
    sh bash dash zsh ksh ash fish node deno bun ts-node tsx ruby perl php lua Rscript julia tclsh source . pypy pypy3
    """.split()  # noqa: SIM905 - a table, to be read
)
_SCRIPT_OPTIONS = {
    "make": ("-f", "--file", "--makefile"),
    "gmake": ("-f", "--file", "--makefile"),
    "just": ("-f", "--justfile"),
    "task": ("-t", "--taskfile"),
    "nox": ("-f", "--noxfile"),
    "tox": ("-c", "--conf"),
    "awk": ("-f", "--file"),
    "pytest": ("-c", "--config-file"),
    "py.test": ("-c", "--config-file"),
}
_INLINE = dict.fromkeys(("node", "deno", "bun", "ruby", "perl", "lua", "julia", "Rscript"), "-e")
"""The option behind which the program itself stands; -c for all others."""
_WORDS = frozenset({"run", "exec", "--"})


def named_paths(spec: ValidatorSpec, workspace: Path) -> tuple[str, ...]:
    """Return the workspace-relative paths of the existing files that make up a check, sorted.

    `./check.sh`, `python tools/check.py`, `python tools` (its __main__.py), `python -m tools.check`, `make -f X`;
    `checks:done` is checks.py, or the package.
    A link is named together with the file it leads to. What a program merely reads (`mypy src/app.py`) is left out.
    """
    root = os.path.realpath(workspace)
    start = os.path.normpath(os.path.join(root, spec.cwd))  # noqa: PTH118 - no link may be resolved here
    found: set[str] = set()
    if spec.python is not None:
        candidates: Iterator[tuple[str, str]] = (
            (folder, file)
            for folder in (start, root, *_python_path(spec.env.get("PYTHONPATH", ""), start))
            for file in _module_files(spec.python.partition(":")[0])
        )
    else:
        candidates = (
            (os.path.join(start, folder), name)  # noqa: PTH118
            for program in programs(spec.run or "")
            for name in _named(program)
            for folder in dict.fromkeys((program.folder, ""))
        )
    for folder, name in candidates:
        found.update(_existing(folder, name, root))
    return tuple(sorted(found - {""}))


def named_by(program: Program, workspace: Path, folder: str) -> tuple[str, ...]:
    """Return the workspace-relative paths of the existing files that a program of a line in `folder` is made of."""
    root = os.path.realpath(workspace)
    names = _named(program)
    found = {path for name in names for path in _existing(os.path.join(root, folder), name, root)}  # noqa: PTH118
    return tuple(sorted(found - {""}))


def _existing(folder: str, name: str, root: str) -> Iterator[str]:
    path = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118 - no link may be resolved here
    if os.path.isfile(path):  # noqa: PTH113
        yield from (_inside(each, root) for each in (path, os.path.realpath(path)))


def _named(program: Program) -> Iterator[str]:
    """Yield the files that a program may be made of."""
    if not program.words:
        return
    first, rest = program.words[0], program.words[1:]
    if program.module:
        yield from _module_files(first)
    elif _is_script(first):
        yield first
    if program.name in _INTERPRETERS or program.name.startswith("python") or program.name == "coverage":
        for word in _first_operands(program):
            yield from (word, f"{word.rstrip('/')}/__main__.py")
    options = _SCRIPT_OPTIONS.get(program.name, ())
    for at, word in enumerate(rest):
        name, equals, value = word.partition("=")
        if name in options:
            yield value if equals else (rest[at + 1] if at + 1 < len(rest) else "")
        elif len(word) > 2 and word[:2] in options:
            yield word[2:]


def _first_operands(program: Program) -> Iterator[str]:
    """Yield the script that an interpreter is given. An option's value may stand before it, so two words are looked at."""
    words = program.words[1:]
    if _INLINE.get(program.name, "-c") in words:
        return
    operands = [word for word in words if not word.startswith("-") and word not in _WORDS]
    for at, word in enumerate(operands[:2]):
        if at == 0 or (_is_script(word) and not _is_script(operands[0])):
            yield word


def _is_script(word: str) -> bool:
    return "/" in word or "." in word


def _module_files(module: str) -> Iterator[str]:
    """Yield what importing or running a module may execute: its packages' __init__ files, and itself."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        folder = "/".join(parts[:length])
        yield f"{folder}/__init__.py"
    yield f"{'/'.join(parts)}.py"
    yield f"{'/'.join(parts)}/__main__.py"


def _python_path(text: str, start: str) -> Iterator[str]:
    yield from (os.path.join(start, entry) for entry in text.split(os.pathsep) if entry)  # noqa: PTH118


def _inside(path: str, root: str) -> str:
    """Return a path relative to the workspace with forward slashes; empty for one outside of it."""
    if not path.startswith(root + os.sep):
        return ""
    return path[len(root) + 1 :].replace(os.sep, "/")
