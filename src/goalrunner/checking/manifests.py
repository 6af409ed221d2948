"""The part of a project's manifest that configures checks.

It is everything except dependencies and metadata.
"""

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
    poetry setuptools setuptools_scm flit hatch pdm uv rye pixi maturin scikit-build
    cibuildwheel versioneer briefcase commitizen bumpversion bumpver semantic_release
    towncrier
    """.split()
)
# Tables of packaging tools whose commands are run in checks.
_RUN_BY_PACKAGING = (
    r"hatch\.envs|pdm\.scripts|pixi\.tasks|rye\.scripts|poetry\.plugins\.pytest11"
)
# Entry points named pytest11 are plugins of pytest.
_PYPROJECT = (
    r"project(?!\.entry-points\.pytest11)|build-system|dependency-groups"
    rf"|tool\.(?!{_RUN_BY_PACKAGING})(?:{_PACKAGING})"
)
_PACKAGE_JSON = (
    r"\w*[dD]ependencies|\w+DependenciesMeta|dependenciesMeta|name|version|description"
    r"|keywords|homepage|bugs|license|author|contributors|maintainers|funding|files"
    r"|main|module|browser|bin|man|types|typings|exports|directories|repository|engines"
    r"|devEngines|os|cpu|private|publishConfig|packageManager|workspaces|overrides"
    r"|resolutions|pnpm|sideEffects|volta"
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
    # Of an installed package: its other groups load nothing into pytest.
    "entry_points.txt": (_ini, r"(?!pytest11)[^.]*"),
    "package.json": (json.loads, _PACKAGE_JSON),
    "cargo.toml": (tomllib.loads, _CARGO),
    "composer.json": (json.loads, r"(?!scripts|config|autoload-dev)[^.]*"),
}
"""How a manifest is read, and which of its keys are dependencies and metadata.

Keys are joined with dots; all keys below one belong to it.
"""

IN_PARTS = frozenset(_MANIFESTS)
"""The names of the manifests, in lower case."""
_MAKEFILES = frozenset(name.casefold() for name in MAKEFILES)
# Examples: [tool.ruff], [mypy], eslintConfig, eslintIgnore.
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
    """Return the part of a configuration file that configures checks, to compare it.

    It is the whole content of a file, but only the settings of a manifest that are
    neither dependencies nor metadata; none if the manifest does not exist. With
    `only_linters`, it has the settings of linters and type checkers alone. With
    `tools`, it has no settings of linters and type checkers that are not among them.
    """
    name = posixpath.basename(path).casefold()
    if name not in _MANIFESTS:
        return content
    loads, metadata = _MANIFESTS[name]
    metadata_keys = re.compile(rf"(?:{metadata})(?:\..*)?", re.DOTALL)
    try:
        table = {} if content is None else loads(content.decode())
        settings = dict(_settings(table, metadata_keys))
    except (ValueError, TypeError, configparser.Error, RecursionError):
        # Of a file that cannot be read in parts, every change counts.
        return content
    part: dict[str, object] = {}
    for key, value in settings.items():
        checker = _CHECKER_TABLE.match(key)
        if checker is None:
            is_read = not only_linters
        else:
            is_read = tools is None or checker[1] in tools
        if is_read:
            part[key] = value
    return part


def _settings(
    table: object,
    metadata: re.Pattern[str],
    above: str = "",
) -> Iterator[tuple[str, object]]:
    """Yield the settings of a table, and of tables in it, by their keys.

    Metadata is left out. Raise TypeError if it is no table.
    """
    if not isinstance(table, Mapping):
        raise TypeError("a manifest holds no table")
    for name, value in table.items():
        key = f"{above}{name}"
        # An empty table may mean something by itself.
        if isinstance(value, Mapping) and value:
            yield from _settings(value, metadata, f"{key}.")
        elif not metadata.fullmatch(key):
            yield key, value


def added_commands(
    path: str,
    old: bytes | None,
    new: bytes | None,
) -> frozenset[str]:
    """Return the commands that a change of a manifest adds.

    They are targets of a Makefile, or scripts of a package.json. Return none if the
    change does anything else to the checks.
    """
    if posixpath.basename(path).casefold() in _MAKEFILES:
        before, after, prefix = _targets(old), _targets(new), ""
    else:
        before = _table(check_part(path, old))
        after = _table(check_part(path, new))
        prefix = "scripts."
    if any(after.get(key) != value for key, value in before.items()):
        return frozenset()
    added = after.keys() - before.keys()
    if not all(key.startswith(prefix) for key in added):
        return frozenset()
    return frozenset(key.removeprefix(prefix) for key in added)


def _table(part: object) -> Mapping[str, object]:
    """Return a result of `check_part` as a table."""
    return part if isinstance(part, Mapping) else {"": part}


# The rest excludes variables: `name := value`.
_TARGET = re.compile(r"([\w./-]+)[ ]*:(?![:=])")


def _targets(makefile: bytes | None) -> Mapping[str, object]:
    """Return the rules of a Makefile by their targets.

    All lines outside of rules have an empty name.
    """
    text = (makefile or b"").decode(errors="replace")
    rules: dict[str, list[str]] = {"": []}
    name = ""
    for line in text.splitlines():
        if line.startswith(".PHONY") or not line.strip():
            continue
        # A line that begins with a tab belongs to the rule above it.
        if not line.startswith("\t"):
            target = _TARGET.match(line)
            name = target[1] if target else ""
            # Special targets, such as .DEFAULT, concern all rules.
            if name.startswith("."):
                name = ""
        rules.setdefault(name, []).append(line)
    return {name: "\n".join(lines) for name, lines in rules.items()}
