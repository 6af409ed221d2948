"""What stands against exit code 0 of a command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from goalrunner.core.runner_calls import calls
from goalrunner.core.shell_programs import programs
from goalrunner.core.tools import PYTEST
from goalrunner.validators.runner_output import Output
from goalrunner.validators.runner_reports import Reports
from goalrunner.validators.runners import Summary
from goalrunner.validators.suite_facts import no_test_ran
from goalrunner.validators.suites import SuiteReading

_FAILURES = (
    "A validator whose test runner reports failures fails, whatever its exit code. "
    "Failures that are meant to be there must be marked in the tests (xfail, skip), or "
    "wanted by the goal file: expect = { exit_code = 1 }."
)
_ABSENCE = (
    "A validator that calls pytest passes if that pytest itself ran tests to its end "
    "and reported to the runner. Another program named pytest, an exit from within the "
    "tests, and a run without any test count as failed."
)
_NO_TEST = (
    "A validator whose test runner runs no test fails: there are none, its command "
    "selects none, or all are skipped. The goal file can allow this: "
    'tests = "optional" in [[validators]].'
)
_EARLY = "Its process must not end before its last test."


@dataclass(frozen=True)
class Contradiction:
    """Why exit code 0 does not count."""

    summary: str
    rule: str
    """The rule behind it, for the agent."""


def contradiction(
    line: str, reading: SuiteReading, reports: Reports, *, optional: bool = False
) -> Contradiction | None:
    """Return why exit code 0 of a line does not count; None if it does.

    `optional`: no test need run.
    """
    against = _in_report(reports)
    if against is not None:
        return against
    # The exit code may be that of another program: `pytest; echo done`.
    failing = [
        *_failures_at_the_end(line, reading.output),
        *_failures_of_calls(line, reading.output, has_report=reports.has_pytest),
    ]
    if failing:
        summary = f"exit 0, but its summary reports {failing[0].failures}"
        return Contradiction(summary, _FAILURES)
    # A program that ends within its tests prints no summary.
    ended_early = reading.record.ended_early or ("unittest" if reports.cut_off else "")
    if ended_early:
        return Contradiction(
            f"exit 0, but {ended_early} started and was ended before its result"
            " (an exit in the code under test?)",
            _EARLY,
        )
    if optional:
        return None
    why_empty = no_test_ran(calls(line), reading, reports)
    return Contradiction(f"exit 0, but {why_empty}", _NO_TEST) if why_empty else None


def _in_report(reports: Reports) -> Contradiction | None:
    """Return what the reports of pytest say against its exit code.

    A pytest that a script starts may fail on purpose: only its early end counts.
    """
    report = reports.pytest
    if report is None or not (reports.is_direct or report.cut_off):
        return None
    problem = report.problem(reports.needed)
    if not problem:
        return None
    has_failures = report.failed > 0 and not report.unreadable
    rule = _FAILURES if has_failures else _ABSENCE
    return Contradiction(f"exit 0, but {problem}", rule)


def _failures_at_the_end(line: str, output: Output) -> Iterator[Summary]:
    """Yield summaries with failures that end the output, of whatever program."""
    # `! pytest` passes because tests fail.
    if any(program.negated for program in programs(line)):
        return
    for runner in output.summaries:
        summary = output.last(runner)
        if summary and summary.failures and not output.text[summary.end :].strip():
            yield summary


def _failures_of_calls(
    line: str, output: Output, *, has_report: bool
) -> Iterator[Summary]:
    """Yield summaries with failures of the runners that the line itself calls.

    If there is a report of pytest, its summary does not count: the report is more
    exact.
    """
    for call in calls(line):
        program = call.program
        if not call.tests or program.negated or not (program.lost or program.last):
            continue
        if has_report and call.runner is PYTEST:
            continue
        summary = output.last(call.runner.name)
        if summary and summary.failures:
            yield summary
