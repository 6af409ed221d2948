"""The part of a project's manifest that configures checks. It is everything except dependencies and metadata."""

from __future__ import annotations

import configparser
import json
import posixpath
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping

from goalrunner.core.tools import CHECKERS, MAKEFILES


def _ini(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


_PACKAGING = "|".join(
    """
    poetry setuptools setuptools_scm flit hatch pdm uv rye pixi maturin scikit-build cibuildwheel versioneer briefcase
    commitizen bumpversion bumpver semantic_release towncrier
    """.split()
)
_RUN_BY_PACKAGING = (
    r"hatch\.envs|pdm\.scripts|pixi\.tasks|rye\.scripts|poetry\.plugins\.pytest11"
)
_PYPROJECT = (
    r"project(?!\.entry-points\.pytest11)|build-system|dependency-groups"
    rf"|tool\.(?!{_RUN_BY_PACKAGING})(?:{_PACKAGING})"
)
_PACKAGE_JSON = (
    r"\w*[dD]ependencies|\w+DependenciesMeta|dependenciesMeta|name|version|description|keywords|homepage|bugs|license"
    r"|author|contributors|maintainers|funding|files|main|module|browser|bin|man|types|typings|exports|directories"
    r"|repository|engines|devEngines|os|cpu|private|publishConfig|packageManager|workspaces|overrides|resolutions"
    r"|pnpm|sideEffects|volta"
)
_CARGO = (
    r"package\.(?!auto|build)\w[\w-]*|(?:dev-|build-)?dependencies|features|bin"
    r"|workspace\.(?!members|exclude|default-members|lints)\w[\w-]*"
)
_MANIFESTS: dict[str, tuple[Callable[[str], object], str]] = {
    "pyproject.toml": (tomllib.loads, _PYPROJECT),
    "setup.cfg": (
        _ini,
        r"metadata|options(?!\.entry_points)[.\w]*|[bs]dist\w*|build\w*",
    ),
    "tox.ini": (
        _ini,
        r"testenv[^.]*\.(?:deps|extras|description)|tox\.(?:requires|minversion)",
    ),
    "package.json": (json.loads, _PACKAGE_JSON),
    "cargo.toml": (tomllib.loads, _CARGO),
    "composer.json": (json.loads, r"(?!scripts|config|autoload-dev)[^.]*"),
}
"""How a manifest is read, and which of its keys, joined with dots, are dependencies and metadata with all below them."""

IN_PARTS = frozenset(_MANIFESTS)
"""The names of the manifests, in lower case."""
_MAKEFILES = frozenset(name.casefold() for name in MAKEFILES)
_CHECKER_TABLE = re.compile(
    rf"(?:tool\.)?({'|'.join(CHECKERS)}|importlinter)(?:Config|Ignore)?(?![a-z])"
)


def is_read_in_parts(path: str) -> bool:
    """Return whether it matters which part of a file has changed."""
    return posixpath.basename(path).casefold() in IN_PARTS | _MAKEFILES


def check_part(
    path: str,
    content: bytes | None,
    *,
    only_linters: bool = False,
    tools: Collection[str] | None = None,
) -> object:
    """Return the part of a configuration file that configures checks, for a comparison.

    It is the whole content of a file, but only the settings of a manifest that are neither dependencies nor metadata;
    none if the manifest does not exist. With `only_linters`, it has the settings of linters and type checkers alone.
    With `tools`, it has no settings of linters and type checkers that are not among them.
    """
    name = posixpath.basename(path).casefold()
    if name not in _MANIFESTS:
        return content
    loads, metadata = _MANIFESTS[name]
    try:
        table = loads(content.decode()) if content is not None else {}
        found = dict(
            _settings(table, re.compile(rf"(?:{metadata})(?:\..*)?", re.DOTALL))
        )
    except (ValueError, TypeError, configparser.Error, RecursionError):
        return content
    for key in tuple(found):
        checker = _CHECKER_TABLE.match(key)
        is_read = (
            not only_linters
            if checker is None
            else tools is None or checker[1] in tools
        )
        if not is_read:
            del found[key]
    return found


def _settings(
    table: object, metadata: re.Pattern[str], above: str = ""
) -> Iterator[tuple[str, object]]:
    """Yield the settings of a table, and of tables in it, by their keys, without metadata."""
    if not isinstance(table, Mapping):
        raise TypeError("a manifest holds no table")
    for name, value in table.items():
        key = f"{above}{name}"
        if isinstance(value, Mapping) and value:
            yield from _settings(value, metadata, f"{key}.")
        elif not metadata.fullmatch(key):
            yield key, value


def added_commands(path: str, old: bytes | None, new: bytes | None) -> frozenset[str]:
    """Return the names of the targets of a Makefile, or the scripts of a package.json, that a change adds.

    It returns none if the change does anything else to the checks.
    """
    if posixpath.basename(path).casefold() in _MAKEFILES:
        texts = [(content or b"").decode(errors="replace") for content in (old, new)]
        before, after, prefix = {**_targets(texts[0])}, {**_targets(texts[1])}, ""
    else:
        parts = [check_part(path, content) for content in (old, new)]
        before, after = (
            {**part} if isinstance(part, Mapping) else {"": part} for part in parts
        )
        prefix = "scripts."
    added = [key for key in after if key not in before]
    is_changed = any(after.get(key) != value for key, value in before.items())
    is_other = is_changed or not all(key.startswith(prefix) for key in added)
    return (
        frozenset()
        if is_other
        else frozenset(key.removeprefix(prefix) for key in added)
    )


_TARGET = re.compile(r"([\w./-]+)[ ]*:(?![:=])")


def _targets(text: str) -> dict[str, object]:
    """Return the rules of a Makefile by their targets; under an empty name, all lines outside of rules."""
    rules: dict[str, list[str]] = {"": []}
    name = ""
    for line in text.splitlines():
        target = _TARGET.match(line)
        if line.startswith(".PHONY") or not line.strip():
            continue
        if not line.startswith("\t"):
            name = target[1] if target and not target[1].startswith(".") else ""
        rules.setdefault(name, []).append(line)
    return {name: "\n".join(lines) for name, lines in rules.items()}
