"""The reports that test runners write beside their output, and how they are made to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.core.runner_calls import Call
from goalrunner.core.tools import PYTEST
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

# A word of its own, and not a part of a path or an option.
_PYTEST = re.compile(r"(?<![\w-])(?:pytest|py\.test)(?![\w/-])")
_UNITTEST = re.compile(r"\bpy\S*\s(?:.*\s)?-m\s+unittest\b")
_UNITTEST_FOLDER = "unittest"
"""A folder of its own: each plugin finds its folder by its own path."""
# Coverage would count the lines of the plugins.
_MEASURED = re.compile(r"\bcoverage\b.*\brun\b|COVERAGE_PROCESS")
"""What would measure the plugins."""
_UNWATCHED = re.compile(rf"{_MEASURED.pattern}|PYTHONPATH\s*[:?+]?=")
"""What a script must not do if its pytest is watched.

It would measure the plugin, or could not import it.
"""


@dataclass(frozen=True)
class Reports:
    """What test runners reported beside their output; None: nothing."""

    pytest: PytestReport | None = None
    needed: int = 0
    """The number of reports of pytest that there must be."""
    is_direct: bool = False
    """Whether the line itself calls pytest; a script may want its tests to fail."""
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
    watched = Watch(folder, line, env, watches_junit=writes_junit(texts))
    # Names of variables count as well: COVERAGE_PROCESS_START.
    texts_and_env = "\n".join((texts, *env))
    needed = reports_needed(calls, env)
    # A pytest that a script starts may report, but need not.
    if needed is not None or _scripts_start_pytest(calls, texts, texts_and_env):
        watched = _with_pytest(watched, needed)
    if watched.watches_junit:
        begin_junit(folder)
    if starts_node_tests(texts):
        node_env = with_reporter(folder, watched.env)
        watched = replace(watched, env=node_env, watches_node=True)
    if _UNITTEST.search(texts) and not _MEASURED.search(texts_and_env):
        watched = _with_unittest(watched)
    return watched


def _scripts_start_pytest(
    calls: Sequence[Call], texts: str, texts_and_env: str
) -> bool:
    """Return whether a script, and not the line, starts a pytest that can report."""
    if _PYTEST.search(texts) is None or _UNWATCHED.search(texts_and_env):
        return False
    return all(call.runner is not PYTEST for call in calls)


def _with_pytest(watched: Watch, needed: int | None) -> Watch:
    plugin, line, env = reporting(watched.folder, watched.line, watched.env)
    return replace(
        watched,
        line=line,
        env=env,
        needed=needed or 0,
        plugin=plugin,
        is_direct=needed is not None,
    )


def _with_unittest(watched: Watch) -> Watch:
    folder = watched.folder / _UNITTEST_FOLDER
    folder.mkdir(mode=0o700)
    source = Path(__file__).with_name("unittest_watch.py").read_text(encoding="utf-8")
    # Python imports a module of this name when it starts.
    (folder / "sitecustomize.py").write_text(source, encoding="utf-8")
    line, env = with_python_path(folder, watched.line, watched.env)
    return replace(watched, line=line, env=env, watches_unittest=True)


def is_refused(watched: Watch, output: str) -> bool:
    """Return whether a program did not start because of what makes it report."""
    if watched.plugin and f"No module named '{watched.plugin}'" in output:
        return True
    return watched.watches_node and refuses_reporter(output)


def read_all(watched: Watch, folder: Path, workspace: Path) -> Reports:
    """Return what the runners wrote. `folder` is the one in which the line ran."""
    reports = watched.folder
    ended = len([*reports.glob(f"{_UNITTEST_FOLDER}/*.ended")])
    began = len([*reports.glob(f"{_UNITTEST_FOLDER}/*.began")])
    pytest = node = junit = None
    if watched.plugin:
        pytest = read_reports(reports, workspace, watched.needed)
    if watched.watches_node:
        node = read_node_reports(reports, workspace)
    if watched.watches_junit:
        junit = read_junit_reports(reports, folder, workspace)
    return Reports(
        pytest=pytest,
        needed=watched.needed,
        is_direct=watched.is_direct,
        node=node,
        junit=junit,
        cut_off=max(began - ended, 0),
    )
