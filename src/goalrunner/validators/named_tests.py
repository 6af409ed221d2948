"""The tests that `go test -v` and `cargo test` name in their output."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

GO = "go test "
"""What the id of a Go test begins with; its package follows."""

_GO_PACKAGE = re.compile(r"(ok  |FAIL|\?   )\t(\S+)(?:\t.*| \[[a-z ]+\])?")
_GO_UNBUILT = re.compile(r"FAIL\t\S+ \[(?:build|setup) failed\]")
_GO_FRAME = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME) .*|\s*--- (?:PASS|SKIP): .* \([0-9.]+s\)|PASS")
_GO_RUN = re.compile(r"=== RUN +\S+")
_GO_TEST = re.compile(r"--- (?:PASS|FAIL): ([^\s/]+) \([0-9.]+s\)$")

_CARGO_TARGET = re.compile(r" +Running (?:unittests )?(\S+) \(.*\)| +(Doc-tests) \S+")
_CARGO_BEGAN = re.compile(r"running (\d+) tests?")
_CARGO_TEST = re.compile(r"test (\S.*?)(?: - should panic| - compile(?: fail)?)? \.\.\. (ok|FAILED)(?: \(\d.*\))?")
_CARGO_DOC = re.compile(r"(\S+) - (.*?) ?\(line (\d+)\)")
_CARGO_RESULT = re.compile(r"test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; .*")


@dataclass(frozen=True)
class Names:
    """The ids of tests that passed or failed. `ended_early` names a program that started and printed no result."""

    ids: tuple[str, ...] = ()
    ended_early: str = ""


def go_names(lines: Sequence[str]) -> Names:
    """Return `go test package::Test` for each, or the package alone if it could not be built."""
    found: list[str] = []
    tests: list[str] = []
    for line in lines:
        if test := _GO_TEST.search(line):
            tests.append(test[1])
        elif package := _GO_PACKAGE.fullmatch(line):
            found += [f"{GO}{package[2]}::{name}" for name in tests]
            if _GO_UNBUILT.fullmatch(line):
                found.append(f"{GO}{package[2]}")
            tests = []
    return Names(tuple(sorted(set(found))))


def cargo_names(lines: Sequence[str]) -> Names:
    """Return `tests/file.rs::module::test` for each; none if output of tests stands between the names.

    An integration test has the path that cargo prints, relative to its package.
    """
    ids: list[str] = []
    tests: list[str] = []
    target, began, legible = "", False, True
    early = ""
    for line in lines:
        if found := _CARGO_TARGET.fullmatch(line):
            early = early or (target if began else "")
            target, began, tests = found[1] or "doc", False, []
        elif _CARGO_BEGAN.fullmatch(line) and not began:
            began, tests = True, []
        elif began and (test := _CARGO_TEST.fullmatch(line)):
            tests.append(test[1])
        elif began and (result := _CARGO_RESULT.fullmatch(line)):
            legible = legible and len(tests) == int(result[1]) + int(result[2])
            ids += [_cargo_id(target, name) for name in tests] if target else []
            began = False
    early = early or (target if began and target else "")
    return Names(tuple(sorted(set(ids))) if legible else (), early)


def _cargo_id(target: str, name: str) -> str:
    if target != "doc":
        return f"{target}::{name}"
    found = _CARGO_DOC.fullmatch(name)
    # The line of a documentation test moves with the code above it, like the variant of a test.
    return f"{found[1]}::{found[2] or 'doc'}[{found[3]}]" if found else f"doc::{name}"


def without_go_frames(output: Path, plain: Path) -> bool:
    """Write the output of `go test -v` to `plain` as `go test` prints it: of packages that pass, the last line alone.

    Return False, and write nothing, if the output has no such lines.
    """
    with output.open(encoding="utf-8", errors="surrogateescape", newline="\n") as source:
        if not any(_GO_FRAME.fullmatch(line.rstrip("\r\n")) for line in source):
            return False
        source.seek(0)
        with plain.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as sink:
            sink.writelines(_plain(source))
    os.replace(plain, output)  # noqa: PTH105 - one call
    return True


def _plain(source: Iterator[str]) -> Iterator[str]:
    kept: list[str] = []
    running = False
    for line in source:
        text = line.rstrip("\r\n")
        if package := _GO_PACKAGE.fullmatch(text):
            if package[1] != "ok  ":
                yield from kept
            yield line
            kept, running = [], False
        elif _GO_FRAME.fullmatch(text):
            running = running or _GO_RUN.fullmatch(text) is not None
        elif running:
            kept.append(line)
        else:
            yield line
    yield from kept
