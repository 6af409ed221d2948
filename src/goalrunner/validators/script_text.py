"""The files that a validator's line is made of, and what its scripts, Makefile and package.json start."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalrunner.core.goal import ValidatorSpec
from goalrunner.core.shell_programs import Program, programs

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_INTERPRETERS = frozenset(
    """
    sh bash dash zsh ksh ash fish node deno bun ts-node tsx ruby perl php lua Rscript julia tclsh source . pypy pypy3
    coverage
    """.split()  # noqa: SIM905 - a table, to be read
)
_INLINE = dict.fromkeys(("node", "deno", "bun", "ruby", "perl", "lua", "julia", "Rscript"), "-e")
"""The option behind which the program itself stands; -c for all others."""
_SCRIPT_OPTIONS = {
    **dict.fromkeys(("make", "gmake"), ("-f", "--file", "--makefile")),
    **dict.fromkeys(("pytest", "py.test"), ("-c", "--config-file")),
    "just": ("-f", "--justfile"),
    "task": ("-t", "--taskfile"),
    "nox": ("-f", "--noxfile"),
    "tox": ("-c", "--conf"),
    "awk": ("-f", "--file"),
}
_LONGEST = 4_000_000
"""Bytes of a file that are read; none that is longer is a script."""
_SETTINGS = ("pytest.ini", "tox.ini", "setup.cfg", "noxfile.py")
"""Files with options of pytest, and with the lines that tox and nox run."""
_ADDOPTS = re.compile(r"^addopts\s*=\s*(?:\"[^\"]*\"|'[^']*'|\[[^\]]*\])", re.MULTILINE)
_TARGET = re.compile(r"^([\w./-][\w./ -]*):(?!=).*$", re.MULTILINE)
_WORD = re.compile(r"[\w./:-]+")
_INCLUDE = re.compile(r"^[ ]*-?s?include[ \t]+([^#\n]+)", re.MULTILINE)
_PHONY = re.compile(r"^\.PHONY[ \t]*:(.*)$", re.MULTILINE)
_PACKAGE_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})


def named_paths(spec: ValidatorSpec, workspace: Path) -> tuple[str, ...]:
    """Return the workspace-relative paths of the existing files that make up a check, sorted.

    `./check.sh`, `python tools/check.py`, `python tools` (its __main__.py), `python -m tools.check`, `make -f X`;
    `checks:done` is checks.py, or the package.
    A link is named together with the file it leads to. What a program merely reads (`mypy src/app.py`) is left out.
    """
    if spec.python is None:
        line = programs(spec.run or "")
        found = {
            path
            for program in line
            for folder in (program.folder, "")
            for path in named_by(program, workspace, os.path.join(spec.cwd, folder))  # noqa: PTH118
        }
    else:
        entries = [entry for entry in spec.env.get("PYTHONPATH", "").split(os.pathsep) if entry]
        folders = [spec.cwd, "", *(os.path.join(spec.cwd, entry) for entry in entries)]  # noqa: PTH118
        names = [*_module_files(spec.python.partition(":")[0])]
        found = {path for folder in folders for path in _existing(workspace, folder, names)}
    return tuple(sorted(found))


def named_by(program: Program, workspace: Path, folder: str) -> tuple[str, ...]:
    """Return the workspace-relative paths of the existing files that a program of a line in `folder` is made of."""
    return tuple(sorted(_existing(workspace, folder, _files(program))))


def _existing(workspace: Path, folder: str, names: Iterator[str] | Sequence[str]) -> set[str]:
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
    interprets = program.name in _INTERPRETERS or program.name.startswith("python")
    if interprets and _INLINE.get(program.name, "-c") not in rest:
        operands = [word for word in rest if not word.startswith("-") and word not in ("run", "exec", "--")]
        # An option's value may stand before the script, so two words are looked at.
        scripts = operands[:1] + [word for word in operands[1:2] if _is_path(word) and not _is_path(operands[0])]
        for word in scripts:
            yield from (word, f"{word.rstrip('/')}/__main__.py")
    options = _SCRIPT_OPTIONS.get(program.name, ())
    for at, word in enumerate(rest):
        name, equals, value = word.partition("=")
        if name in options:
            yield value if equals else (rest[at + 1] if at + 1 < len(rest) else "")
        elif len(word) > 2 and word[:2] in options:
            yield word[2:]


def _is_path(word: str) -> bool:
    return "/" in word or "." in word


def _module_files(module: str) -> Iterator[str]:
    """Yield what importing or running a module may execute: its packages' __init__ files, and itself."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        yield f"{'/'.join(parts[:length])}/__init__.py"
    yield f"{'/'.join(parts)}.py"
    yield f"{'/'.join(parts)}/__main__.py"


def script_text(spec: ValidatorSpec, cwd: Path, workspace: Path) -> str:
    """Return what a validator runs, as far as it can be found, with the options of pytest in the project's configuration."""
    found = [spec.run or "", *(text_of(workspace / name) for name in named_paths(spec, workspace))]
    line = "\n".join(found)
    if re.search(r"\b(?:make|just)\b", line):
        found += [_reachable(make_targets(text_of(cwd / name)), line, first=True) for name in (*MAKEFILES, "justfile")]
    found.append(_reachable(package_scripts(text_of(cwd / "package.json")), line, first=False))
    found += [text_of(cwd / name) for name in _SETTINGS]
    found += _ADDOPTS.findall(text_of(cwd / "pyproject.toml"))
    return "\n".join(filter(None, found))


def _reachable(parts: Mapping[str, str], line: str, *, first: bool) -> str:
    """Return the parts that the line names, and those that these name in turn. `first` is the one without a name."""
    words = set(_WORD.findall(line))
    taken: dict[str, str] = {}
    if first and not words & parts.keys():
        words |= set(list(parts)[:1])
    while more := {name: text for name, text in parts.items() if name in words and name not in taken}:
        taken |= more
        words |= {word for text in more.values() for word in _WORD.findall(text)}
    return "\n".join(taken.values())


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


def recipes(text: str, words: Sequence[str]) -> tuple[str, ...]:
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
    return tuple(found)


def targets_by_name(text: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the targets that words of a command name and make takes for files: one of that name is up to date."""
    phony = {name for found in _PHONY.findall(text) for name in found.split()}
    return tuple(word for word in words if word in make_targets(text) and word not in phony)


def included(text: str) -> tuple[str, ...]:
    """Return the names of the files that a Makefile includes."""
    return tuple(name for found in _INCLUDE.findall(text) for name in found.split())


def scripts_called(text: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the scripts of a package.json that the words of a command call, as in `npm test` and `npm run lint`."""
    if not words or words[0].rpartition("/")[2] not in _PACKAGE_MANAGERS:
        return ()
    operands = [word for word in words[1:] if not word.startswith("-") and word not in ("run", "run-script")]
    name = "test" if operands[:1] in (["t"], ["tst"]) else "".join(operands[:1])
    return tuple(script for known, script in package_scripts(text).items() if known == name)


def package_scripts(text: str) -> dict[str, str]:
    """Return the scripts of a package.json."""
    try:
        scripts = json.loads(text)["scripts"]
        return {str(name): str(script) for name, script in scripts.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def text_of(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_LONGEST).decode(errors="replace")
    except OSError:
        return ""
