"""What the tests of one run mean for its result: none ran, a threshold was missed, or they explain the exit code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from goalrunner.core.runner_calls import Call, calls, parts_of
from goalrunner.core.tools import GO_TEST, PYTEST
from goalrunner.core.verdict import CollectedTests, ValidatorResult
from goalrunner.validators.named_tests import GO
from goalrunner.validators.runner_reports import Reports
from goalrunner.validators.suites import SuiteReading

_THRESHOLD = re.compile(
    r"^(?:(?:FAIL|ERROR:?) Required test coverage of [0-9.]+% not reached.*"
    r"|.*Coverage failure: total of [0-9.]+ is less than fail-under=[0-9.]+.*"
    r"|Jest: .*coverage threshold for .* not met.*"
    r"|.*Coverage for \w+ \([0-9.]+%\) does not meet .*threshold.*"
    r"|.*[0-9.]+% (?:line|branch|function) coverage does not meet threshold of [0-9.]+%.*)$",
    re.MULTILINE,
)
"""Lines of pytest-cov, coverage, jest, vitest, nyc, c8 and node about a threshold that is not reached."""
_RAN = frozenset({"passed", "failed", "xfailed"})


def no_test_ran(
    line_calls: Sequence[Call], reading: SuiteReading, reports: Reports
) -> str:
    """Return that a test runner ran no test: one that the line itself calls, or all that are seen. Else empty."""
    empty = _runners_without_tests(reading, reports)
    called = {
        call.runner.name for call in line_calls if call.tests and _is_certain(call)
    }
    is_empty = any(empty.get(name) for name in called) or (
        bool(empty) and all(empty.values())
    )
    if not is_empty:
        return ""
    skipped = _skipped(reading)
    return f"no test ran ({skipped} skipped)" if skipped else "no test ran"


def is_without_tests(reading: SuiteReading, reports: Reports) -> bool:
    """Return whether a test runner was seen and ran nothing."""
    empty = _runners_without_tests(reading, reports)
    return bool(empty) and all(empty.values())


def _is_certain(call: Call) -> bool:
    return not (call.program.negated or call.program.fallback or call.program.optional)


def _runners_without_tests(reading: SuiteReading, reports: Reports) -> dict[str, bool]:
    """Return for each runner of which something is known whether it ran no test."""
    found = {
        runner: all(summary.none_ran for summary in summaries)
        for runner, summaries in reading.output.summaries.items()
        if summaries
    }
    if reports.pytest is not None and reports.has_pytest:
        found[PYTEST.name] = not reports.pytest.run
    if reading.tests is not None and found.get(GO_TEST.name) is False:
        # A package whose tests are all skipped is ok.
        endings = [
            ending
            for name, ending in reading.tests.endings.items()
            if name.startswith(GO)
        ]
        found[GO_TEST.name] = (
            bool(endings) and reading.tests.whole and _RAN.isdisjoint(endings)
        )
    return found


def _skipped(reading: SuiteReading) -> int:
    if reading.tests is not None:
        return [*reading.tests.endings.values()].count("skipped")
    return sum(count.skipped for count in reading.record.counts)


def is_below_threshold(reading: SuiteReading) -> bool:
    """Return whether a coverage threshold is not reached, and no test failed."""
    if _THRESHOLD.search(reading.output.text) is None:
        return False
    has_failed = (
        reading.tests is not None and "failed" in reading.tests.endings.values()
    )
    return not has_failed and not any(count.failed for count in reading.record.counts)


def proves(
    result: ValidatorResult, tests: CollectedTests | None, reports: Reports
) -> bool:
    """Return whether the exit code of a line is that of the runners whose tests are known.

    A red line proves it by a test that failed: the parts of a line behind `&&` did not run then.
    """
    line_calls = calls(result.command)
    is_lost = any(call.program.lost or not _is_certain(call) for call in line_calls)
    if tests is None or not line_calls or is_lost or result.exit_code is None:
        return False
    if result.exit_code == 0:
        return all(part.runner for part in parts_of(result.command))
    statuses = reports.pytest.exit_statuses if reports.pytest is not None else ()
    if any(statuses) and result.exit_code not in statuses:
        return False
    return "failed" in tests.endings.values()
