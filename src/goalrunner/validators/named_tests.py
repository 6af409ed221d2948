"""The tests that go, cargo and unittest name in their output, with their endings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from goalrunner.core.tools import CARGO_TEST, GO_TEST, UNITTEST
from goalrunner.core.verdict import CollectedTests, Ending
from goalrunner.validators.collected_tests import TestNames, file_of_module
from goalrunner.validators.runners import CARGO_RESULT, GO_PACKAGE

GO = "go test "
"""Prefix of the id of a Go test; its package follows."""
# "=== RUN   TestA", "--- FAIL: TestA (0.00s)", "FAIL" at the end of a test program, and
# the line of the package. Subtests have a slash and belong to their test.
_GO_LINE = re.compile(
    r"=== RUN   (?P<started>[^\s/]+)$"
    r"|--- (?P<ending>PASS|FAIL|SKIP): (?P<test>[^\s/]+) \([0-9.]+s\)$"
    rf"|^(?P<end>FAIL)$|{GO_PACKAGE.pattern}",
    re.MULTILINE,
)
_GO_ENDINGS: Mapping[str, Ending] = {
    "PASS": "passed",
    "FAIL": "failed",
    "SKIP": "skipped",
}
# "     Running tests/a.rs (target/debug/deps/a-0123)", "   Doc-tests parser"
_CARGO_PROGRAM = re.compile(
    r"^ +(?:Running (?:unittests )?(\S+) \(.*\)|(?:Doc-tests) \S+)$", re.MULTILINE
)
# "running 3 tests"; before its result, so a program that ends early shows.
_CARGO_BEGIN = re.compile(r"^ *running (\d+) tests? *$", re.MULTILINE)
# "test module::name - should panic ... ok", "test name ... ignored, reason"
_CARGO_TEST = re.compile(
    r"^test (\S.*?)(?: - should panic| - compile(?: fail)?)?"
    r" \.\.\. (ok|FAILED|ignored)(?: \(\d.*\)|, .*)?$",
    re.MULTILINE,
)
_CARGO_ENDINGS: Mapping[str, Ending] = {
    "ok": "passed",
    "FAILED": "failed",
    "ignored": "skipped",
}
# "src/lib.rs - add (line 3)"
_CARGO_DOC = re.compile(r"(\S+) - (.*?) ?\(line (\d+)\)")
# Without --no-fail-fast, cargo stops after the first program that fails.
_CARGO_GAVE_UP = re.compile(r"^error: (?:test|doctest) failed, to rerun", re.MULTILINE)
_CARGO_WENT_ON = re.compile(r"^error: \d+ targets? failed:", re.MULTILINE)
# "test_a (tests.test_x.TestA.test_a) ... ", perhaps with the first line of a docstring
_UNITTEST = re.compile(
    r"(?:^|(?<= \.\.\. ))(?P<method>[\w.]+) \((?P<where>[\w.]+)\)"
    r"(?:\n(?! *test).*?)? \.\.\. ",
    re.MULTILINE,
)
_UNITTEST_END = re.compile(
    r"^(?P<sub>  \w+ \(.*\) .*\.\.\. )?(?:.*?\.\.\. )?"
    r"(?P<end>ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$",
    re.MULTILINE,
)
_UNITTEST_RAN = re.compile(r"^-+\nRan (\d+) tests? in [0-9.]+s$", re.MULTILINE)
# "FAIL: test_a (tests.test_x.TestA.test_a)" above a traceback
_UNITTEST_FAILURE = re.compile(r"^(?:FAIL|ERROR): (\w+) \(([\w.]+)\)", re.MULTILINE)
# The class of the test that stands for a module that cannot be imported.
_UNLOADED = "unittest.loader._FailedTest"


def named_tests(
    output: str, *, asked_go: bool, workspace: Path, folders: Sequence[Path]
) -> dict[str, CollectedTests]:
    """Return the tests that an output names, by the name of their runner.

    `asked_go`: each `go test` was asked to name its tests. `folders` are those that
    modules of unittest may lie in.
    """
    tests_of_runners = {
        GO_TEST.name: go_tests(output, asked=asked_go),
        CARGO_TEST.name: cargo_tests(output),
        UNITTEST.name: unittest_tests(output, workspace, folders),
    }
    return {
        runner: tests for runner, tests in tests_of_runners.items() if tests is not None
    }


def go_tests(output: str, *, asked: bool) -> CollectedTests | None:
    """Return the tests that `go test -v` names.

    `go test package::Test` for each test, and `go test package` for a package that
    cannot be built. None if go named no tests and was not asked to.
    """
    if not asked and "=== RUN" not in output:
        return None
    names = TestNames(whole=asked)
    # Go prints the package after its tests.
    endings: dict[str, Ending] = {}
    has_failed = False
    packages = 0
    for line in _GO_LINE.finditer(output):
        if line["started"]:
            endings.setdefault(line["started"], "")
        elif line["test"]:
            endings[line["test"]] = _GO_ENDINGS[line["ending"]]
        elif line["end"]:
            has_failed = True
        else:
            packages += 1
            _add_go_package(names, line, endings, has_failed=has_failed)
            endings, has_failed = {}, False
    return names.collected if packages else None


def _add_go_package(
    names: TestNames,
    line: re.Match[str],
    endings: Mapping[str, Ending],
    *,
    has_failed: bool,
) -> None:
    """Add the tests of a package, at the line that ends it.

    `has_failed`: a line FAIL came before, which a test program prints at its own end.
    """
    # The pattern of the package is the last one, so its name is the last group.
    package = f"{GO}{line[line.lastindex or 0]}"
    if line[0].endswith("failed]"):
        # It was not built: `FAIL	x/y [build failed]`.
        names.add(package, "failed")
        names.whole = False
        return
    if line[0].startswith("FAIL") and not has_failed:
        names.whole = False
    for test, ending in endings.items():
        names.add(f"{package}::{test}", ending)
    names.whole = names.whole and "" not in endings.values()


def started_and_ended(output: str) -> str:
    """Return a test program of cargo that started and printed no result.

    Empty if there is none. With `-q`, cargo does not print which program it starts.
    """
    text_before, *parts = _CARGO_PROGRAM.split(output)
    started = len(_CARGO_BEGIN.findall(text_before))
    ended = len(CARGO_RESULT.findall(text_before))
    if 0 < ended < started:
        return CARGO_TEST.name
    for target, text in zip(parts[::2], parts[1::2], strict=True):
        if _CARGO_BEGIN.search(text) and not CARGO_RESULT.search(text):
            return target or "doc"
    return ""


def cargo_tests(output: str) -> CollectedTests | None:
    """Return the tests of cargo as `tests/file.rs::module::test`.

    The file is relative to the package. None if cargo names no tests, which is so with
    `-q`, or if output of tests is between the names.
    """
    text_before, *parts = _CARGO_PROGRAM.split(output)
    if not parts:
        return None
    names = TestNames(whole=not _CARGO_BEGIN.search(text_before))
    for target, text in zip(parts[::2], parts[1::2], strict=True):
        begin = _CARGO_BEGIN.search(text)
        tests = _CARGO_TEST.findall(text)
        if not CARGO_RESULT.search(text):
            # The program did not come to its end, if it started tests at all.
            names.whole = names.whole and begin is None
        elif begin is None or len(tests) != int(begin[1]):
            return None
        for test, ending in tests:
            identifier = _cargo_id(target, test)
            # Packages of a workspace may have files of the same name.
            names.whole = names.whole and identifier not in names.endings
            names.add(identifier, _CARGO_ENDINGS[ending])
    if _CARGO_GAVE_UP.search(output) and not _CARGO_WENT_ON.search(output):
        names.whole = False
    return names.collected


def _cargo_id(target: str | None, name: str) -> str:
    """Return the id of a test of a target, or of the documentation without a target."""
    if target:
        return f"{target}::{name}"
    documented = _CARGO_DOC.fullmatch(name)
    if documented is None:
        return f"doc::{name}"
    # The line of a documentation test moves with the code above it, so it is written
    # like the variant of a test.
    return f"{documented[1]}::{documented[2] or 'doc'}[{documented[3]}]"


def unittest_tests(
    output: str, workspace: Path, folders: Sequence[Path]
) -> CollectedTests | None:
    """Return the tests of `unittest -v` as `tests/test_a.py::Class::test`.

    None if it names none. A module that is in none of the folders is the file of its
    id.
    """
    names = TestNames()
    # The tests of a class are many, and each look-up asks the file system.
    place_of = cache(partial(file_of_module, workspace=workspace, folders=folders))
    begin, counted = 0, 0
    for summary in _UNITTEST_RAN.finditer(output):
        counted += int(summary[1])
        text, begin = output[begin : summary.start()], summary.end()
        failed = _unittest_failures(text)
        for method, where, ending in _unittest_endings(text):
            holder = _class_of(where, method)
            if where.startswith(_UNLOADED):
                # The "test" is a module that could not be imported.
                names.add(place_of(method)[0], "failed")
                names.whole = False
                continue
            file, class_name = place_of(holder)
            identifier = "::".join(filter(None, (file, class_name, method)))
            names.add(identifier, "failed" if (method, holder) in failed else ending)
    if not names.endings:
        return None
    names.whole = names.whole and len(names.endings) == counted
    return names.collected


def _unittest_failures(text: str) -> set[tuple[str, str]]:
    """Return method and class of each traceback, also of tests whose ending is lost."""
    failures = _UNITTEST_FAILURE.findall(text)
    return {(method, _class_of(where, method)) for method, where in failures}


def _unittest_endings(text: str) -> Iterator[tuple[str, str, Ending]]:
    """Yield method, place and ending of each test."""
    headers = [*_UNITTEST.finditer(text)]
    ends = [*(header.start() for header in headers[1:]), len(text)]
    for header, end in zip(headers, ends, strict=False):
        # The tracebacks after the last test begin with such a line.
        printed = text[header.end() : end].partition("\n====")[0]
        ending = _unittest_ending([*_UNITTEST_END.finditer(printed)])
        yield header["method"], header["where"], ending


def _unittest_ending(matches: Sequence[re.Match[str]]) -> Ending:
    """Return the ending of a test by the words at its end and those of its subtests."""
    words = [match["end"].partition(" ")[0] for match in matches]
    if not words:
        return ""
    if not {"FAIL", "ERROR", "unexpected"}.isdisjoint(words):
        return "failed"
    # A test is not skipped if one of its subtests is.
    if words == ["skipped"] and not matches[0]["sub"]:
        return "skipped"
    return "xfailed" if words[-1] == "expected" else "passed"


def _class_of(where: str, method: str) -> str:
    """Return module and class. Python 3.11 and later adds the method."""
    return where.removesuffix(f".{method}")
