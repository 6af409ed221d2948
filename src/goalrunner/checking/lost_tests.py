"""Tests that ran at the start of a run and are missing or skipped in a later run of the same validator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from goalrunner.core.events import ChangedTest
from goalrunner.core.labels import Label
from goalrunner.core.verdict import CollectedTests, RunnerCount, ValidatorResult

RAN: frozenset[str] = frozenset({"passed", "failed"})
SKIPPED: frozenset[str] = frozenset({"skipped", "xfailed"})
ABSENT = "absent"
"""The ending of a test that does not exist."""

Results = Mapping[str, ValidatorResult]
"""The results of one run by the name of the validator."""


def file_of(test: str) -> str:
    """Return the file of a test's id."""
    return test.partition("::")[0]


def lost_tests(
    start: ValidatorResult | None,
    now: ValidatorResult,
    by_agent: Callable[[str], bool],
    *,
    freed: bool = False,
) -> tuple[ChangedTest, ...]:
    """Return the tests of the start that are missing or newly skipped in a run with the original checks.

    `by_agent` tells whether a file has the agent's content: tests in such files are left out, and a skip that is raised in
    one counts for tests that were unknown at the start as well. `freed`: the goal lets the agent change some checks.
    """
    if start is not None and start.suite.varying:
        return ()
    before, after = start.tests if start is not None else None, now.tests
    rows: dict[str, ChangedTest] = {}
    if before is not None and after is not None:
        rows = {item.test: item for item in _lost_ids(before, after)}
    if after is not None:
        known = before.endings if before is not None else {}
        for test, place in after.skipped_at.items():
            if by_agent(place) and known.get(test) not in SKIPPED:
                rows.setdefault(
                    test,
                    ChangedTest(test=test, change="skipped", start=known.get(test, "")),
                )
    lost = [item for item in rows.values() if not by_agent(file_of(item.test))]
    if start is None or freed:
        return tuple(lost)
    ran = (
        [test for test, ending in before.endings.items() if ending in RAN]
        if before is not None
        else []
    )
    if ran and after is None and not (now.suite.counts or start.suite.quiet):
        lost.append(
            ChangedTest(
                test=f"no test is reported, and {len(ran)} ran at the start",
                change="lost",
            )
        )
    return (*lost, *_fewer_by_count(start, now))


def ended_before_tests(
    start: ValidatorResult | None, now: ValidatorResult, by_agent: Callable[[str], bool]
) -> bool:
    """Return whether a file of tests of the start passed without one: the code under test ended its process.

    Node reports such a file as a test of its own.
    """
    if start is None or start.tests is None or now.tests is None:
        return False
    files = {file_of(test) for test in start.tests.endings if "::" in test}
    ran = {file_of(test) for test in now.tests.endings if "::" in test}
    alone = {
        test
        for test, ending in now.tests.endings.items()
        if "::" not in test and ending == "passed"
    }
    return any(not by_agent(file) for file in alone & files - ran)


def removed_tests(
    earlier: Sequence[ValidatorResult | None], delivered: ValidatorResult
) -> int:
    """Return how many tests of earlier runs, that of the start first, are missing or skipped in what is delivered."""
    names: set[str] = set()
    fewer = 0
    for one in earlier:
        names |= gone_tests(one, delivered, earlier[0])
        if one is not None and not one.suite.varying:
            counts = [
                certain - ran for _, certain, ran in _runner_counts(one, delivered)
            ]
            fewer = max(fewer, *counts) if counts else fewer
    return max(len(names), fewer)


def gone_tests(
    before: ValidatorResult | None,
    delivered: ValidatorResult,
    start: ValidatorResult | None = None,
) -> set[str]:
    """Return the tests of an earlier run that are missing or skipped in what is delivered.

    A test of the same name in another file is the same test, if that file did not have it in the run `start`, or else in
    the earlier run: a side with original checks may have both.
    """
    if (
        before is None
        or before.tests is None
        or delivered.tests is None
        or before.suite.varying
    ):
        return set()
    gone: set[str] = set()
    known = (
        start.tests.endings
        if start is not None and start.tests is not None
        else before.tests.endings
    )
    new = (test for test in delivered.tests.endings if test not in known)
    moved = Counter(map(_name_of, new))
    for item in _lost_ids(before.tests, delivered.tests):
        name = _name_of(item.test)
        if item.change == "lost" and moved[name]:
            moved[name] -= 1
        elif name:  # not a file that could not be collected
            gone.add(item.test)
    return gone


def moved_tests(
    before: ValidatorResult | None, delivered: ValidatorResult
) -> dict[str, str]:
    """Return the tests of an earlier run that are in another file of what is delivered, each with its new id."""
    if before is None or before.tests is None or delivered.tests is None:
        return {}
    new: dict[str, list[str]] = {}
    for test in delivered.tests.endings:
        if test not in before.tests.endings and _name_of(test):
            new.setdefault(_name_of(test), []).append(test)
    gone = gone_tests(before, delivered)
    missing = (
        test
        for test in before.tests.endings
        if test not in delivered.tests.endings and test not in gone
    )
    return {
        test: new[name].pop(0) for test in missing if new.get(name := _name_of(test))
    }


