"""The table of known test runners, their summaries in one line, and contradictions of an exit code."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.shell_programs import Program, programs
from goalrunner.validators import summaries
from goalrunner.validators.junit_reports import Report
from goalrunner.validators.output import last_lines
from goalrunner.validators.summaries import Summary

_Words = tuple[str, ...]


@dataclass(frozen=True)
class Runner:
    """A test runner. `read` returns its last summary in the lines of an output."""

    name: str
    programs: str
    read: Callable[[Sequence[str]], Summary | None]
    idle: str = ""
    """Options with which it runs no test at all."""
    commands: str = ""
    """Subcommands that run tests; empty: it needs none."""
    option: str = ""
    """An option without which it is no test runner."""
    module: bool = False
    """Whether it is only started with `python -m`."""

    def arguments(self, program: Program) -> _Words | None:
        """Return the arguments of a call; None if the program is not this runner."""
        words = tuple(word for word in program.words[:2] if not word.startswith("+")) + program.words[2:]
        if program.name not in self.programs.split() or (self.module and not program.module):
            return None
        if self.commands:
            return words[2:] if words[1:2] and words[1] in self.commands.split() else None
        return words[1:] if not self.option or self.option in words else None


@dataclass(frozen=True)
class Call:
    """A runner that a command line calls directly."""

    runner: Runner
    arguments: _Words
    program: Program

    @property
    def tests(self) -> bool:
        """Whether it is asked to run tests, rather than to list them or to say its version."""
        return not any(word.partition("=")[0] in self.runner.idle.split() for word in self.arguments)


def calls(line: str) -> tuple[Call, ...]:
    """Return the direct calls of known runners in a line: `pytest -q`, `cd x && A=1 uv run python -m pytest`.

    What a Makefile, a script or another tool calls in its turn is no direct call.
    """
    return tuple(
        Call(runner, arguments, program)
        for program in programs(line)
        for runner in RUNNERS
        if (arguments := runner.arguments(program)) is not None
    )


_PYTEST_IDLE = """
    --collect-only --collectonly --co --version -V -VV --help -h --fixtures --funcargs --fixtures-per-test --markers
    --setup-plan --setup-only --cache-show
"""
RUNNERS: tuple[Runner, ...] = (
    Runner("pytest", "pytest py.test", summaries.pytest, _PYTEST_IDLE),
    Runner("unittest", "unittest", summaries.unittest, "-h --help", module=True),
    Runner("jest", "jest jest.js", summaries.jest, "--listTests --version --showConfig"),
    Runner("vitest", "vitest vitest.mjs", summaries.vitest, "list --version"),
    Runner("mocha", "mocha _mocha mocha.js", summaries.mocha, "--dry-run --version --help"),
    Runner("node --test", "node", summaries.node, option="--test"),
    Runner("go test", "go", summaries.go, "-list -c -n", commands="test"),
    Runner("cargo test", "cargo", summaries.cargo, "--no-run --list", commands="test t"),
)
"""The test runners whose summaries are understood."""


PYTEST_USAGE, PYTEST_NO_TESTS = 4, 5
"""pytest's exit codes for a usage error, and if no test was selected."""

_UNKNOWN = re.compile(r"^\S+: error: unrecognized arguments: (.+)$", re.MULTILINE)
_PLUGIN = re.compile(r'^(?:ERROR: |ImportError: )?Error importing plugin "([\w.]+)": No module named', re.MULTILINE)

