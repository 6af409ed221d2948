"""Reading a JUnit file that another process wrote. Owns what is believed of it; writes none.

Nothing is expanded or fetched: a document type is refused whole. Size, depth and numbers are bounded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal
from xml.parsers import expat

LARGEST = 64_000_000
"""Bytes; some 300,000 tests."""

_DEEPEST = 50
_LONGEST = 2_000
"""Characters of one test's name."""

Ending = Literal["passed", "failed", "xfailed", "skipped"]


class UnreadableReport(Exception):
    """The file is missing, too large, no regular file, or no JUnit XML; the message says which."""


@dataclass
class Case:
    """One `testcase`."""

    ending: Ending
    node: str
    """pytest's own id, relative to its root; empty where the file does not give it."""
    file: str
    classname: str
    name: str


@dataclass
class Suite:
    """What a file holds. `root` is pytest's root folder, `stopped` why it ended early; empty where it is not said."""

    root: str = ""
    stopped: str = ""
    cases: list[Case] = field(default_factory=list)


def read_suite(path: Path) -> Suite:
    """Parse a file. Raises UnreadableReport."""
    reader = _Reader()
    try:
        with _opened(path) as file:
            reader.parser.ParseFile(file)
    except expat.ExpatError as error:
        raise UnreadableReport(f"it is no XML ({error})") from error
    except OSError as error:
        raise UnreadableReport(f"it cannot be read ({error.strerror})") from error
    if not reader.suites:
        raise UnreadableReport("it holds no testsuite")
    return reader.suite


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    # Whatever ran may have put a link, a pipe or a device in the file's place.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:  # noqa: PTH123 - a handle, no Path
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableReport("it is no regular file")
        if status.st_size > LARGEST:
            raise UnreadableReport(f"it has more than {LARGEST // 1_000_000} MB")
        yield file


class _Reader:
    def __init__(self) -> None:
        self.suite = Suite()
        self.suites = 0
        self._depth = 0
        self._case: Case | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    def _refuse(self, *_: object) -> None:
        raise UnreadableReport("it declares a document type or an entity")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnreadableReport("it is nested too deeply")
        match tag:
            case "testsuite":
                self.suites += 1
                self.suite.root = attributes.get("rootdir", self.suite.root)
                self.suite.stopped = attributes.get("stopped", self.suite.stopped)[:_LONGEST]
            case "testcase":
                said = {key: attributes.get(key, "")[:_LONGEST] for key in ("nodeid", "file", "classname", "name")}
                self._case = Case("passed", said["nodeid"], said["file"], said["classname"], said["name"])
            case "failure" | "error" if self._case:
                self._case.ending = "failed"
            case "skipped" if self._case and self._case.ending == "passed":
                self._case.ending = "xfailed" if attributes.get("type") == "pytest.xfail" else "skipped"

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "testcase" and self._case:
            self.suite.cases.append(self._case)
            self._case = None
