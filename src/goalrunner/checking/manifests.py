"""The part of a project's manifest that configures checks: a change of its dependencies is no change of a check."""

from __future__ import annotations

import configparser
import json
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping

_LINTERS = (
    "ruff", "mypy", "pyright", "basedpyright", "pylint", "black", "isort", "flake8", "bandit", "importlinter", "ty",
    "pyrefly", "codespell", "vulture", "deptry", "interrogate", "pydocstyle", "pycodestyle", "eslintConfig", "prettier",
)  # fmt: skip
_ANY_LINTER = "|".join(_LINTERS)
_OF_LINTER = re.compile(rf"(?:tool\.)?(?:{_ANY_LINTER})\b")


def _setup_cfg(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


_CARGO = (
    r"package\.(auto\w+|build)|workspace\.(members|exclude|default-members|lints)"
    r"|(?!(package|dependencies|(dev|build)-dependencies|features|workspace|bin)$)[^.]+"
)
_MANIFESTS: dict[str, tuple[Callable[[str], object], str]] = {
    "pyproject.toml": (
        tomllib.loads,
        rf"tool\.(?:{_ANY_LINTER}|pytest|coverage|tox|nox|poe|taskipy|pdm\.scripts|hatch\.envs)",
    ),
    "setup.cfg": (_setup_cfg, rf"(?:tool:pytest|coverage:|tox|aliases|{_ANY_LINTER}).*"),
    "package.json": (
        json.loads,
        r"scripts|jest|mocha|ava|vitest|nyc|c8|tap|babel|eslint\w+|wireit|prettier|type|imports|xo|standard|stylelint|config",
    ),
    "cargo.toml": (tomllib.loads, _CARGO),
    "composer.json": (json.loads, "scripts|config|autoload-dev"),
}
"""How a manifest is read, and which of its keys, joined with dots, configure checks."""


def check_part(path: str, content: bytes | None, *, only_linters: bool = False) -> object:
    """Return the part of a configuration file that configures checks, for a comparison.

    It is the whole content of a file, but only the matching keys of a manifest; none if the manifest does not exist.
    With `only_linters`, only the keys of linters and type checkers are returned.
    """
    name = posixpath.basename(path).casefold()
    if name not in _MANIFESTS:
        return content
    loads, keys = _MANIFESTS[name]
    try:
        found = dict(_matching(loads(content.decode()), re.compile(keys))) if content is not None else {}
    except (ValueError, TypeError, configparser.Error, RecursionError):
        return content
    return {key: value for key, value in found.items() if not only_linters or _OF_LINTER.match(key)}


def _matching(table: object, keys: re.Pattern[str], above: str = "") -> Iterator[tuple[str, object]]:
    """Yield the keys of a table, and of tables in it, that match as a whole, and their values."""
    if not isinstance(table, Mapping):
        raise TypeError("a manifest holds no table")
    for name, value in table.items():
        key = f"{above}{name}"
        if keys.fullmatch(key):
            yield key, value
        elif isinstance(value, Mapping) and key.count(".") < 2:
            yield from _matching(value, keys, f"{key}.")
