"""Which files configure the programs of checks, by the tables of `core.tools` and by the programs that are started."""

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
_OUTER = re.compile(r"(?:^|/)(?:\.[^/]+|__mocks__|gradle|buildSrc)(?:/.*)?$")


_AS_CODE = re.compile(r"rc\.|\.(?:config|conf|setup|workspace|projects)\.")
_NO_SETTINGS = re.compile(r"\.(?:md|rst|html|lock|log|png|svg)$")


class Configuration:
    """The configuration of programs; of all known ones if `tools` is None."""

    def __init__(self, tools: Collection[str] | None) -> None:
        known = {*CONFIGURATION, *CONFIGURED_BY_NAME, *CHECKERS}
        started = known if tools is None else known.intersection(tools)
        self._checkers, self._runners = (
            _Files(started & CHECKERS),
            _Files(started - CHECKERS),
        )
        self._reads_ignore_file = (
            tools is not None and not LEAVE_OUT_IGNORED.isdisjoint(tools)
        )
        self._has_javascript = any(
            "__mocks__/" in CONFIGURATION.get(name, ()) for name in started
        )

    def of(self, path: str, start: StartFiles) -> Configures | None:
        """Return what a file configures; None if it is no configuration."""
        name = one_spelling(posixpath.basename(path))
        if name in IN_PARTS:
            return "both" if name in _MIXED else "tests"
        if name in _PYTHON_ITSELF or self._runners(path):
            return "tests"
        if self._checkers(path) or (name == ".gitignore" and self._reads_ignore_file):
            return "code"
        if self._has_javascript and _WRITTEN_AS_CODE.fullmatch(name):
            return (
                "tests"
                if posixpath.join(posixpath.dirname(path), "package.json")
                in start.paths
                else None
            )
        return None

    def among(self, start: StartFiles) -> set[str]:
        """Return the files of the start that configure something."""
        by_name = rf"{'|'.join(map(re.escape, (*IN_PARTS, *_PYTHON_ITSELF, '.gitignore')))}|{_WRITTEN_AS_CODE.pattern}"
        names = re.compile(
            rf"(?:.*/)?(?:{by_name}|{self._checkers.names}|{self._runners.names})"
        )
        found = (
            start.spelled(names.fullmatch)
            | start.matching(self._checkers.table)
            | start.matching(self._runners.table)
        )
        return {path for path in found if self.of(path, start)}


class _Files:
    """The files of programs: those of the table, and those that begin with a program's name."""

    def __init__(self, tools: Collection[str]) -> None:
        named = sorted(
            map(re.escape, (CONFIGURED_BY_NAME | CHECKERS).intersection(tools)),
            key=len,
            reverse=True,
        )
        self.names = (
            rf"\.?(?:{'|'.join(named) or '(?!)'})(?:(?:rc|ignore)?(?:[._-][^/]*)?)"
        )
        self.table = Matcher(
            [line for tool in sorted(tools) for line in CONFIGURATION.get(tool, ())],
            builtin=True,
        )
        self._names = re.compile(self.names)

    def __call__(self, path: str) -> bool:
        name = one_spelling(posixpath.basename(path))
        if self.table(path):
            return True
        # eslint.config.js is configuration, coverage.py is a module.
        is_settings = language_of(name) is None and not _NO_SETTINGS.search(name)
        return self._names.fullmatch(name) is not None and (
            is_settings or _AS_CODE.search(name) is not None
        )


def is_python_itself(path: str) -> bool:
    """Return whether Python reads a file wherever it lies on its path: sitecustomize.py."""
    return one_spelling(posixpath.basename(path)) in _PYTHON_ITSELF


def folder_configured(path: str) -> str:
    """Return the folder in which a file of configuration takes effect: that of `.cargo/config.toml` is the one above."""
    return _OUTER.sub("", posixpath.dirname(path))


@lru_cache(maxsize=8)
def configuration_of(tools: frozenset[str] | None) -> Configuration:
    """Return the configuration of programs."""
    return Configuration(tools)


def configures_runners(path: str) -> bool:
    """Return whether a path may configure a test runner, by its name."""
    return configuration_of(None).of(path, StartFiles(())) in ("tests", "both")
