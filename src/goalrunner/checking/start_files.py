"""The files of the start of a run, and which of them are tests.

What the baseline showed decides, or else their names.
"""

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
    "test_*.py", "*_test.py", "tests.py", "*_test.go", "*_test.rs", "*_spec.rb",
    "*_test.rb", "*.test.*", "*.spec.*", "*.e2e.*", "test.js", "test.mjs", "test.cjs",
    "test.ts", "test.py", "test-*.js", "*.bats", "*_test.exs", "*_test.dart",
    "*_test.cc", "*_test.cpp", "*_unittest.cc", "*Spec.scala", "*Test.scala",
    "*Test.java", "*Tests.java", "*Test.kt", "*Test.php", "*Tests.cs", "*.feature",
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
    "": "java kt kts scala groovy clj rb php c cc cpp cxx h hpp hxx cs fs vb swift m mm"
    " sh bash zsh fish ps1 bat pl pm lua r jl ex exs erl hrl hs ml mli elm dart zig nim"
    " d f90 asm s sql proto graphql tf awk el lisp scm rkt ipynb",
}
_LANGUAGE_OF = {
    suffix: name for name, suffixes in _LANGUAGES.items() for suffix in suffixes.split()
}
_MOST_NAMES = 50
"""Maximum number of names of one path through links."""

TestKind = Literal["test", "data"]


def language_of(path: str) -> str | None:
    """Return the language of a file; None if it is no code.

    Return "" for a language without a test runner that names its tests.
    """
    stem, dot, suffix = path.rpartition(".")
    # `.py` alone is a hidden file.
    if not dot or not stem or stem.endswith("/"):
        return None
    return _LANGUAGE_OF.get(suffix.lower())


@dataclass(frozen=True)
class ObservedChecks:
    """What the baseline showed of the checks.

    The default is a start at which nothing was observed.
    """

    test_files: frozenset[str] = frozenset()
    """The files from which test runners collected tests."""
    languages: frozenset[str] = frozenset()
    """The languages of which all collected tests are known: "python", "rust".

    Names decide for the others.
    """
    tools: frozenset[str] | None = None
    """The programs that validators start, or that their scripts and settings name.

    None: unknown.
    """
    runs_tests: bool = True
    """Whether a validator may run tests.

    False if all of them only lint, format or check types.
    """


