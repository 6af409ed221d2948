"""The tests that `go test -v`, `cargo test` and `unittest -v` name in their output, each with its ending."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from goalrunner.core.tools import CARGO_TEST, GO_TEST, UNITTEST
from goalrunner.core.verdict import CollectedTests, Ending
from goalrunner.validators.collected_tests import TestNames, path_in_workspace
from goalrunner.validators.runners import CARGO_RESULT, GO_PACKAGE

GO = "go test "
"""Prefix of the id of a Go test; its package follows."""
_GO_LINE = re.compile(
    rf"=== RUN   (?P<started>[^\s/]+)$|--- (?P<ending>PASS|FAIL|SKIP): (?P<test>[^\s/]+) \([0-9.]+s\)$"
    rf"|^(?P<end>FAIL)$|{GO_PACKAGE.pattern}",
    re.MULTILINE,
)
_GO_ENDINGS: Mapping[str, Ending] = {
    "PASS": "passed",
    "FAIL": "failed",
    "SKIP": "skipped",
}
_CARGO_PROGRAM = re.compile(
    r"^ +(?:Running (?:unittests )?(\S+) \(.*\)|(?:Doc-tests) \S+)$", re.MULTILINE
)
_CARGO_BEGIN = re.compile(r"^ *running (\d+) tests? *$", re.MULTILINE)
_CARGO_TEST = re.compile(
    r"^test (\S.*?)(?: - should panic| - compile(?: fail)?)? \.\.\. (ok|FAILED|ignored)(?: \(\d.*\)|, .*)?$",
    re.MULTILINE,
)
_CARGO_ENDINGS: Mapping[str, Ending] = {
    "ok": "passed",
    "FAILED": "failed",
    "ignored": "skipped",
}
_CARGO_DOC = re.compile(r"(\S+) - (.*?) ?\(line (\d+)\)")
_CARGO_GAVE_UP = re.compile(r"^error: (?:test|doctest) failed, to rerun", re.MULTILINE)
_CARGO_WENT_ON = re.compile(r"^error: \d+ targets? failed:", re.MULTILINE)
_UNITTEST = re.compile(
    r"(?:^|(?<= \.\.\. ))(?P<method>[\w.]+) \((?P<where>[\w.]+)\)(?:\n(?! *test).*?)? \.\.\. ",
    re.MULTILINE,
)
_UNITTEST_END = re.compile(
    r"^(?P<sub>  \w+ \(.*\) .*\.\.\. )?(?:.*?\.\.\. )?"
    r"(?P<end>ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$",
    re.MULTILINE,
)
_UNITTEST_RAN = re.compile(r"^-+\nRan (\d+) tests? in [0-9.]+s$", re.MULTILINE)
_UNITTEST_FAILURE = re.compile(r"^(?:FAIL|ERROR): (\w+) \(([\w.]+)\)", re.MULTILINE)
_UNLOADED = "unittest.loader._FailedTest"


def named_tests(
    output: str, *, asked_go: bool, workspace: Path, folders: Sequence[Path]
) -> dict[str, CollectedTests]:
    """Return the tests that an output names, by the name of their runner.

    `asked_go`: each `go test` was asked to name its tests. `folders` are those that modules of unittest may lie in.
    """
    found = {
        GO_TEST.name: go_tests(output, asked=asked_go),
        CARGO_TEST.name: cargo_tests(output),
        UNITTEST.name: unittest_tests(output, workspace, folders),
    }
    return {runner: tests for runner, tests in found.items() if tests is not None}


def go_tests(output: str, *, asked: bool) -> CollectedTests | None:
    """Return `go test package::Test` for each test, and `go test package` for a package that cannot be built.

    None if go named no tests and was not asked to.
    """
    if not asked and "=== RUN" not in output:
        return None
    found = TestNames(whole=asked)
    endings: dict[str, Ending] = {}
    has_ended = False
    packages = 0
    for line in _GO_LINE.finditer(output):
        if line["started"]:
            endings.setdefault(line["started"], "")
        elif line["test"]:
            endings[line["test"]] = _GO_ENDINGS[line["ending"]]
        elif line["end"]:
            has_ended = True
        else:
            packages += 1
            package = f"{GO}{line[line.lastindex or 0]}"
            if line[0].endswith("failed]"):
                endings, found.whole = {"": "failed"}, False
            elif line[0].startswith("FAIL") and not has_ended:
                found.whole = False
            for name, ending in endings.items():
                found.add(f"{package}::{name}" if name else package, ending)
            found.whole = found.whole and "" not in endings.values()
            endings, has_ended = {}, False
    return found.collected if packages else None


def started_and_ended(output: str) -> str:
    """Return a test program of cargo that started and printed no result; empty if there is none.

    With `-q`, cargo does not print which program it starts.
    """
    before, *parts = _CARGO_PROGRAM.split(output)
    began, ended = len(_CARGO_BEGIN.findall(before)), len(CARGO_RESULT.findall(before))
    if 0 < ended < began:
        return CARGO_TEST.name
    for target, text in zip(parts[::2], parts[1::2], strict=True):
        if _CARGO_BEGIN.search(text) and not CARGO_RESULT.search(text):
            return target or "doc"
    return ""


def cargo_tests(output: str) -> CollectedTests | None:
    """Return the tests of cargo as `tests/file.rs::module::test`, relative to the package.

    None if it names none, which is so with `-q`, or if output of tests is between the names.
    """
    before, *parts = _CARGO_PROGRAM.split(output)
    if not parts:
        return None
    found = TestNames(whole=not _CARGO_BEGIN.search(before))
    for target, text in zip(parts[::2], parts[1::2], strict=True):
        begin, results = _CARGO_BEGIN.search(text), CARGO_RESULT.findall(text)
        names = _CARGO_TEST.findall(text)
        if not results:
            found.whole = found.whole and begin is None
        elif begin is None or len(names) != int(begin[1]):
            return None
        for name, ending in names:
            identifier = _cargo_id(target, name)
            # Packages of a workspace may have files of the same name.
            found.whole = found.whole and identifier not in found.endings
            found.add(identifier, _CARGO_ENDINGS[ending])
    if _CARGO_GAVE_UP.search(output) and not _CARGO_WENT_ON.search(output):
        found.whole = False
    return found.collected


def _cargo_id(target: str | None, name: str) -> str:
    """Return the id of a test of a target, or of the documentation if there is no target."""
    if target:
        return f"{target}::{name}"
    documented = _CARGO_DOC.fullmatch(name)
    if documented is None:
        return f"doc::{name}"
    # The line of a documentation test moves with the code above it, like the variant of a test.
    return f"{documented[1]}::{documented[2] or 'doc'}[{documented[3]}]"


def unittest_tests(
    output: str, workspace: Path, folders: Sequence[Path]
) -> CollectedTests | None:
    """Return the tests of `unittest -v` as `tests/test_a.py::Class::test`; None if it names none.

    A module that is found in none of the folders is the file of its id.
    """
    found = TestNames()
    place_of = cache(partial(file_of_module, workspace=workspace, folders=folders))
    begin, number = 0, 0
    for summary in _UNITTEST_RAN.finditer(output):
        number += int(summary[1])
        text, begin = output[begin : summary.start()], summary.end()
        failed = {
            (method, _class_of(where, method))
            for method, where in _UNITTEST_FAILURE.findall(text)
        }
        for method, where, ending in _unittest_endings(text):
            if where.startswith(_UNLOADED):
                found.add(place_of(method)[0], "failed")
                found.whole = False
                continue
            holder = _class_of(where, method)
            file, rest = place_of(holder)
            is_failed = (method, holder) in failed
            found.add(
                "::".join(filter(None, (file, rest, method))),
                "failed" if is_failed else ending,
            )
    if not found.endings:
        return None
    found.whole = found.whole and len(found.endings) == number
    return found.collected


def _unittest_endings(text: str) -> Iterator[tuple[str, str, Ending]]:
    """Yield method, place and ending of each test. A test is not skipped if one of its subtests is."""
    headers = [*_UNITTEST.finditer(text)]
    for index, header in enumerate(headers, 1):
        following = headers[index].start() if index < len(headers) else len(text)
        between = text[header.end() : following].partition("\n====")[0]
        ends = [*_UNITTEST_END.finditer(between)]
        words = [end["end"].partition(" ")[0] for end in ends]
        ending: Ending = ""
        if {"FAIL", "ERROR", "unexpected"} & {*words}:
            ending = "failed"
        elif words == ["skipped"] and not ends[0]["sub"]:
            ending = "skipped"
        elif words:
            ending = "xfailed" if words[-1] == "expected" else "passed"
        yield header["method"], header["where"], ending


def _class_of(where: str, method: str) -> str:
    """Return module and class. Python 3.11 and later adds the method."""
    return where.removesuffix(f".{method}")


def file_of_module(
    holder: str, workspace: Path, folders: Sequence[Path]
) -> tuple[str, str]:
    """Return the file of a module in the workspace, and the class in it."""
    parts = holder.split(".")
    for length in range(len(parts), 0, -1):
        for folder in folders:
            for name in (
                ".".join(parts[:length]).replace(".", "/") + end
                for end in (".py", "/__init__.py")
            ):
                if (folder / name).is_file():
                    return path_in_workspace(name, folder, workspace), "::".join(
                        parts[length:]
                    )
    return holder, ""
