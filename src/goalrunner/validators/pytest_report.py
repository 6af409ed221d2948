"""Reports of pytest to the runner, in files outside of the workspace: how they are made and read.

They are written by a plugin; where it cannot be loaded, by pytest itself as JUnit XML.
"""

from __future__ import annotations

import os
import secrets
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from pydantic import ValidationError

from goalrunner.core.field_types import Frozen
from goalrunner.core.verdict import TEST_IDS
from goalrunner.validators.runners import Way

LARGEST = 64_000_000
"""Bytes; some 300,000 tests."""
_MOST_FILES = 100
_Ending = Literal["skipped", "xfailed", "passed", "failed"]
_RANK: dict[_Ending, int] = {"skipped": 0, "xfailed": 1, "passed": 2, "failed": 3}


@dataclass(frozen=True)
class PytestReporting:
    """One run of a line that reports in one way. `folder` is fresh and removed by the caller."""

    way: Way
    folder: Path
    plugin: str

    @classmethod
    def begin(cls, way: Way, folder: Path) -> PytestReporting:
        """Make the folder with the plugin. Raise OSError."""
        folder.mkdir(mode=0o700)
        plugin = f"goal_report_{secrets.token_hex(8)}"
        source = Path(__file__).with_name("pytest_plugin.py").read_text(encoding="utf-8")
        # Under a name that is no file: coverage must not count its lines.
        text = f"exec(compile({source!r}, '<goal report>', 'exec'))\n"
        (folder / f"{plugin}.py").write_text(text, encoding="utf-8")
        return cls(way, folder, plugin)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which pytest reports."""
        option = f"--junitxml={shlex.quote(str(self.folder / 'report.xml'))} -o junit_family=xunit1"
        added = {"PYTEST_ADDOPTS": (" ", option)}
        if self.way == "plugin":
            added = {"PYTHONPATH": (os.pathsep, str(self.folder)), "PYTEST_PLUGINS": (",", self.plugin)}
        return {**env, **{name: mark.join(filter(None, (env.get(name), text))) for name, (mark, text) in added.items()}}

    def not_loaded(self, output: str) -> bool:
        """Return whether pytest could not load the plugin. `output` is the end of the check's output."""
        return self.way == "plugin" and f"No module named '{self.plugin}'" in output

    def read(self, cwd: Path, workspace: Path) -> Report:
        """Return what was reported."""
        paths = self.folder.glob("*.json" if self.way == "plugin" else "*.xml")
        return read_reports(paths, len([*self.folder.glob("*.began")]), cwd, workspace)


class _File(Frozen):
    """What one pytest process wrote. `root` is its root folder; `stopped` says why it ended early."""

    root: str
    stopped: str
    endings: dict[str, _Ending]


@dataclass(frozen=True)
class Report:
    """The tests of one check."""

    files: int = 0
    began: int = 0
    """pytest processes that are known to have started; 0 without the plugin."""
    run: int = 0
    """Tests that passed, failed, or failed as expected."""
    failed: int = 0
    skipped: int = 0
    ids: tuple[str, ...] = ()
    """Tests that passed or failed, by workspace-relative file, sorted."""
    stopped: str = ""
    """Why pytest ended before its last test."""
    unreadable: str = ""
    """What is wrong with a file."""

    def problem(self, needed: int) -> str:
        """Return why exit code 0 does not count; empty if it does. `needed` is the number of reports there must be."""
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
    endings: dict[str, _Ending] = {}
    stopped, files = "", 0
    for path in sorted(paths)[:_MOST_FILES]:
        try:
            content = _read(path, cwd, workspace)
        except (OSError, ValidationError, ElementTree.ParseError) as error:
            return Report(files=files, began=began, unreadable=str(error).partition("\n")[0])
        files += 1
        stopped = stopped or content.stopped
        for node, ending in content.endings.items():
            file, mark, rest = node.partition("::")
            inside = os.path.relpath(os.path.join(content.root, file), os.path.realpath(workspace))  # noqa: PTH118
            identifier = f"{file if inside.startswith('..') else inside}{mark}{rest}"
            if _RANK[ending] >= _RANK[endings.get(identifier, "skipped")]:
                endings[identifier] = ending
    number = {ending: list(endings.values()).count(ending) for ending in _RANK}
    counted = sorted(identifier for identifier, ending in endings.items() if ending in ("passed", "failed"))
    return Report(
        files=files,
        began=began,
        run=len(endings) - number["skipped"],
        failed=number["failed"],
        skipped=number["skipped"],
        ids=tuple(counted[:TEST_IDS]),
        stopped=stopped,
    )


def _read(path: Path, cwd: Path, workspace: Path) -> _File:
    """Return what a report says. Raise OSError, ValidationError and ParseError."""
    content = _content(path)
    if path.suffix == ".json":
        return _File.model_validate_json(content)
    # JUnit XML does not name the root folder: it is the current one or above.
    own = Path(os.path.realpath(cwd))
    above = [folder for folder in (own, *own.parents) if folder.is_relative_to(os.path.realpath(workspace))]
    cases = ElementTree.fromstring(content).iter("testcase")  # noqa: S314 - expat refuses entities that explode
    endings: dict[str, _Ending] = {}
    for case in cases:
        root, node = _node(case, above)
        node, ending = os.path.join(root, node), _ending(case)  # noqa: PTH118
        if _RANK[ending] >= _RANK[endings.get(node, "skipped")]:
            endings[node] = ending
    return _File(root=str(own), stopped="", endings=endings)


def _ending(case: ElementTree.Element) -> _Ending:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.find("skipped")
    if skipped is None:
        return "passed"
    return "xfailed" if skipped.get("type") == "pytest.xfail" else "skipped"


def _node(case: ElementTree.Element, folders: Sequence[Path]) -> tuple[str, str]:
    """Return the folder and the id of a test, which JUnit XML gives as `tests.test_a.TestX`, its name, and a file.

    The file is the one that defines the test; a class may inherit it. A file that was not collected has its name alone.
    """
    file, names, name = case.get("file", ""), case.get("classname", ""), case.get("name", "")
    parts = (names or name).split(".")
    known = [f"{'/'.join(parts[:end])}.py" for end in range(len(parts), 0, -1)]
    for path in (file, *known):
        module = path.removesuffix(".py").replace("/", ".")
        folder = next((str(folder) for folder in folders if (folder / path).is_file()), "")
        if path and f"{names or name}.".startswith(f"{module}.") and (folder or path == file):
            classes = (names or name)[len(module) :].split(".")
            return folder, "::".join(filter(None, (path, *classes, name if names else "")))
    return "", "::".join(filter(None, (file or names, name)))


def _content(path: Path) -> bytes:
    """Return the content of a report. Raise OSError."""
    # What ran may have put a link, a pipe or a device in the file's place.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise OSError(f"it is not a regular file of at most {LARGEST // 1_000_000} MB")
        return file.read()
