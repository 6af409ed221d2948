"""The tests that `go test -v` and `cargo test` count and name in their output."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.verdict import RunnerCount

GO = "go test "
"""What the id of a Go test begins with; its package follows."""
GO_PACKAGE = re.compile(r"(ok  |FAIL|\?   )\t(\S+)(?:\t.*| \[[a-z ]+\])?")
CARGO_RESULT = re.compile(
    r"test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; \d+ measured; (\d+) filtered out"
    r"(?:; finished in [0-9.]+s)?"
)
_GO_UNBUILT = re.compile(r"FAIL\t\S+ \[(?:build|setup) failed\]")
_GO_FRAME = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME) .*|\s*--- (?:PASS|SKIP): .* \([0-9.]+s\)|PASS")
_GO_TEST = re.compile(r"--- (?:PASS|FAIL): ([^\s/]+) \([0-9.]+s\)$")
_CARGO_TARGET = re.compile(r" +Running (?:unittests )?(\S+) \(.*\)| +(Doc-tests) \S+")
_CARGO_BEGAN = re.compile(r"running (\d+) tests?")
_CARGO_TEST = re.compile(r"test (\S.*?)(?: - should panic| - compile(?: fail)?)? \.\.\. (ok|FAILED)(?: \(\d.*\))?")
_CARGO_DOC = re.compile(r"(\S+) - (.*?) ?\(line (\d+)\)")


@dataclass(frozen=True)
class NamedTests:
    """The summaries of an output, and the ids of tests that passed or failed.

    `ended_early` is a test program that started and printed no result.
    """

    counts: tuple[RunnerCount, ...] = ()
    ids: tuple[str, ...] = ()
    ended_early: str = ""


def go_tests(lines: Sequence[str]) -> NamedTests:
    """Return the packages as one summary, and the ids `go test package::Test`; of an unbuilt package, its name."""
    ids: set[str] = set()
    tests: list[str] = []
    states: list[str] = []
    for line in lines:
        if test := _GO_TEST.search(line):
            tests.append(test[1])
        elif package := GO_PACKAGE.fullmatch(line):
            ids |= {f"{GO}{package[2]}::{name}" for name in tests}
            if _GO_UNBUILT.fullmatch(line):
                ids.add(f"{GO}{package[2]}")
            if package[1] != "?   " and "no tests to run" not in line:
                states.append(package[1])
            tests = []
    count = RunnerCount(runner="go test", ran=len(states), failed="FAIL" in states, named=bool(ids))
    return NamedTests((count,) if states else (), tuple(sorted(ids)))


def cargo_tests(lines: Sequence[str]) -> NamedTests:
    """Return a summary for each test program, and the ids `tests/file.rs::module::test`, relative to the package.

    There are no ids if output of tests stands between the names.
    """
    ids: set[str] = set()
    counts: list[RunnerCount] = []
    tests: list[str] = []
    target, early, began, legible = "", "", False, True
    for line in lines:
        if found := _CARGO_TARGET.fullmatch(line):
            early = early or (target if began else "")
            target, began, tests = found[1] or "doc", False, []
        elif _CARGO_BEGAN.fullmatch(line.strip()) and not (began and target):
            early = early or ("cargo test" if began else "")
            began, tests = True, []
        elif test := _CARGO_TEST.fullmatch(line):
            tests.append(test[1])
        elif result := CARGO_RESULT.fullmatch(line.strip()):
            ran = int(result[2]) + int(result[3])
            count = RunnerCount(runner="cargo test", ran=ran, skipped=int(result[4]), failed=result[1] != "ok")
            counts.append(count)
            if began:
                legible = legible and len(tests) == ran
                ids |= {_cargo_id(target, name) for name in tests if target}
            began = False
    if began and (target or counts):
        early = early or target or "cargo test"
    named = bool(ids) and legible
    return NamedTests(
        tuple(count.model_copy(update={"named": named}) for count in counts),
        tuple(sorted(ids)) if legible else (),
        early if counts or target else "",
    )


def _cargo_id(target: str, name: str) -> str:
    if target != "doc":
        return f"{target}::{name}"
    found = _CARGO_DOC.fullmatch(name)
    # The line of a documentation test moves with the code above it, like the variant of a test.
    return f"{found[1]}::{found[2] or 'doc'}[{found[3]}]" if found else f"doc::{name}"


def remove_go_frames(output: Path, plain: Path) -> None:
    """Rewrite the output of `go test -v`, through the file `plain`, as `go test` prints it.

    Of packages that pass, the last line alone is kept.
    """
    with output.open(encoding="utf-8", errors="surrogateescape", newline="\n") as source:
        if not any(_GO_FRAME.fullmatch(line.rstrip("\r\n")) for line in source):
            return
        source.seek(0)
        with plain.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as sink:
            sink.writelines(_plain(source))
    os.replace(plain, output)  # noqa: PTH105 - one call


def _plain(source: Iterator[str]) -> Iterator[str]:
    kept: list[str] = []
    running = False
    for line in source:
        text = line.rstrip("\r\n")
        if package := GO_PACKAGE.fullmatch(text):
            yield from (*(kept if package[1] != "ok  " else ()), line)
            kept, running = [], False
        elif _GO_FRAME.fullmatch(text):
            running = running or text.startswith("=== RUN")
        elif running:
            kept.append(line)
        else:
            yield line
    yield from kept
