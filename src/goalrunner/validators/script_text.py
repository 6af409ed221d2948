"""The text of the scripts that a validator runs: its line, script files, targets of make, scripts of package.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.model.goal import ValidatorSpec
from goalrunner.validators.scripts import named_paths

_LONGEST = 1_000_000
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile", "justfile")
_SETTINGS = ("pytest.ini", "tox.ini", "setup.cfg", "noxfile.py")
"""Files with options of pytest, and with the lines that tox and nox run."""
_ADDOPTS = re.compile(r"^addopts\s*=\s*(?:\"[^\"]*\"|'[^']*'|\[[^\]]*\])", re.MULTILINE)
_TARGET = re.compile(r"^([\w./-][\w./ -]*):(?!=).*$", re.MULTILINE)
_WORD = re.compile(r"[\w./:-]+")
_INCLUDE = re.compile(r"^[ ]*-?s?include[ \t]+([^#\n]+)", re.MULTILINE)
_PHONY = re.compile(r"^\.PHONY[ \t]*:(.*)$", re.MULTILINE)
_PACKAGE_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
_TEST_SCRIPTS = frozenset({"test", "t", "tst"})


def script_text(spec: ValidatorSpec, cwd: Path, workspace: Path) -> str:
    """Return what a validator runs, as far as it can be found, with the options of pytest in the project's configuration."""
    found = [spec.run or "", *(text_of(workspace / name) for name in named_paths(spec, workspace))]
    line = "\n".join(found)
    if re.search(r"\b(?:make|just)\b", line):
        found += [_reachable(_targets(text_of(cwd / name)), line, first=True) for name in _MAKEFILES]
    found.append(_reachable(_scripts(text_of(cwd / "package.json")), line, first=False))
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


def _targets(text: str) -> dict[str, str]:
    """Return the targets of a Makefile with their prerequisites and recipes."""
    found: dict[str, str] = {}
    starts = [*_TARGET.finditer(text)]
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        for name in start[1].split():
            if not name.startswith("."):
                found[name] = f"{found.get(name, '')}{text[start.end(1) + 1 : end]}\n"
    return found


def recipes(text: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of the recipes of a Makefile's targets that words of a command name, or of the first target.

    Prerequisites are followed from targets without a recipe: other ones build what is checked.
    """
    parts = _targets(text)
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
    return tuple(word for word in words if word in _targets(text) and word not in phony)


def included(text: str) -> tuple[str, ...]:
    """Return the names of the files that a Makefile includes."""
    return tuple(name for found in _INCLUDE.findall(text) for name in found.split())


def scripts_called(text: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return the scripts of a package.json that the words of a command call, as in `npm test` and `npm run lint`."""
    if not words or words[0].rpartition("/")[2] not in _PACKAGE_MANAGERS:
        return ()
    names = [word for word in words[1:] if not word.startswith("-") and word not in ("run", "run-script")][:1]
    if names and names[0] in _TEST_SCRIPTS:
        names = ["test"]
    scripts = _scripts(text)
    return tuple(scripts[name] for name in names if name in scripts)


def _scripts(text: str) -> dict[str, str]:
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
