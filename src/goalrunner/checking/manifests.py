"""The part of a project's manifest that configures checks. A change elsewhere in it, of dependencies above all, is no
change of a check."""

from __future__ import annotations

import configparser
import json
import posixpath
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

_PYTHON_LINTERS = frozenset(
    {"ruff", "mypy", "pyright", "basedpyright", "pylint", "black", "isort", "flake8", "bandit", "importlinter"}
    | {"ty", "pyrefly", "codespell", "vulture", "deptry", "interrogate", "pydocstyle"}
)
_PYPROJECT = _PYTHON_LINTERS | {"pytest", "coverage", "tox", "nox", "poe", "taskipy"}
_PACKAGE = frozenset(
    {"scripts", "jest", "mocha", "ava", "vitest", "nyc", "c8", "tap", "babel", "eslintConfig", "prettier", "type"}
    | {"imports", "xo", "standard", "stylelint", "config"}
)
_CARGO_FREE = frozenset(
    {"package", "dependencies", "dev-dependencies", "build-dependencies", "features", "workspace", "bin"}
)
_CARGO_PACKAGE = ("autotests", "autobins", "autoexamples", "autobenches", "build")
_CARGO_WORKSPACE = ("members", "exclude", "default-members", "lints")
_SETUP = (
    "tool:pytest", "coverage:", "tox", "aliases", "flake8", "mypy", "pycodestyle", "pylint", "isort", "bandit", "pydocstyle",
    "codespell", "importlinter",
)  # fmt: skip
_LINTERS = (*_PYTHON_LINTERS, "pycodestyle", "eslintConfig", "prettier")


def check_part(path: str, content: bytes | None, *, only_linters: bool = False) -> object:
    """Return what a file of configuration says about checks; equal parts configure equally.

    That is the whole content of any file but a manifest. Of a manifest that does not exist, or says nothing, it is empty.
    With `only_linters`, what a manifest says to linters and type checkers.
    """
    read = _READERS.get(posixpath.basename(path).casefold())
    if content is None:
        return None if read is None else {}
    if read is None:
        return content
    try:
        found = read(content.decode())
        return {name: value for name, value in found.items() if not only_linters or name.startswith(_LINTERS)}
    except (ValueError, TypeError, AttributeError, configparser.Error, RecursionError):
        return content


def _pyproject(text: str) -> dict[str, Any]:
    tool = tomllib.loads(text).get("tool", {})
    found = {name: table for name, table in tool.items() if name in _PYPROJECT}
    for table, part in (("pdm", "scripts"), ("hatch", "envs")):
        if value := tool.get(table, {}).get(part):
            found[f"{table}.{part}"] = value
    return found


def _package(text: str) -> dict[str, Any]:
    manifest = json.loads(text)
    if not isinstance(manifest, Mapping):
        raise TypeError("package.json holds no object")
    return {name: value for name, value in manifest.items() if name in _PACKAGE}


def _cargo(text: str) -> dict[str, Any]:
    manifest = tomllib.loads(text)
    found = {name: value for name, value in manifest.items() if name not in _CARGO_FREE}
    for table, names in (("package", _CARGO_PACKAGE), ("workspace", _CARGO_WORKSPACE)):
        found |= {f"{table}.{name}": manifest[table][name] for name in names if name in manifest.get(table, {})}
    return found


def _composer(text: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(text).items() if name in ("scripts", "config", "autoload-dev")}


def _setup(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections() if name.startswith(_SETUP)}


_READERS: dict[str, Callable[[str], Mapping[str, object]]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package,
    "cargo.toml": _cargo,
    "setup.cfg": _setup,
    "composer.json": _composer,
}
