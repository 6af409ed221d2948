"""Having pytest report to the runner, in a file outside of the workspace.

There are two ways. `plugin`: PYTEST_PLUGINS and PYTHONPATH name a plugin of the runner, beside the user's own reports.
`option`: PYTEST_ADDOPTS gets --junitxml, if PYTHONPATH does not reach pytest or coverage would measure the plugin.
Code in the test process can forge both.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalrunner.validators.junit_reports import Report, read_reports
from goalrunner.validators.runners import Call

Way = Literal["plugin", "option"]

_NO_OPTION = re.compile(r"--junit-?xml|no:junitxml")
_SET = re.compile(r"\b(PYTHONPATH|PYTEST_PLUGINS)\b")
_KEPT = re.compile(r"\$\{?(PYTHONPATH|PYTEST_PLUGINS)\b")


def pytest_calls(calls: Sequence[Call]) -> tuple[Call, ...]:
    """Return the calls of pytest that run tests in an environment which the runner can reach."""
    return tuple(call for call in calls if call.runner.name == "pytest" and call.tests and not call.program.clean)


def needed_reports(way: Way, calls: Sequence[Call]) -> int:
    """Return how many reports there must be if the line ends with exit code 0; by an option, all write the same one."""
    certain = (call.program.command for call in pytest_calls(calls))
    number = sum(not (command.fallback or command.optional) for command in certain)
    return number if way == "plugin" else min(number, 1)


def ways(calls: Sequence[Call], line: str, env: Mapping[str, str]) -> tuple[Way, ...]:
    """Return the ways to a report of this line, in the order in which they are to be tried."""
    watched = pytest_calls(calls)
    if not watched or any(call.program.command.negated for call in calls if call.runner.name == "pytest"):
        return ()
    taken = "PYTEST_ADDOPTS" in line or _NO_OPTION.search(f"{env.get('PYTEST_ADDOPTS', '')} {line}")
    option: tuple[Way, ...] = () if taken else ("option",)
    measured = any("coverage" in call.program.through for call in watched) or any(
        env.get(name) for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
    )
    unreachable = any(call.program.isolated for call in watched) or {*_SET.findall(line)} - {*_KEPT.findall(line)}
    return option if measured or unreachable else ("plugin", *option)


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
        if way == "plugin":
            source = Path(__file__).with_name("pytest_plugin.py").read_text(encoding="utf-8")
            # Under a name that is no file: coverage must not count its lines.
            text = f"exec(compile({source!r}, '<goal report>', 'exec'))\n"
            (folder / f"{plugin}.py").write_text(text, encoding="utf-8")
        return cls(way, folder, plugin)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment in which pytest reports."""
        if self.way == "plugin":
            added = {"PYTHONPATH": (os.pathsep, str(self.folder)), "PYTEST_PLUGINS": (",", self.plugin)}
        else:
            option = f"--junitxml={shlex.quote(str(self.folder / 'report.xml'))} -o junit_family=xunit1"
            added = {"PYTEST_ADDOPTS": (" ", option)}
        return {**env, **{name: mark.join(filter(None, (env.get(name), text))) for name, (mark, text) in added.items()}}

    def not_loaded(self, output: str) -> bool:
        """Return whether pytest could not load the plugin. `output` is the end of the check's output."""
        return self.way == "plugin" and f"No module named '{self.plugin}'" in output

    def read(self, cwd: Path, workspace: Path) -> Report:
        """Return what was reported."""
        return read_reports(self.folder.glob("*.xml"), len([*self.folder.glob("*.began")]), cwd, workspace)