_PACKAGES = dict(
    pair.split(":")
    for pair in """
    --alluredir:allure-pytest --asyncio-mode:pytest-asyncio --benchmark:pytest-benchmark --browser:pytest-playwright
    --count:pytest-repeat --cov:pytest-cov --dist:pytest-xdist --ds:pytest-django --forked:pytest-forked
    --headed:pytest-playwright --html:pytest-html --hypothesis:hypothesis --json-report:pytest-json-report
    --mypy:pytest-mypy --nbmake:nbmake --nbval:nbval --no-cov:pytest-cov --numprocesses:pytest-xdist
    --random-order:pytest-random-order --randomly-seed:pytest-randomly --reruns:pytest-rerunfailures
    --snapshot-update:syrupy --testmon:pytest-testmon --timeout:pytest-timeout -n:pytest-xdist
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Options and beginnings of options of pytest, and the package that brings them."""
_MODULES = {package.replace("-", "_"): package for package in _PACKAGES.values()} | {"xdist": "pytest-xdist"}
_OPTIONS = tuple(
    """
    --basetemp --cache-clear --capture --collect-only --color --confcutdir --deselect --disable-warnings --doctest-glob
    --doctest-modules --durations --exitfirst --failed-first --ignore --ignore-glob --import-mode --junitxml
    --last-failed --log-cli-level --log-level --maxfail --new-first --no-header --no-summary --noconftest
    --override-ini --pyargs --quiet --rootdir --runxfail --showlocals --stepwise --strict-config --strict-markers
    --verbose
    """.split()  # noqa: SIM905 - a table, to be read
)


def usage_obstacle(command: str, output: str) -> str:
    """Return why pytest refuses an option of the line itself, and what helps; empty if the work may bring the option.

    An option that no known package brings may be one that a conftest.py of the workspace is to add.
    """
    words = {word for call in calls(command) if call.runner.name == "pytest" for word in call.arguments}
    found = _UNKNOWN.search(output)
    for refused in found[1].split() if found else ():
        name = refused.partition("=")[0]
        if {refused, name} & words:
            known = [option for option in _PACKAGES if option == name or (name[:2] == "--" and name.startswith(option))]
            near = difflib.get_close_matches(name, _OPTIONS, n=1, cutoff=0.85) if len(name) > 5 else []
            if known:
                package = _PACKAGES[max(known, key=len)]
                return f"unrecognized arguments: {refused}; install {package}, or remove {name} from the goal file"
            if near:
                return f"unrecognized arguments: {refused}; did you mean {near[0]}?"
    if plugin := _PLUGIN.search(output):
        package = _MODULES.get(plugin[1].partition(".")[0], "")
        if package and {plugin[1], f"-p{plugin[1]}"} & words:
            return f"No module named {plugin[1]}; install {package}, or remove -p {plugin[1]} from the goal file"
    return ""


_LAST_LINES = 60
_LONGEST = 80
_LONGEST_LINE = 300
"""Characters of a summary line; no test runner writes a longer one, and patterns shall not be tried on what is no summary."""
_ERROR = re.compile(r"(?:ERROR: |\S+: error: )(?!usage: ).+")
"""The line in which pytest says why it does not start."""


def summary_of(output: str, exit_code: int, passed: bool) -> str:
    """Return `43 passed`, or `exit 1` if no runner is known. A red result always has its exit code or its failures."""
    ending = f"exit {exit_code}"
    lines = output.splitlines()[-_LAST_LINES:]
    if exit_code == PYTEST_USAGE and (error := next(filter(_ERROR.fullmatch, reversed(lines)), "")):
        return f"{ending}: {error[:_LONGEST_LINE]}"
    found = [summary for runner in RUNNERS if (summary := runner.read(lines))]
    if not found:
        return ending
    last = max(found, key=lambda summary: summary.end)
    text = last.text[:_LONGEST]
    if exit_code == PYTEST_NO_TESTS and "deselected" in text:
        text = f"no test selected, {text}"
    return text if passed or last.says or text.startswith("no tests") else f"{ending}, {text}"


_FAILURES = (
    "A check whose test runner reports failures is red, whatever its exit code. Failures that are meant to be there "
    "must be marked in the tests (xfail, skip), or wanted by the goal file: expect = { exit_code = 1 }."
)
_ABSENCE = (
    "A check that calls pytest is green when that very pytest has run tests to its end and reported to the runner. "
    "A file or program of the name pytest, an exit from within the tests, and a run without any test are red."
)
_NO_TEST = "A check that runs no test is red: its line selects tests that do not exist, or all of them are skipped."


def contradiction(line: str, output: Path, report: Report | None, needed: int) -> tuple[str, str] | None:
    """Return why exit code 0 of a line does not count, and the rule for the agent; None if it does.

    `needed` is the number of reports that there must be.
    """
    if report is not None and (problem := report.problem(needed)):
        return f"exit 0, but {problem}", _FAILURES if report.failed and not report.unreadable else _ABSENCE
    summary = _against(line, last_lines(output), reported=report is not None)
    if summary is None:
        return None
    if summary.says:
        return f"exit 0, but its summary reports {summary.says}", _FAILURES
    return "exit 0, but no test ran", _NO_TEST


def _against(line: str, lines: list[str], *, reported: bool) -> Summary | None:
    """Return the summary that counts and reports failures, or no test."""
    if not any(program.command.negated for program in programs(line)):
        for runner in RUNNERS:
            summary = runner.read(lines)
            if summary and summary.says and not any(text.strip() for text in lines[summary.end :]):
                return summary
    for call in calls(line):
        command = call.program.command
        if command.negated or (reported and call.runner.name == "pytest") or not (command.lost or command.last):
            continue
        summary = call.runner.read(lines) if call.tests else None
        if summary and (summary.says or summary.none_ran):
            return summary
    return None
