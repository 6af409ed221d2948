"""The tests in JUnit XML files that a check writes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from goalrunner.core.verdict import CollectedTests, Ending
from goalrunner.validators.collected_tests import (
    TestNames,
    file_of_module,
    path_in_workspace,
)

LARGEST = 8_000_000
"""Bytes of a file that is read."""
# surefire writes one file for each class of tests.
_MOST_FILES = 500
"""Files that are read."""
# Looking through a workspace takes time, so only with a sign that there are reports.
_WRITES = re.compile(r"junit|surefire|xunit|\bgradlew?\b|\bmvnw?\b", re.IGNORECASE)
_STAMP = "began"
_COPY = f"""
import os, shutil, sys
workspace, folder = sys.argv[1:]
began = os.stat(os.path.join(folder, "{_STAMP}")).st_mtime_ns
skipped = (".git", "node_modules", ".venv", "venv", "site-packages")
number = 0
for place, folders, names in os.walk(workspace):
    folders[:] = [name for name in folders if name not in skipped]
    for name in names:
        path = os.path.join(place, name)
        if number >= {_MOST_FILES} or not name.endswith(".xml"):
            continue
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        about = os.stat(path)
        # A program can set the mtime alone, also to the future.
        changed = min(about.st_mtime_ns, about.st_ctime_ns)
        if changed < began or about.st_size > {LARGEST}:
            continue
        with open(path, "rb") as file:
            if b"<testsuite" not in file.read(4096):
                continue
        number += 1
        shutil.copyfile(path, os.path.join(folder, "%d.junit" % number))
"""


def writes_junit(texts: str) -> bool:
    """Return whether a validator may write JUnit files, by the text of what it runs."""
    return _WRITES.search(texts) is not None


def begin_junit(folder: Path) -> None:
    """Record in the folder of reports that the check begins. Raise OSError."""
    (folder / _STAMP).touch()


def copying_command(python: str, workspace: Path, folder: Path) -> list[str]:
    """Return the command that copies the JUnit files of a check into a folder.

    It runs in the check environment.
    """
    return [python, "-I", "-S", "-c", _COPY, str(workspace), str(folder)]


@dataclass
class _Case:
    name: str
    file: str
    holder: str
    ending: Ending = "passed"


@dataclass
class _Parser:
    """Reads one file.

    A file with a document type is refused: it may define entities, which may grow
    without limit.
    """

    cases: list[_Case] = field(default_factory=list)
    current: _Case | None = None

    def parse(self, content: bytes) -> bool:
        """Return whether the content could be read."""
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = _refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        try:
            parser.Parse(content, True)
        except (expat.ExpatError, ValueError):
            return False
        return True

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "testcase":
            file, holder = attributes.get("file", ""), attributes.get("classname", "")
            self.current = _Case(attributes.get("name", ""), file, holder)
            return
        case = self.current
        if case is None:
            # A suite may fail outside of its tests.
            return
        if name in ("failure", "error"):
            case.ending = "failed"
        elif name == "skipped" and case.ending == "passed":
            case.ending = "skipped"

    def _end(self, name: str) -> None:
        if name == "testcase" and self.current is not None:
            self.cases.append(self.current)
            self.current = None


def _refuse(*_: object) -> NoReturn:
    raise ValueError("a document type is not read")


def read_junit_reports(
    reports: Path, folder: Path, workspace: Path
) -> CollectedTests | None:
    """Return the tests in the files that were copied; None if there are none.

    `folder` is the one the check ran in.
    """
    paths = sorted(reports.glob("*.junit"))
    if not paths:
        return None
    names = TestNames(whole=len(paths) < _MOST_FILES)
    for path in paths:
        parser = _Parser()
        is_read = path.stat().st_size <= LARGEST and parser.parse(path.read_bytes())
        names.whole = names.whole and is_read
        for case in parser.cases:
            names.add(_identifier(case, folder, workspace), case.ending)
    return names.collected


def _identifier(case: _Case, folder: Path, workspace: Path) -> str:
    if case.file:
        return f"{path_in_workspace(case.file, folder, workspace)}::{case.name}"
    # Most runners write the class alone: `tests.test_a.TestA`.
    file, class_name = file_of_module(case.holder, workspace, [folder])
    return "::".join(filter(None, (file, class_name, case.name)))
