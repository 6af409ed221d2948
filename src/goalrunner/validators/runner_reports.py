"""Test runners report to the runner of goals: the environment in which they do, and what they wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.core.runner_calls import Call
from goalrunner.core.verdict import CollectedTests
from goalrunner.validators.junit_report import (
    begin_junit,
    read_junit_reports,
    writes_junit,
)
from goalrunner.validators.node_report import (
    read_node_reports,
    refuses_reporter,
    starts_node_tests,
    with_reporter,
)
from goalrunner.validators.pytest_report import (
    PytestReport,
    read_reports,
    reporting,
    with_python_path,
)
from goalrunner.validators.runners import reports_needed

_PYTEST = re.compile(r"(?<![\w-])(?:pytest|py\.test)(?![\w/-])")
_UNITTEST = re.compile(r"\bpy\S*\s(?:.*\s)?-m\s+unittest\b")
_UNITTEST_FOLDER = "unittest"
"""A folder of its own: each plugin takes its folder from the path of its process."""
_MEASURED = re.compile(r"\bcoverage\b.*\brun\b|COVERAGE_PROCESS")
"""What would measure the plugins."""
_UNWATCHED = re.compile(rf"{_MEASURED.pattern}|PYTHONPATH\s*[:?+]?=")
"""What a pytest that a script starts is not watched for: it measures the plugin, or cannot import it."""


@dataclass(frozen=True)
class Reports:
    """What test runners wrote for the runner of goals beside their output; None: nothing."""

    pytest: PytestReport | None = None
    needed: int = 0
    """The number of reports of pytest that there must be."""
    is_direct: bool = False
    """Whether the line itself calls pytest, so that a failure in its report is not one that a script wants."""
    node: CollectedTests | None = None
    junit: CollectedTests | None = None
    cut_off: int = 0
    """Processes of unittest that began and did not come to their end."""

    @property
    def has_pytest(self) -> bool:
        return self.pytest is not None and self.pytest.files > 0


@dataclass(frozen=True)
class Watch:
    """How a line is run so that its test runners report into a folder."""

    folder: Path
    line: str
    env: Mapping[str, str]
    needed: int = 0
    plugin: str = ""
    """The module of the plugin of pytest; empty: pytest does not report."""
    is_direct: bool = False
    """Whether the line itself calls pytest."""
    watches_node: bool = False
    watches_junit: bool = False
    watches_unittest: bool = False

    @property
    def is_needed(self) -> bool:
        return bool(
            self.plugin
            or self.watches_node
            or self.watches_junit
            or self.watches_unittest
        )


def watch(
    folder: Path, line: str, calls: Sequence[Call], texts: str, env: Mapping[str, str]
) -> Watch:
    """Make a folder for reports; return how the line is run. Raise OSError."""
    folder.mkdir(mode=0o700)
    found = Watch(folder, line, env, watches_junit=writes_junit(texts))
    needed = reports_needed(calls, env)
    starts_pytest = _PYTEST.search(texts) is not None and not any(
        call.runner.name == "pytest" for call in calls
    )
    if needed is not None or (
        starts_pytest and not _UNWATCHED.search("\n".join((texts, *env)))
    ):
        plugin, line, env = reporting(folder, line, env)
        found = replace(
            found,
            line=line,
            env=env,
            needed=needed or 0,
            plugin=plugin,
            is_direct=needed is not None,
        )
    if found.watches_junit:
        begin_junit(folder)
    if starts_node_tests(texts):
        found = replace(found, env=with_reporter(folder, env), watches_node=True)
    if _UNITTEST.search(texts) and not _MEASURED.search("\n".join((texts, *env))):
        place = folder / _UNITTEST_FOLDER
        place.mkdir(mode=0o700)
        source = (
            Path(__file__).with_name("unittest_watch.py").read_text(encoding="utf-8")
        )
        (place / "sitecustomize.py").write_text(source, encoding="utf-8")
        line, env = with_python_path(place, found.line, found.env)
        found = replace(found, line=line, env=env, watches_unittest=True)
    return found


def is_refused(watched: Watch, output: str) -> bool:
    """Return whether a program did not start because of what makes it report."""
    is_missing = (
        bool(watched.plugin) and f"No module named '{watched.plugin}'" in output
    )
    return is_missing or (watched.watches_node and refuses_reporter(output))


def read_all(watched: Watch, folder: Path, workspace: Path) -> Reports:
    """Return what the runners wrote. `folder` is the one in which the line ran."""
    ended, began = (
        len([*watched.folder.glob(f"{_UNITTEST_FOLDER}/*.{end}")])
        for end in ("ended", "began")
    )
    return Reports(
        cut_off=max(began - ended, 0),
        pytest=read_reports(watched.folder, workspace, watched.needed)
        if watched.plugin
        else None,
        needed=watched.needed,
        is_direct=watched.is_direct,
        node=read_node_reports(watched.folder, workspace)
        if watched.watches_node
        else None,
        junit=read_junit_reports(watched.folder, folder, workspace)
        if watched.watches_junit
        else None,
    )
