"""Reading JUnit files: counts and ids of tests."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal
from xml.parsers import expat

from goalrunner.core.verdict import TEST_IDS

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


_RANK: dict[Ending, int] = {"skipped": 0, "xfailed": 1, "passed": 2, "failed": 3}
_MOST_FILES = 100


@dataclass(frozen=True)
class Report:
    """The tests of one check. `ids` are those that passed or failed, by workspace-relative file, sorted and bounded."""

    files: int = 0
    began: int = 0
    """pytest processes that are known to have begun."""
    run: int = 0
    """Tests that passed, failed, or failed as they were expected to."""
    failed: int = 0
    skipped: int = 0
    ids: tuple[str, ...] = ()
    stopped: str = ""
    """Why pytest ended before its last test, in its own words."""
    unreadable: str = ""
    """What is wrong with a file that is there."""

    def problem(self, needed: int) -> str:
        """Why exit code 0 does not count, said behind "exit 0, but ..."; empty when it does.

        `needed` is the number of reports that there must be.
        """
        if self.unreadable:
            return f"pytest's report is damaged: {self.unreadable}"
        if self.failed:
            return f"its report has {self.failed} failed"
        if self.stopped:
            return f"pytest was stopped before its end: {self.stopped}"
        if self.files < needed:
            if self.began > self.files:
                return "pytest began and was ended before it could report (os._exit in the code under test?)"
            return "no pytest reported to the runner: it was not started, or something else ran in its place"
        if needed and not self.run:
            return f"no test ran ({self.skipped} skipped)" if self.skipped else "no test ran"
        return ""


def read_reports(paths: Iterable[Path], began: int, cwd: Path, workspace: Path) -> Report:
    """Read every file; a test that is in several counts once, with its worst ending."""
    endings: dict[str, Ending] = {}
    stopped, files = "", 0
    places = _Places(cwd, workspace)
    for path in sorted(paths)[:_MOST_FILES]:
        try:
            suite = read_suite(path)
        except UnreadableReport as error:
            return Report(files=files, began=began, unreadable=str(error))
        files += 1
        stopped = stopped or suite.stopped
        for case in suite.cases:
            identifier = places.identifier(case, suite)
            if _RANK[case.ending] >= _RANK[endings.get(identifier, "skipped")]:
                endings[identifier] = case.ending
    counted = sorted(identifier for identifier, ending in endings.items() if ending in ("passed", "failed"))
    return Report(
        files=files,
        began=began,
        run=sum(ending != "skipped" for ending in endings.values()),
        failed=sum(ending == "failed" for ending in endings.values()),
        skipped=sum(ending == "skipped" for ending in endings.values()),
        ids=tuple(counted[:TEST_IDS]),
        stopped=stopped,
    )


class _Places:
    """Where a report's tests lie in the workspace."""

    def __init__(self, cwd: Path, workspace: Path) -> None:
        self._workspace = os.path.realpath(workspace)
        own = os.path.realpath(cwd)
        self._folders = [own]
        while own != self._workspace and own.startswith(self._workspace + os.sep):
            own = os.path.dirname(own)  # noqa: PTH120 - many small steps on strings
            self._folders.append(own)
        self._known: dict[tuple[str, str], str] = {}

    def identifier(self, case: Case, suite: Suite) -> str:
        """`tests/test_a.py::TestX::test_y[1]`; the file alone where it could not be collected."""
        if case.node:
            file, _, rest = case.node.partition("::")
            root = suite.root
        else:
            file, names = self._from_junit(case)
            root, rest = "", "::".join(names)
        path = self._relative(root, file)
        return f"{path}::{rest}" if rest else path

    def _from_junit(self, case: Case) -> tuple[str, list[str]]:
        """pytest's own file names a module and its classes by dots, and the file only in the older form."""
        file, parts = case.file, [part for part in case.classname.split(".") if part]
        module = file.removesuffix(".py").replace("/", ".")
        if file and f"{case.classname}.".startswith(f"{module}."):
            parts = [part for part in case.classname[len(module) :].split(".") if part]
        elif not file:
            for length in range(len(parts), 0, -1):
                candidate = "/".join(parts[:length]) + ".py"
                if self._lies(candidate):
                    return candidate, [*parts[length:], case.name]
        if not case.classname and file:
            return file, []
        return file or ".".join(parts), [*(parts if file else []), case.name]

    def _lies(self, file: str) -> str:
        """The first folder, from the check's own up to the workspace, that has the file."""
        return next((folder for folder in self._folders if os.path.exists(f"{folder}/{file}")), "")  # noqa: PTH110

    def _relative(self, root: str, file: str) -> str:
        key = (root, file)
        if key not in self._known:
            base = os.path.realpath(root) if root else self._lies(file)
            whole = os.path.normpath(os.path.join(base, file)) if base else ""  # noqa: PTH118
            inside = whole.startswith(self._workspace + os.sep)
            self._known[key] = whole[len(self._workspace) + 1 :].replace(os.sep, "/") if inside else file
        return self._known[key]
