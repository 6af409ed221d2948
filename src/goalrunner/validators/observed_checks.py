"""The files and languages of the tests that ran at the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from goalrunner.checking.start_files import ObservedChecks, language_of
from goalrunner.core.tools import CHECKERS
from goalrunner.core.verdict import ValidatorResult
from goalrunner.validators.started_checks import StartedChecks

_TOOLS = {
    "pytest": "pytest",
    "python": "pytest",
    "javascript": "node",
    "cargo test": "cargo",
    "rust": "cargo",
}
"""The programs of test runners and of languages whose tests were collected."""
_LANGUAGES = {
    "pytest": "python",
    "unittest": "python",
    "cargo test": "rust",
    "go test": "go",
}
"""The languages of test runners; that of the others is JavaScript."""
_BY_NAME = frozenset({"go", "rust"})
"""Languages in which tests are files with certain names, or parts of sources."""


@dataclass
class _Languages:
    """The languages of tests, collected from the results of the baseline."""

    observed: set[str] = field(default_factory=set)
    """Those of which each test is named."""
    incomplete: set[str] = field(default_factory=set)
    """Those of which some tests may not be named."""
    ran: set[str] = field(default_factory=set)
    """Languages and runners of which any test was collected or counted."""

    def add(self, result: ValidatorResult) -> None:
        # Runners that name no tests are known by their counts alone.
        runners = {count.runner for count in result.suite.counts}
        counted = {_LANGUAGES.get(runner, "javascript") for runner in runners}
        named: set[str] = set()
        for test in _tests_of(result):
            language = language_of(test.file)
            if language:
                named.add(language)
        if result.tests is not None and result.tests.whole:
            self.observed |= named
            self.incomplete |= counted - named
        elif result.tests is None or result.tests.endings or counted:
            self.incomplete |= counted | named
        else:
            # The runner ended before it named or counted a test.
            self.incomplete |= {"python", "javascript"}
        self.ran |= named | runners

    @property
    def certain(self) -> frozenset[str]:
        """Languages of which the files of tests are the ones that were observed."""
        return frozenset(self.observed - self.incomplete - _BY_NAME)


def observed_checks(
    results: Iterable[ValidatorResult], started: StartedChecks | None = None
) -> ObservedChecks:
    """Return what results of the baseline show of the checks that were `started`."""
    files: set[str] = set()
    languages = _Languages()
    for result in results:
        for test in _tests_of(result):
            if is_test_of_file(test.file, test.name):
                files.add(test.file)
        languages.add(result)
    if started is None:
        return ObservedChecks(frozenset(files), languages.certain)
    tools = started.tools | {_TOOLS.get(name, name) for name in languages.ran}
    runs_tests = started.runs_tests or bool(languages.ran)
    return ObservedChecks(frozenset(files), languages.certain, tools, runs_tests)


class _TestId(NamedTuple):
    """The parts of the id of a test: `tests/test_a.py`, `Class::test_b`."""

    file: str
    name: str


def _tests_of(result: ValidatorResult) -> Iterator[_TestId]:
    if result.tests is None:
        return
    for identifier in result.tests.endings:
        file, _, name = identifier.partition("::")
        yield _TestId(file, name)


def is_test_of_file(path: str, name: str) -> bool:
    """Return whether a test is a function of a file of tests.

    Doctests of a source and checks of a linter's plugin are not.
    """
    if language_of(path) in (None, "", *_BY_NAME):
        return False
    if language_of(path) != "python":
        return True
    first = name.partition("[")[0].partition("::")[0]
    # A doctest has the name of its module, or of what it documents: `parser.parse`.
    is_of_module = first == PurePosixPath(path).stem and not first.startswith("test")
    if "." in first or is_of_module:
        return False
    linters = CHECKERS | {"black", "isort", "pycodestyle"}
    return first.isidentifier() and first.lower() not in linters