def knows_tests(result: ValidatorResult | None) -> bool:
    """Return whether all tests of a result are known by their ids."""
    return result is not None and result.tests is not None and result.tests.whole


def has_tests(result: ValidatorResult) -> bool:
    """Return whether a test runner reported in a result."""
    return result.tests is not None or bool(result.suite.counts)


def suite_labels(
    start: ValidatorResult | None, now: ValidatorResult
) -> tuple[str, ...]:
    """Return the labels of a green result that say what is not known of its tests."""
    labels = (
        [Label.TESTS_FILTERED.about(", ".join(now.suite.filters))]
        if now.suite.filters
        else []
    )
    silent = (
        [runner for runner in _runners(start) if _is_silent(runner, start, now)]
        if start is not None
        else []
    )
    return (*labels, *(Label.NO_TEST_SUMMARY.about(runner) for runner in silent))


def _lost_ids(before: CollectedTests, after: CollectedTests) -> Iterator[ChangedTest]:
    """Yield the tests that are missing, and those that ran and do not run now."""
    idle = [
        test
        for test, ending in after.endings.items()
        if not ending and before.endings.get(test) in RAN
    ]
    # A run that ended before its last test is green only if the process ended itself.
    is_whole = after.whole or bool(idle)
    files = {file_of(test) for test, ending in after.endings.items() if ending in RAN}
    variants, ran = _by_function(after)
    earlier, ran_earlier = _by_function(before)
    for test, ending in before.endings.items():
        function, now = _function_of(test), after.endings.get(test)
        # Variants may have other names as long as there are no fewer of them.
        is_replaced = (
            "[" in test
            and variants[function] >= earlier[function]
            and ran[function] >= ran_earlier[function]
        )
        if "::" not in test:  # a file that could not be collected must run a test now
            is_lost = is_whole and test not in files
        elif now is None:
            is_lost = is_whole and not is_replaced
        else:
            is_lost = not now and ending in RAN
        if is_lost:
            yield ChangedTest(test=test, change="lost", start=ending)
        elif now in SKIPPED and ending in RAN:
            yield ChangedTest(test=test, change="skipped", start=ending)


def _by_function(tests: CollectedTests) -> tuple[Counter[str], Counter[str]]:
    """Return how many variants each test function has, and how many of them ran."""
    ran = (test for test, ending in tests.endings.items() if ending in RAN)
    return Counter(map(_function_of, tests.endings)), Counter(map(_function_of, ran))


def _fewer_by_count(
    start: ValidatorResult, now: ValidatorResult
) -> Iterator[ChangedTest]:
    """Yield one row for each runner that certainly ran fewer tests than at the start, by its summaries."""
    for runner in _runners(start):
        if _is_silent(runner, start, now) and not start.suite.quiet:
            yield ChangedTest(
                test=f"no summary of {runner}, which printed one at the start",
                change="lost",
            )
    for runner, certain, ran in _runner_counts(start, now):
        # Unit tests of Rust are in the sources that the agent changes.
        if ran < certain and runner != "cargo test":
            noun = ("package" if runner == "go test" else "test") + (
                "" if ran == 1 else "s"
            )
            yield ChangedTest(
                test=f"{runner} ran {ran} {noun}, and {certain} at the start",
                change="lost",
            )


def _runner_counts(
    start: ValidatorResult, now: ValidatorResult
) -> Iterator[tuple[str, int, int]]:
    """Yield runner, tests that must run again, and tests that ran now."""
    if not (start.suite.whole and now.suite.whole):
        return
    for runner in _runners(start):
        after = _of_runner(now, runner)
        if after:
            yield (
                runner,
                needed_tests(_of_runner(start, runner)),
                sum(count.ran for count in after),
            )


def _runners(result: ValidatorResult) -> Sequence[str]:
    return list(dict.fromkeys(count.runner for count in result.suite.counts))


def _of_runner(result: ValidatorResult, runner: str) -> list[RunnerCount]:
    return [count for count in result.suite.counts if count.runner == runner]


def _is_silent(runner: str, start: ValidatorResult, now: ValidatorResult) -> bool:
    """Return whether a runner that counted tests at the start prints no summary now."""
    counted = any(count.ran or count.skipped for count in _of_runner(start, runner))
    is_reported = runner == "pytest" and now.tests_run is not None
    return counted and not _of_runner(now, runner) and not is_reported


def needed_tests(before: Sequence[RunnerCount]) -> int:
    """Return how many tests must run again. After a red summary, one with no more tests may be a retry of the same tests."""
    certain = largest_red = 0
    for count in filter(lambda count: count.certain, before):
        certain += count.ran if not largest_red or count.ran > largest_red else 0
        largest_red = max(largest_red, count.ran) if count.failed else largest_red
    return certain


def _name_of(test: str) -> str:
    return test.partition("::")[2]


def _function_of(test: str) -> str:
    """Return a test without its parameters."""
    file, mark, rest = test.partition("::")
    return f"{file}{mark}{rest.partition('[')[0]}"