class StartFiles:
    """The paths of the start of a run.

    What rules need to know about all of them is computed once.
    """

    def __init__(
        self,
        paths: Iterable[str],
        links: Mapping[str, str] | None = None,
    ) -> None:
        """`links` are the targets of the symbolic links among the paths."""
        self._sorted = sorted(paths)
        self.paths = frozenset(self._sorted)
        text = "\n".join(self._sorted)
        # In one go: the paths of a workspace of 100,000 files take a second otherwise.
        if text.isascii():
            self._spellings = text.lower().split("\n")
        else:
            self._spellings = list(map(one_spelling, self._sorted))
        self.links = dict(_inner_links(links or {}))
        """The links that lead to another place in the workspace, with that place."""

    def matching(self, matcher: Matcher, *, is_wanted: bool = True) -> set[str]:
        """Return the paths that match; with `is_wanted` = False, the others."""
        results = matcher.matches(self._spellings)
        return {
            path
            for path, matches in zip(self._sorted, results, strict=False)
            if matches is is_wanted
        }

    def spelled(self, is_wanted: Callable[[str], object]) -> set[str]:
        """Return the paths whose one spelling is wanted."""
        return {
            path
            for path, name in zip(self._sorted, self._spellings, strict=False)
            if is_wanted(name)
        }

    def below(self, folders: Iterable[str]) -> set[str]:
        """Return the paths in one of the folders, which are in one spelling."""
        prefixes = tuple(f"{folder}/" for folder in folders)
        if not prefixes:
            return set()
        return self.spelled(lambda name: name.startswith(prefixes))

    def names_of(self, path: str) -> list[str]:
        """Return a path, and the paths that lead to it through links."""
        names = [path]
        # The list grows: a link may lead to another link.
        for name in names:
            for link, place in self.links.items():
                if name != place and not name.startswith(f"{place}/"):
                    continue
                through_link = f"{link}{name[len(place) :]}"
                if through_link not in names and len(names) < _MOST_NAMES:
                    names.append(through_link)
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

    A test is a file from which tests were collected. In languages of which not all
    tests are known, names decide.
    """

    def __init__(self, start: StartFiles, observed: ObservedChecks) -> None:
        self._start = start
        self._observed = observed
        self._collected: frozenset[str] = frozenset()
        """The files from which tests were collected, through links as well."""
        self._named: set[str] = set()
        """Tests by the names of their files."""
        if observed.runs_tests:
            self._collected = observed.test_files & start.paths
            if start.links:
                # A runner may name a test by the link that leads to it.
                self._collected |= self._collected_through_links()
            self._named = start.matching(is_test_file)

    def _collected_through_links(self) -> set[str]:
        paths: set[str] = set()
        for path in self._start.paths:
            names = self._start.names_of(path)
            if not self._observed.test_files.isdisjoint(names):
                paths.add(path)
        return paths

    @cached_property
    def all(self) -> frozenset[str]:
        """Every test of the start, with the helpers and data of folders of tests."""
        if not self._observed.runs_tests:
            return frozenset()
        named = {path for path in self._named if not self._is_observed(path)}
        data = self._start.matching(_IS_TEST_DATA)
        return self._collected.union(named, data, self._start.below(self._folders))

    @cached_property
    def folders_above(self) -> frozenset[str]:
        """Every folder that a file of tests lies in, "" for the workspace."""
        folders = folders_of(path for path in self.all if self.kind(path) == "test")
        # Tests of Rust may lie in each source.
        if self._observed.runs_tests and "cargo" in (self._observed.tools or ()):
            folders |= self._start.source_folders
        return folders

    def kind(self, path: str) -> TestKind | None:
        """Return the kind of a file of the start; None if it belongs to no tests.

        It is "data" for a helper or data of a folder of tests.
        """
        if path in self._collected:
            return "test"
        if path in self._named and not self._is_observed(path):
            return "test"
        return "data" if path in self.all else None

    def kind_of_new(
        self,
        path: str,
        delivered: ObservedChecks | None = None,
    ) -> TestKind | None:
        """Return the same for a new file.

        `delivered` is what the checks showed of the agent's work.
        """
        if not self._observed.runs_tests:
            return None
        is_test = is_test_file(path)
        if delivered is not None and language_of(path) in delivered.languages:
            is_test = path in delivered.test_files
        if is_test:
            return "test"
        names = one_spelling(path).split("/")[:-1]
        is_data = not TEST_FOLDERS.isdisjoint(names) or _IS_TEST_DATA(path)
        for length in range(1, len(names) + 1):
            is_data = is_data or "/".join(names[:length]) in self._folders
        return "data" if is_data else None

    def _is_observed(self, path: str) -> bool:
        return language_of(path) in self._observed.languages

    @cached_property
    def _folders(self) -> frozenset[str]:
        """The folders of tests, in one spelling."""
        if not self._observed.runs_tests:
            return frozenset()
        folders: set[str] = set()
        for folder, paths in self._by_named_folder().items():
            if self._has_tests(folder, paths):
                folders.add(folder)
        folders.update(self._only_tests(folders))
        # A link named `tests` makes the folder it leads to a folder of tests.
        for link, place in self._start.links.items():
            if one_spelling(link).split("/")[-1] in TEST_FOLDERS:
                folders.add(one_spelling(place))
        return frozenset(folders)

    def _by_named_folder(self) -> dict[str, list[str]]:
        """Return the files below each folder with a name of folders of tests."""
        below: dict[str, list[str]] = {}
        for path in self._start.spelled(_IN_NAMED_FOLDER.search):
            names = one_spelling(path).split("/")[:-1]
            for length, name in enumerate(names, 1):
                if name in TEST_FOLDERS or name in AMBIGUOUS_FOLDERS:
                    below.setdefault("/".join(names[:length]), []).append(path)
        return below

    def _has_tests(self, folder: str, paths: Collection[str]) -> bool:
        """Return whether a folder with the name of one of tests has tests.

        `paths` are those below it.
        """
        if not self._collected.isdisjoint(paths):
            return True
        code = {path for path in paths if language_of(path) is not None}
        # All tests of this code are known, and none is here.
        if code and all(map(self._is_observed, code)):
            return False
        tests = self._named.intersection(paths)
        # `spec` and `features` are names of folders of sources as well.
        are_most_tests = 2 * len(tests) > len(code | tests)
        return posixpath.basename(folder) in TEST_FOLDERS or are_most_tests

    def _only_tests(self, named_folders: Collection[str]) -> Iterator[str]:
        """Yield the other folders all of whose sources have collected tests."""
        below_named = tuple(f"{folder}/" for folder in named_folders)
        folders: set[str] = set()
        for path in self._collected:
            if not one_spelling(path).startswith(below_named):
                folders.add(path.rpartition("/")[0])
        # The workspace itself has other files as well.
        folders.discard("")
        if not folders:
            return
        for path in self._start.paths:
            folder, _, name = path.rpartition("/")
            is_helper = name in ("conftest.py", "__init__.py")
            if folder not in folders or path in self._collected or is_helper:
                continue
            if language_of(name) is not None:
                folders.discard(folder)
        yield from map(one_spelling, folders)


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """Return every folder that one of the paths lies in, "" for the workspace."""
    folders: set[str] = set()
    for path in paths:
        folder = posixpath.dirname(path)
        # The folders above one of the set are in the set as well.
        while folder not in folders:
            folders.add(folder)
            folder = posixpath.dirname(folder)
    return frozenset(folders)


class Matcher:
    """Patterns that are matched without regard to case and to the form of Unicode."""

    def __init__(self, lines: Sequence[str], *, builtin: bool = False) -> None:
        self._lines = {one_spelling(line): line for line in lines}
        self._patterns = Patterns(tuple(self._lines), builtin=builtin)

    def __call__(self, path: str) -> bool:
        return self._patterns.match(one_spelling(path))

    def matches(self, spellings: Iterable[str]) -> Iterator[bool]:
        """Return for each path, in one spelling, whether a pattern matches it."""
        return self._patterns.matches(spellings)

    def pattern(self, path: str) -> str | None:
        """Return the pattern that matches, as it was written."""
        line = self._patterns.rule(one_spelling(path))
        return None if line is None else self._lines[line]


def one_spelling(text: str) -> str:
    """Return the same text for all spellings that are one name on some file system."""
    text = text.removeprefix("./")
    # Nearly all paths are of this kind.
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text).casefold()


is_test_file = Matcher(TEST_FILES, builtin=True)
"""Whether a path is a test by the name of its file."""
_IS_TEST_DATA = Matcher(TEST_DATA, builtin=True)
