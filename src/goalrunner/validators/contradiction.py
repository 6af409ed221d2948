"""What stands against an exit code of 0. Owns the rules by which a test runner's own words overrule it.

1. Reports that a directly called pytest wrote: failures, an early end, no test, or no report at all.
2. The summary of any known runner that ends the output, whoever called it.
3. The last summary of a runner that is called directly, where its exit code is lost, or where it is the last command.

A missing summary is never red. Behind `!` failures are what is wanted, so nothing contradicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from goalrunner.shell import programs
from goalrunner.validators.feedback import last_lines
from goalrunner.validators.report import Report
from goalrunner.validators.runners import RUNNERS, calls
from goalrunner.validators.summaries import Summary

_FAILURES = (
    "A check whose test runner reports failures is red, whatever its exit code. Failures that are meant to be there "
    "must be marked in the tests (xfail, skip), or wanted by the goal file: expect = { exit_code = 1 }."
)
_ABSENCE = (
    "A check that calls pytest is green when that very pytest has run tests to its end and reported to the runner. "
    "A file or program of the name pytest, an exit from within the tests, and a run without any test are red."
)


@dataclass(frozen=True)
class Contradiction:
    """Why an exit code of 0 does not count: one line for people, and the rule for the agent."""

    summary: str
    explanation: str


def contradiction(line: str, output: Path, report: Report | None, needed: int) -> Contradiction | None:
    """What overrules exit code 0 of the command `line`; None where nothing does. `needed` reports must be there."""
    if report is not None and (problem := report.problem(needed)):
        rule = _FAILURES if report.failed and not report.unreadable else _ABSENCE
        return Contradiction(f"exit 0, but {problem}", f"exit 0, but {problem}.\n{rule}")
    said = _said(line, last_lines(output), reported=report is not None)
    if said is None:
        return None
    problem = "no test ran" if said.none_ran else f"its summary reports {said.says}"
    return Contradiction(f"exit 0, but {problem}", f"exit 0, but {problem}.\n{_FAILURES}")


def _said(line: str, lines: list[str], *, reported: bool) -> Summary | None:
    """The summary that counts and reports failures, or no test."""
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
