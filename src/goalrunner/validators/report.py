"""What the JUnit files of a check say together. Owns the counts and the tests' ids; starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from goalrunner.model.validation import TEST_IDS
from goalrunner.validators.junit import Case, Ending, Suite, UnreadableReport, read_suite

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
