"""The text of the scripts that a validator runs: its line, script files, targets of make, scripts of package.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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


def script_text(spec: ValidatorSpec, cwd: Path, workspace: Path) -> str:
    """Return what a validator runs, as far as it can be found, with the options of pytest in the project's configuration."""
    found = [spec.run or "", *(_read(workspace / name) for name in named_paths(spec, workspace))]
    line = "\n".join(found)
    if re.search(r"\b(?:make|just)\b", line):
        found += [_reachable(_targets(_read(cwd / name)), line, first=True) for name in _MAKEFILES]
    found.append(_reachable(_scripts(_read(cwd / "package.json")), line, first=False))
    found += [_read(cwd / name) for name in _SETTINGS]
    found += _ADDOPTS.findall(_read(cwd / "pyproject.toml"))
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


def _scripts(text: str) -> dict[str, str]:
    """Return the scripts of a package.json."""
    try:
        scripts = json.loads(text)["scripts"]
        return {str(name): str(script) for name, script in scripts.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_LONGEST).decode(errors="replace")
    except OSError:
        return ""
