"""The files of the start of a run, and which of them are tests: by what the baseline showed, or by their names."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from goalrunner.snapshots.patterns import Patterns

TEST_FILES = (
    "test_*.py", "*_test.py", "tests.py", "*_test.go", "*_test.rs", "*_spec.rb", "*_test.rb", "*.test.*", "*.spec.*",
    "*.e2e.*", "test.js", "test.mjs", "test.cjs", "test.ts", "test.py", "test-*.js", "*.bats", "*_test.exs",
    "*_test.dart", "*_test.cc", "*_test.cpp", "*_unittest.cc", "*Spec.scala", "*Test.scala", "*Test.java", "*Tests.java",
    "*Test.kt", "*Test.php", "*Tests.cs", "*.feature",
)  # fmt: skip
"""Tests by the names of their files, as patterns of .gitignore."""

TEST_DATA = ("__snapshots__/", "testdata/", "__fixtures__/", "*.snap", "*.ambr")
"""Data of tests by its name."""

TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "e2e"})
AMBIGUOUS_FOLDERS = frozenset({"spec", "specs", "features"})
"""Names of folders of tests, and of sources as well."""

_IN_NAMED_FOLDER = re.compile(
    rf"(?:^|/)(?:{'|'.join(TEST_FOLDERS | AMBIGUOUS_FOLDERS)})/"
)

_LANGUAGES = {
    "python": "py pyi pyx pxd",
    "javascript": "js jsx ts tsx mjs cjs mts cts vue svelte",
    "go": "go",
    "rust": "rs",
    "": "java kt kts scala groovy clj rb php c cc cpp cxx h hpp hxx cs fs vb swift m mm sh bash zsh fish ps1 bat pl pm lua r"
    " jl ex exs erl hrl hs ml mli elm dart zig nim d f90 asm s sql proto graphql tf awk el lisp scm rkt ipynb",
}
_LANGUAGE_OF = {
    suffix: name for name, suffixes in _LANGUAGES.items() for suffix in suffixes.split()
}
_CODE = re.compile(rf"\.(?:{'|'.join(_LANGUAGE_OF)})", re.IGNORECASE)
_MOST_NAMES = 50
"""Maximum number of names of one path through links."""

TestKind = Literal["test", "data"]


def language_of(path: str) -> str | None:
    """Return the language of a file; "" for one without a test runner that names its tests; None if it is no code."""
    stem, dot, suffix = path.rpartition(".")
    return (
        _LANGUAGE_OF.get(suffix.lower())
        if dot and stem and not stem.endswith("/")
        else None
    )


@dataclass(frozen=True)
class ObservedChecks:
    """What the baseline showed of the checks. The default is a start at which nothing was observed."""

    test_files: frozenset[str] = frozenset()
    """The files from which test runners collected tests."""
    languages: frozenset[str] = frozenset()
    """The languages of which all collected tests are known: "python", "rust". Names decide for the others."""
    tools: frozenset[str] | None = None
    """The programs that validators start, or whose names their scripts and settings contain; None: unknown."""
    runs_tests: bool = True
    """Whether a validator may run tests; False if all of them only lint, format or check types."""


class StartFiles:
    """The paths of the start of a run. What rules need to know about all of them is computed once."""

    def __init__(
        self, paths: Iterable[str], links: Mapping[str, str] | None = None
    ) -> None:
        """`links` are the targets of the symbolic links among the paths."""
        self._sorted = sorted(paths)
        self.paths = frozenset(self._sorted)
        text = "\n".join(self._sorted)
        self._spellings = (
            text.lower().split("\n")
            if text.isascii()
            else [one_spelling(path) for path in self._sorted]
        )
        self.links = dict(_inner_links(links or {}))
        """The links that lead to another place in the workspace, with that place."""

    def matching(self, matcher: Matcher, *, is_wanted: bool = True) -> set[str]:
        """Return the paths that match, or with `is_wanted` = False those that do not."""
        results = matcher.matches(self._spellings)
        return {
            path
            for path, matches in zip(self._sorted, results, strict=False)
            if matches is is_wanted
        }

    def spelled(self, is_wanted: Callable[[str], object]) -> set[str]:
        """Return the paths for whose one spelling a function returns something true."""
        return {
            path
            for path, name in zip(self._sorted, self._spellings, strict=False)
            if is_wanted(name)
        }

    def below(self, folders: Iterable[str]) -> set[str]:
        """Return the paths in one of the folders, which are in one spelling."""
        starts = tuple(f"{folder}/" for folder in folders)
        return self.spelled(lambda name: name.startswith(starts)) if starts else set()

    def names_of(self, path: str) -> list[str]:
        """Return a path, and the paths that lead to it through links."""
        names = [path]
        for name in names:  # grows
            for link, place in self.links.items():
                if name == place or name.startswith(f"{place}/"):
                    through = f"{link}{name[len(place) :]}"
                    if through not in names and len(names) < _MOST_NAMES:
                        names.append(through)
        return names

    @cached_property
    def source_folders(self) -> frozenset[str]:
        """Every folder that source code lies in, "" for the workspace."""
        return folders_of(path for path in self.paths if language_of(path) is not None)

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder that a file lies in, "" for the workspace."""
        return folders_of(self.paths)

    @cached_property
    def caches(self) -> list[str]:
        """The files in caches of bytecode."""
        return [path for path in self.paths if "__pycache__" in path]


