"""The reports that pytest writes for a check, through a plugin."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field, ValidationError

from goalrunner.core.field_types import Frozen
from goalrunner.core.verdict import CollectedTests, Ending
from goalrunner.validators.collected_tests import TestNames, path_in_workspace

LARGEST = 64_000_000
"""Bytes of a report of pytest; some 300,000 tests."""
_TESTS_FAILED = 1
# 0: passed, 1: tests failed, 5: no tests.
_ENDED = (0, _TESTS_FAILED, 5)
"""Exit codes of a pytest that came to its end."""


def reporting(
    folder: Path, command: str, env: Mapping[str, str]
) -> tuple[str, str, dict[str, str]]:
    """Write a plugin of pytest into a folder.

    Return its name, and the line and environment in which pytest reports. The plugin is
    also added to variables that the line sets itself: `PYTHONPATH=src pytest`. Raise
    OSError.
    """
    plugin = f"goal_report_{secrets.token_hex(8)}"
    source = Path(__file__).with_name("pytest_plugin.py").read_text(encoding="utf-8")
    # The name is not that of a file, so that pytest-cov does not count its lines.
    program = f"exec(compile({source!r}, '<goal report>', 'exec'))\n"
    (folder / f"{plugin}.py").write_text(program, encoding="utf-8")
    command, env = with_python_path(folder, command, env)
    command = re.sub(r"\bPYTEST_PLUGINS=", rf"\g<0>{plugin},", command)
    plugins = [*filter(None, [env.get("PYTEST_PLUGINS")]), plugin]
    return plugin, command, {**env, "PYTEST_PLUGINS": ",".join(plugins)}


def with_python_path(
    folder: Path, command: str, env: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """Return a line and its environment with a folder on PYTHONPATH.

    The line may set the variable itself.
    """
    # Not in quotes: the line may be in quotes itself.
    escaped_folder = re.sub(r"[^\w@%+:,./-]", r"\\\g<0>", str(folder))
    command = re.sub(
        r"\bPYTHONPATH=", lambda name: f"{name[0]}{escaped_folder}{os.pathsep}", command
    )
    python_path = [*filter(None, [env.get("PYTHONPATH")]), str(folder)]
    return command, {**env, "PYTHONPATH": os.pathsep.join(python_path)}


class _File(Frozen):
    """What one pytest process wrote."""

    root: str
    """Its root folder."""
    stopped: str
    """Why it ended early; empty if it did not."""
    endings: dict[str, Ending]
    skipped_at: Mapping[str, str] = Field(default_factory=dict)
    uncollected: tuple[str, ...] = ()
    cut_short: bool = False
    exit_status: int = 0


@dataclass(frozen=True)
class PytestReport:
    """The tests of one check."""

    files: int = 0
    tests: CollectedTests = field(default_factory=CollectedTests)
    stopped: str = ""
    """Why pytest ended before its last test."""
    unreadable: str = ""
    """Why a file cannot be read."""
    cut_off: int = 0
    """Processes that began and did not report."""
    exit_statuses: tuple[int, ...] = ()
    """The exit codes of the processes, by which their tests are explained."""

    @property
    def run(self) -> int:
        """The number of tests that passed, failed, or failed as expected."""
        endings = self.tests.endings.values()
        return sum(ending in ("passed", "failed", "xfailed") for ending in endings)

    @property
    def failed(self) -> int:
        return [*self.tests.endings.values()].count("failed")

    def problem(self, needed: int) -> str:
        """Return why exit code 0 does not count; empty if it does.

        `needed` is the number of reports there must be.
        """
        if self.unreadable:
            return f"pytest's report is damaged: {self.unreadable}"
        # A report counts more than the exit code, which a plugin may change.
        if self.failed:
            return f"its report has {self.failed} failed"
        if self.stopped:
            return f"pytest was stopped before its end: {self.stopped}"
        if self.cut_off and not needed:
            return (
                "a pytest began and did not report its end"
                " (os._exit in the code under test?)"
            )
        if self.files < needed:
            return (
                "no pytest reported to the runner: it was not started,"
                " was ended early (os._exit in the code under test?),"
                " or something else ran in its place"
            )
        return ""


def read_reports(folder: Path, workspace: Path, needed: int = 0) -> PytestReport:
    """Read every report in a folder.

    A test that is in several counts once, with its worst ending. `needed` is the number
    of reports without which tests are missing.
    """
    names = TestNames()
    statuses: list[int] = []
    stopped = ""
    for path in sorted(folder.glob("*.json")):
        # The check may write into the folder, too.
        if not path.is_file() or path.stat().st_size > LARGEST:
            problem = f"it is not a file of at most {LARGEST // 1_000_000} MB"
            return PytestReport(len(statuses), unreadable=problem)
        try:
            content = _File.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            first_line = str(error).partition("\n")[0]
            return PytestReport(len(statuses), unreadable=first_line)
        statuses.append(content.exit_status)
        stopped = stopped or content.stopped
        _add(names, content, workspace)
    began = len([*folder.glob("*.began")])
    cut_off = max(began - len(statuses), 0)
    names.whole = names.whole and len(statuses) >= needed and not cut_off
    return PytestReport(
        len(statuses),
        names.collected,
        stopped,
        cut_off=cut_off,
        exit_statuses=tuple(statuses),
    )


def _add(names: TestNames, content: _File, workspace: Path) -> None:
    """Add the tests of one process."""

    def identifier(node: str) -> str:
        # The file of a node is relative to pytest's root folder.
        file, mark, test = node.partition("::")
        return f"{path_in_workspace(file, content.root, workspace)}{mark}{test}"

    for node, ending in content.endings.items():
        names.add(identifier(node), ending)
    for node, path in content.skipped_at.items():
        file = path_in_workspace(path, content.root, workspace)
        names.skipped_at[identifier(node)] = file
    has_ended = content.exit_status in _ENDED and not content.stopped
    if not has_ended or content.uncollected or content.cut_short:
        names.whole = False
