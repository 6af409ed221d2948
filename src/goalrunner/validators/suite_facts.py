"""What the tests of one run mean for its result."""

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
    r"|.*[0-9.]+% (?:line|branch|function) coverage"
    r" does not meet threshold of [0-9.]+%.*)$",
    re.MULTILINE,
)
"""Lines about a threshold that is not reached.

Those of pytest-cov, coverage, jest, vitest, nyc, c8 and node.
"""
_RAN = frozenset({"passed", "failed", "xfailed"})


def no_test_ran(
    line_calls: Sequence[Call], reading: SuiteReading, reports: Reports
) -> str:
    """Return that a test runner ran no test; else an empty text.

    It is one that the line itself calls, or all that are seen.
    """
    is_empty = _runners_without_tests(reading, reports)
    has_empty_call = False
    for call in line_calls:
        if call.tests and _is_certain(call) and is_empty.get(call.runner.name):
            has_empty_call = True
    # A script may start several runners; one of them may have nothing to do.
    if not has_empty_call and not is_without_tests(reading, reports):
        return ""
    skipped = _skipped(reading)
    return f"no test ran ({skipped} skipped)" if skipped else "no test ran"


def is_without_tests(reading: SuiteReading, reports: Reports) -> bool:
    """Return whether a test runner was seen and ran nothing."""
    is_empty = _runners_without_tests(reading, reports)
    return bool(is_empty) and all(is_empty.values())


def _is_certain(call: Call) -> bool:
    return not (call.program.negated or call.program.fallback or call.program.optional)


def _runners_without_tests(reading: SuiteReading, reports: Reports) -> dict[str, bool]:
    """Return for each runner that was seen whether it ran no test."""
    is_empty: dict[str, bool] = {}
    for runner, summaries in reading.output.summaries.items():
        if summaries:
            is_empty[runner] = all(summary.none_ran for summary in summaries)
    if reports.pytest is not None and reports.has_pytest:
        is_empty[PYTEST.name] = not reports.pytest.run
    # Go reports a package as ok if all of its tests are skipped.
    if reading.tests is not None and is_empty.get(GO_TEST.name) is False:
        is_empty[GO_TEST.name] = _skips_all_go_tests(reading.tests)
    return is_empty


def _skips_all_go_tests(tests: CollectedTests) -> bool:
    """Return whether all tests of Go are known, and none of them ran."""
    endings = [tests.endings[name] for name in tests.endings if name.startswith(GO)]
    return bool(endings) and tests.whole and _RAN.isdisjoint(endings)


def _skipped(reading: SuiteReading) -> int:
    if reading.tests is not None:
        return [*reading.tests.endings.values()].count("skipped")
    return sum(count.skipped for count in reading.record.counts)


def is_below_threshold(reading: SuiteReading) -> bool:
    """Return whether a coverage threshold is not reached, and no test failed."""
    if _THRESHOLD.search(reading.output.text) is None:
        return False
    if reading.tests is not None and "failed" in reading.tests.endings.values():
        return False
    return not any(count.failed for count in reading.record.counts)


def proves(
    result: ValidatorResult, tests: CollectedTests | None, reports: Reports
) -> bool:
    """Return whether the exit code of a line is that of the runners that named tests.

    A red line proves it by a test that failed: the parts of a line behind `&&` did not
    run then.
    """
    line_calls = calls(result.command)
    # `pytest | tee log` gives the exit code of tee.
    is_lost = any(call.program.lost or not _is_certain(call) for call in line_calls)
    if tests is None or not line_calls or is_lost or result.exit_code is None:
        return False
    if result.exit_code == 0:
        return all(part.runner for part in parts_of(result.command))
    if reports.pytest is not None:
        statuses = reports.pytest.exit_statuses
        # Something else than pytest gave the exit code of the line.
        if any(statuses) and result.exit_code not in statuses:
            return False
    return "failed" in tests.endings.values()