def _inner_links(links: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path, target in links.items():
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if place not in (".", "..") and not place.startswith(("/", "../")):
            yield path, place


class StartTests:
    """The tests among the files of the start.

    A test is a file from which tests were collected. In languages of which not all tests are known, names decide.
    """

    def __init__(self, start: StartFiles, seen: ObservedChecks) -> None:
        self._start = start
        self._seen = seen
        self._runs = seen.runs_tests
        through_links = (
            path
            for path in start.paths
            if start.links and not seen.test_files.isdisjoint(start.names_of(path))
        )
        self._collected = (
            (seen.test_files & start.paths).union(through_links)
            if self._runs
            else frozenset()
        )
        self._named = start.matching(is_test_file) if self._runs else set()

    @cached_property
    def all(self) -> frozenset[str]:
        """Every test of the start, with the helpers and data of folders of tests."""
        data = self._start.matching(_IS_TEST_DATA) if self._runs else set()
        named = {path for path in self._named if not self._is_observed(path)}
        return frozenset(
            self._collected | named | data | self._start.below(self._folders)
        )

    @cached_property
    def folders_above(self) -> frozenset[str]:
        """Every folder that a file of tests lies in, "" for the workspace."""
        return folders_of(path for path in self.all if self.kind(path) == "test")

    def kind(self, path: str) -> TestKind | None:
        """Return "test" for a test of the start, "data" for a helper or data of a folder of tests; None for other files."""
        if path in self._collected or (
            path in self._named and not self._is_observed(path)
        ):
            return "test"
        return "data" if path in self.all else None

    def kind_of_new(
        self, path: str, delivered: ObservedChecks | None = None
    ) -> TestKind | None:
        """Return the same for a new file. `delivered` is what the checks showed of the agent's work."""
        if not self._runs:
            return None
        is_test = is_test_file(path)
        if delivered is not None and language_of(path) in delivered.languages:
            is_test = path in delivered.test_files
        if is_test:
            return "test"
        parts = one_spelling(path).split("/")[:-1]
        inside = any(
            "/".join(parts[:length]) in self._folders
            for length in range(1, len(parts) + 1)
        )
        return (
            "data"
            if inside or not TEST_FOLDERS.isdisjoint(parts) or _IS_TEST_DATA(path)
            else None
        )

    def _is_observed(self, path: str) -> bool:
        return language_of(path) in self._seen.languages

    @cached_property
    def _folders(self) -> frozenset[str]:
        """The folders of tests, in one spelling."""
        below: dict[str, list[str]] = {}
        for path in self._start.spelled(_IN_NAMED_FOLDER.search) if self._runs else ():
            parts = one_spelling(path).split("/")[:-1]
            for length, name in enumerate(parts, 1):
                if name in TEST_FOLDERS or name in AMBIGUOUS_FOLDERS:
                    below.setdefault("/".join(parts[:length]), []).append(path)
        named = {
            folder for folder, paths in below.items() if self._has_tests(folder, paths)
        }
        places = (
            one_spelling(place)
            for link, place in self._start.links.items()
            if one_spelling(link).split("/")[-1] in TEST_FOLDERS
        )
        return frozenset(
            named.union(self._only_tests(named), places if self._runs else ())
        )

    def _has_tests(self, folder: str, paths: Collection[str]) -> bool:
        """Return whether a folder with the name of one of tests has tests; `paths` are those below it."""
        if not self._collected.isdisjoint(paths):
            return True
        code = {path for path in paths if language_of(path) is not None}
        if code and all(map(self._is_observed, code)):
            return False
        tests = self._named.intersection(paths)
        return posixpath.basename(folder) in TEST_FOLDERS or 2 * len(tests) > len(
            code | tests
        )

    def _only_tests(self, named: Collection[str]) -> Iterator[str]:
        """Yield the other folders whose sources are all files that tests were collected from."""
        below = tuple(f"{folder}/" for folder in named)
        folders = {
            path.rpartition("/")[0]
            for path in self._collected
            if not one_spelling(path).startswith(below)
        } - {""}
        for path in self._start.paths if folders else ():
            folder, _, name = path.rpartition("/")
            if (
                folder not in folders
                or path in self._collected
                or name in ("conftest.py", "__init__.py")
            ):
                continue
            if language_of(name) is not None:
                folders.discard(folder)
        yield from map(one_spelling, folders)


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """Return every folder that one of the paths lies in, "" for the workspace."""
    found: set[str] = set()
    for path in paths:
        folder = posixpath.dirname(path)
        while folder not in found:
            found.add(folder)
            folder = posixpath.dirname(folder)
    return frozenset(found)


class Matcher:
    """Patterns that are matched without regard to case and to the form of Unicode."""

    def __init__(self, lines: Sequence[str], *, builtin: bool = False) -> None:
        self._given = {one_spelling(line): line for line in lines}
        self._patterns = Patterns(tuple(self._given), builtin=builtin)

    def __call__(self, path: str) -> bool:
        return self._patterns.match(one_spelling(path))

    def matches(self, spellings: Iterable[str]) -> Iterator[bool]:
        """Return for each path, in one spelling, whether a pattern matches it."""
        return self._patterns.matches(spellings)

    def pattern(self, path: str) -> str | None:
        """Return the pattern that matches, as it was written."""
        line = self._patterns.rule(one_spelling(path))
        return None if line is None else self._given[line]


def one_spelling(text: str) -> str:
    """Return the same text for all spellings that a file system may treat as one name."""
    text = text.removeprefix("./")
    return (
        text.lower()
        if text.isascii()
        else unicodedata.normalize("NFC", text).casefold()
    )


is_test_file = Matcher(TEST_FILES, builtin=True)
"""Whether a path is a test by the name of its file."""
_IS_TEST_DATA = Matcher(TEST_DATA, builtin=True)
