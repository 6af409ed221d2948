"""Having pytest report to the runner, in a file outside the workspace.

Three ways, the first that fits the command line:

| way | how | when |
|---|---|---|
| plugin | PYTEST_PLUGINS and PYTHONPATH name a plugin of ours, beside the user's own reports | mostly |
| option | PYTEST_ADDOPTS gets --junitxml | PYTHONPATH does not reach pytest, or coverage would measure the plugin |
| own | the file that the command's own --junitxml names, when it is new | as before, where the user has one already |

What runs inside the test process can forge all of them: a report is no proof against code that sets out to lie in it.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, assert_never

from goalrunner.system.launcher import in_thread
from goalrunner.validators.junit_reports import Report, read_reports
from goalrunner.validators.runners import Call

Way = Literal["plugin", "option", "own"]

_OWN = re.compile(r"--junit-?xml(?:=|\s+)(\S+)")
_SET = re.compile(r"\b(PYTHONPATH|PYTEST_PLUGINS)\b")
_KEPT = re.compile(r"\$\{?(PYTHONPATH|PYTEST_PLUGINS)\b")
_CLOCK_STEP = 2.0
"""Seconds by which a file's time may lie before the clock's: some file systems count in steps."""


def pytest_calls(calls: Sequence[Call]) -> tuple[Call, ...]:
    """The calls of pytest that run tests in an environment which the runner can reach."""
    return tuple(call for call in calls if call.runner.name == "pytest" and call.tests and not call.program.clean)


def needed_reports(way: Way, calls: Sequence[Call]) -> int:
    """How many reports there must be when the command line has come to exit code 0; but for the plugin, one for all."""
    certain = (call.program.command for call in pytest_calls(calls))
    number = sum(not (command.fallback or command.optional) for command in certain)
    return number if way == "plugin" else min(number, 1)


def ways(calls: Sequence[Call], line: str, env: Mapping[str, str]) -> tuple[Way, ...]:
    """The ways to a report of this command line, in the order in which they are to be tried; empty: none is asked for."""
    watched = pytest_calls(calls)
    if not watched or any(call.program.command.negated for call in calls if call.runner.name == "pytest"):
        return ()
    options = f"{env.get('PYTEST_ADDOPTS', '')} {line}"
    second: tuple[Way, ...] = ("option",)
    if own := _OWN.findall(options):
        second = ("own",) if len(watched) == 1 and not set("$`*") & set(own[-1]) else ()
    elif "no:junitxml" in options or "PYTEST_ADDOPTS" in line:
        second = ()
    measured = any("coverage" in call.program.through for call in watched) or any(
        env.get(name) for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
    )
    unreachable = any(call.program.isolated for call in watched) or bool(
        set(_SET.findall(line)) - set(_KEPT.findall(line))
    )
    return second if measured or unreachable else ("plugin", *second)


@dataclass(frozen=True)
class Watch:
    """One run of a command line under one way. `folder` is fresh and removed by the caller."""

    way: Way
    folder: Path
    plugin: str
    began: float
    own: tuple[Path, ...]

    @classmethod
    def begin(cls, way: Way, folder: Path, calls: Sequence[Call], env: Mapping[str, str], cwd: Path) -> Watch:
        """Make the folder, and in it what pytest loads. Raises OSError."""
        folder.mkdir(mode=0o700)
        own = _own_files(calls, env, cwd) if way == "own" else ()
        watch = cls(way, folder, f"goal_report_{secrets.token_hex(8)}", time.time(), own)
        if way == "plugin":
            source = Path(__file__).with_name("pytest_plugin.py").read_text(encoding="utf-8")
            # Under a name that is no file: coverage must not count its lines.
            text = f"exec(compile({source!r}, '<goal report>', 'exec'))\n"
            (folder / f"{watch.plugin}.py").write_text(text, encoding="utf-8")
        return watch

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The environment in which pytest reports."""
        match self.way:
            case "plugin":
                added = {"PYTHONPATH": (os.pathsep, str(self.folder)), "PYTEST_PLUGINS": (",", self.plugin)}
            case "option":
                option = f"--junitxml={shlex.quote(str(self._file))} -o junit_family=xunit1"
                added = {"PYTEST_ADDOPTS": (" ", option)}
            case "own":
                added = {}
            case _:
                assert_never(self.way)
        joined = {name: f"{env[name]}{mark}{text}" if env.get(name) else text for name, (mark, text) in added.items()}
        return {**env, **joined}

    def unheard(self, output: str) -> bool:
        """Whether pytest could not load the plugin, so that another way must be tried. `output` is the check's tail."""
        return self.way == "plugin" and f"No module named '{self.plugin}'" in output

    async def read(self, cwd: Path, workspace: Path) -> Report:
        """What was reported."""
        report: Report = await in_thread(self._read, cwd, workspace)
        return report

    def _read(self, cwd: Path, workspace: Path) -> Report:
        match self.way:
            case "plugin" | "option":
                paths = sorted(self.folder.glob("*.xml"))
            case "own":
                paths = [path.resolve() for path in self.own if _is_new(path, self.began)][:1]
            case _:
                assert_never(self.way)
        return read_reports(paths, len(list(self.folder.glob("*.began"))), cwd, workspace)

    @property
    def _file(self) -> Path:
        return self.folder / "report.xml"


def _own_files(calls: Sequence[Call], env: Mapping[str, str], cwd: Path) -> tuple[Path, ...]:
    """Where the file may lie that the command's own option names: behind its `cd`s, or where it starts."""
    for call in pytest_calls(calls):
        options = f"{env.get('PYTEST_ADDOPTS', '')} {' '.join(call.arguments)}"
        if found := _OWN.findall(options):
            return tuple(cwd / folder / found[-1] for folder in (call.program.folder, ""))
    return ()


def _is_new(path: Path, began: float) -> bool:
    try:
        return path.stat().st_mtime >= began - _CLOCK_STEP
    except OSError:
        return False
