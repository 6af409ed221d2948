"""Which files configure the programs of checks.

The tables of `core.tools` say what configures a program; the programs that validators
start say which of them count.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Literal

from goalrunner.checking.manifests import IN_PARTS
from goalrunner.checking.start_files import (
    Matcher,
    StartFiles,
    language_of,
    one_spelling,
)
from goalrunner.core.tools import (
    CHECKERS,
    CONFIGURATION,
    CONFIGURED_BY_NAME,
    LEAVE_OUT_IGNORED,
)

Configures = Literal["tests", "code", "both"]
"""What a file configures: runners of tests, checkers of code, or both."""

_PYTHON_ITSELF = frozenset({"sitecustomize.py", "usercustomize.py"})
_MIXED = frozenset({"pyproject.toml", "setup.cfg", "package.json"})
_WRITTEN_AS_CODE = re.compile(r"[\w.-]+\.config\.\w+")
"""vite.config.ts. It configures something if it lies beside a package.json."""
_OUTER = re.compile(
    r"(?:^|/)(?:\.[^/]+|__mocks__|gradle|buildSrc|[^/]+\.(?:dist|egg)-info)(?:/.*)?$"
)
"""Folders whose configuration takes effect in the folder above them."""
_AS_CODE = re.compile(r"rc\.|\.(?:config|conf|setup|workspace|projects)\.")
_NO_SETTINGS = re.compile(r"\.(?:md|rst|html|lock|log|png|svg)$")


class Configuration:
    """The configuration of programs; of all in the tables if `tools` is None."""

    def __init__(self, tools: Collection[str] | None) -> None:
        programs = {*CONFIGURATION, *CONFIGURED_BY_NAME, *CHECKERS}
        self._reads_ignore_file = False
        if tools is not None:
            programs.intersection_update(tools)
            # Ruff and others leave out what git ignores.
            self._reads_ignore_file = not LEAVE_OUT_IGNORED.isdisjoint(tools)
        self._checkers = _FilesOfPrograms(programs & CHECKERS)
        self._runners = _FilesOfPrograms(programs - CHECKERS)
        self._has_javascript = any(
            "__mocks__/" in CONFIGURATION.get(program, ()) for program in programs
        )

    def of(self, path: str, start: StartFiles) -> Configures | None:
        """Return what a file configures; None if it is no configuration."""
        name = one_spelling(posixpath.basename(path))
        # `check_part` tells later which part of it has changed.
        if name in IN_PARTS:
            return "both" if name in _MIXED else "tests"
        if name in _PYTHON_ITSELF or self._runners.matches(path):
            return "tests"
        if self._checkers.matches(path):
            return "code"
        if name == ".gitignore" and self._reads_ignore_file:
            return "code"
        if self._has_javascript and _WRITTEN_AS_CODE.fullmatch(name):
            manifest = posixpath.join(posixpath.dirname(path), "package.json")
            return "tests" if manifest in start.paths else None
        return None

    def among(self, start: StartFiles) -> set[str]:
        """Return the files of the start that configure something."""
        names = map(re.escape, (*IN_PARTS, *_PYTHON_ITSELF, ".gitignore"))
        patterns = [
            *names,
            _WRITTEN_AS_CODE.pattern,
            self._checkers.names,
            self._runners.names,
        ]
        # One search over all paths first: `of` is too slow for 100,000 files.
        by_name = re.compile(rf"(?:.*/)?(?:{'|'.join(patterns)})")
        candidates = start.spelled(by_name.fullmatch)
        candidates |= start.matching(self._checkers.table)
        candidates |= start.matching(self._runners.table)
        return {path for path in candidates if self.of(path, start)}


class _FilesOfPrograms:
    """The files of the tables, and those that begin with the name of a program."""

    def __init__(self, tools: Collection[str]) -> None:
        names = (CONFIGURED_BY_NAME | CHECKERS).intersection(tools)
        # The first alternative that matches is taken, so a longer name goes first.
        longest_first = sorted(
            map(re.escape, names),
            key=len,
            reverse=True,
        )
        any_name = "|".join(longest_first) or "(?!)"
        self.names = rf"\.?(?:{any_name})(?:(?:rc|ignore)?(?:[._-][^/]*)?)"
        self._names = re.compile(self.names)
        lines: list[str] = []
        for tool in sorted(tools):
            lines += CONFIGURATION.get(tool, ())
        self.table = Matcher(lines, builtin=True)

    def matches(self, path: str) -> bool:
        """Return whether a path is such a file."""
        if self.table(path):
            return True
        name = one_spelling(posixpath.basename(path))
        if not self._names.fullmatch(name):
            return False
        # eslint.config.js is configuration, coverage.py is a module.
        is_settings = language_of(name) is None and not _NO_SETTINGS.search(name)
        return is_settings or _AS_CODE.search(name) is not None


def is_python_itself(path: str) -> bool:
    """Return whether Python reads a file in each folder of its path: sitecustomize."""
    return one_spelling(posixpath.basename(path)) in _PYTHON_ITSELF


def folder_configured(path: str) -> str:
    """Return the folder in which a file of configuration takes effect.

    For `.cargo/config.toml` it is the folder above `.cargo`.
    """
    return _OUTER.sub("", posixpath.dirname(path))


@lru_cache(maxsize=8)
def configuration_of(tools: frozenset[str] | None) -> Configuration:
    """Return the configuration of programs."""
    return Configuration(tools)


def configures_runners(path: str) -> bool:
    """Return whether a path may configure a test runner, by its name."""
    return configuration_of(None).of(path, StartFiles(())) in ("tests", "both")
