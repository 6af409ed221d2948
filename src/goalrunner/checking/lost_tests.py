"""Tests of an earlier run that are missing or skipped in a later run of a validator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
    checks_may_change: bool = False,
) -> tuple[ChangedTest, ...]:
    """Return the tests of the start that are missing or newly skipped.

    `now` is a run with the original checks. `by_agent` tells whether a file has the
    agent's content: tests in such files are left out, and a skip that is raised in one
    counts for tests that were unknown at the start as well. `checks_may_change`: the
    goal lets the agent change some checks.
    """
    # Tests whose names or number differ from run to run cannot be compared.
    if start is not None and start.suite.varying:
        return ()
    rows: dict[str, ChangedTest] = {}
    if start is not None and start.tests is not None and now.tests is not None:
        rows = {row.test: row for row in _lost_ids(start.tests, now.tests)}
    for row in _skipped_by_agent(start, now, by_agent):
        rows.setdefault(row.test, row)
    # A file of the agent may have other tests than at the start.
    lost = [row for row in rows.values() if not by_agent(file_of(row.test))]
    # If some checks may change, the numbers of tests may change as well.
    if start is None or checks_may_change:
        return tuple(lost)
    ran = _tests_that_ran(start)
    # Nothing shows that they ran: there are neither names nor numbers.
    if ran and now.tests is None and not (now.suite.counts or start.suite.quiet):
        about = f"no test is reported, and {len(ran)} ran at the start"
        lost.append(
            ChangedTest(
                test=about,
                change="lost",
            )
        )
    return (*lost, *_fewer_by_count(start, now))


def _skipped_by_agent(
    start: ValidatorResult | None,
    now: ValidatorResult,
    by_agent: Callable[[str], bool],
) -> Iterator[ChangedTest]:
    """Yield the tests that a file of the agent skips, and that ran or were unknown."""
    if now.tests is None:
        return
    earlier = _endings(start)
    for test, place in now.tests.skipped_at.items():
        ending = earlier.get(test)
        if by_agent(place) and ending not in SKIPPED:
            yield ChangedTest(
                test=test,
                change="skipped",
                start=ending or "",
            )


def _endings(result: ValidatorResult | None) -> Mapping[str, str]:
    """Return how each test ended; nothing if no tests are known."""
    if result is None or result.tests is None:
        return {}
    return result.tests.endings


def _tests_that_ran(result: ValidatorResult | None) -> list[str]:
    return [test for test, ending in _endings(result).items() if ending in RAN]


def ended_before_tests(
    start: ValidatorResult | None,
    now: ValidatorResult,
    by_agent: Callable[[str], bool],
) -> bool:
    """Return whether a file of tests of the start passed without running a test.

    The code under test has ended the process of that file. Node reports such a file as
    a test.
    """
    files_with_tests = _files_of_tests(start) - _files_of_tests(now)
    endings = _endings(now)
    for file in files_with_tests:
        if endings.get(file) == "passed" and not by_agent(file):
            return True
    return False


def _files_of_tests(result: ValidatorResult | None) -> set[str]:
    return {file_of(test) for test in _endings(result) if "::" in test}


def removed_tests(
    earlier: Sequence[ValidatorResult | None],
    delivered: ValidatorResult,
) -> int:
    """Return how many tests of earlier runs are missing or skipped in `delivered`.

    The first of the earlier runs is that of the start.
    """
    names: set[str] = set()
    fewer = 0
    for result in earlier:
        names |= gone_tests(result, delivered, earlier[0])
        if result is None or result.suite.varying:
            continue
        for count in _runner_counts(result, delivered):
            fewer = max(fewer, count.needed - count.ran)
    # Of some runners only names are known, of others only numbers.
    return max(len(names), fewer)


def gone_tests(
    before: ValidatorResult | None,
    delivered: ValidatorResult,
    start: ValidatorResult | None = None,
) -> set[str]:
    """Return the tests of an earlier run that are missing or skipped in `delivered`.

    A test of the same name in another file is the same test, if that file did not have
    it in the run `start`, or else in the earlier run: a side with original checks may
    have both.
    """
    if before is None or before.tests is None or delivered.tests is None:
        return set()
    if before.suite.varying:
        return set()
    reference = before.tests
    if start is not None and start.tests is not None:
        reference = start.tests
    new = delivered.tests.endings.keys() - reference.endings.keys()
    ran = [test for test in new if delivered.tests.endings[test] in RAN]
    moved = Counter(map(_name_of, ran))
    not_run = Counter(map(_name_of, new)) - moved
    # A test that got parameters is still there.
    parametrized = set(map(_function_of, ran))
    gone: set[str] = set()
    for row in _lost_ids(before.tests, delivered.tests):
        name = _name_of(row.test)
        if row.change == "lost" and row.test in parametrized:
            continue
        # Each new test stands for one that is missing; one that is skipped does not
        # stand for one that ran.
        if row.change == "lost" and moved[name]:
            moved[name] -= 1
        elif row.change == "lost" and row.start not in RAN and not_run[name]:
            not_run[name] -= 1
        elif name:
            # Without a name, it is a file that could not be collected.
            gone.add(row.test)
    return gone


def moved_tests(
    before: ValidatorResult | None,
    delivered: ValidatorResult,
) -> dict[str, str]:
    """Return the tests of an earlier run that are in another file of `delivered`.

    Each has its new id.
    """
    if before is None or before.tests is None or delivered.tests is None:
        return {}
    earlier, later = before.tests.endings, delivered.tests.endings
    new_ids: dict[str, list[str]] = {}
    for test in later:
        name = _name_of(test)
        if test not in earlier and name:
            new_ids.setdefault(name, []).append(test)
    gone = gone_tests(before, delivered)
    moved: dict[str, str] = {}
    for test in earlier:
        candidates = new_ids.get(_name_of(test))
        # Several tests may have one name; each new id is used once.
        if candidates and test not in later and test not in gone:
            moved[test] = candidates.pop(0)
    return moved


def knows_tests(result: ValidatorResult | None) -> bool:
    """Return whether all tests of a result are known by their ids."""
    return result is not None and result.tests is not None and result.tests.whole


def has_tests(result: ValidatorResult) -> bool:
    """Return whether a test runner reported in a result."""
    return result.tests is not None or bool(result.suite.counts)


def suite_labels(
    start: ValidatorResult | None,
    now: ValidatorResult,
) -> tuple[str, ...]:
    """Return the labels of a green result that say what is unknown of its tests."""
    labels: list[str] = []
    if now.suite.filters:
        labels.append(Label.TESTS_FILTERED.about(", ".join(now.suite.filters)))
    if start is not None:
        for runner in _runners(start):
            if _is_silent(runner, start, now):
                labels.append(Label.NO_TEST_SUMMARY.about(runner))
    return tuple(labels)


def _lost_ids(before: CollectedTests, after: CollectedTests) -> Iterator[ChangedTest]:
    """Yield the tests that are missing, and those that ran and do not run now."""
    # A run that ended before its last test is green only if the process ended itself.
    is_whole = after.whole or any(
        not ending and before.endings.get(test) in RAN
        for test, ending in after.endings.items()
    )
    files = {file_of(test) for test, ending in after.endings.items() if ending in RAN}
    replaced_functions = _replaced_functions(before, after)
    for test, earlier in before.endings.items():
        ending = after.endings.get(test)
        if "::" not in test:
            # A file that could not be collected must run a test now.
            is_lost = is_whole and test not in files
        elif ending is None:
            is_replaced = "[" in test and _function_of(test) in replaced_functions
            is_lost = is_whole and not is_replaced
        else:
            is_lost = not ending and earlier in RAN
        if is_lost:
            yield ChangedTest(
                test=test,
                change="lost",
                start=earlier,
            )
        elif ending in SKIPPED and earlier in RAN:
            yield ChangedTest(
                test=test,
                change="skipped",
                start=earlier,
            )


def _replaced_functions(before: CollectedTests, after: CollectedTests) -> set[str]:
    """Return the test functions that have no fewer variants, and run no fewer.

    Their variants may have other names.
    """
    variants, ran = _by_function(after)
    earlier_variants, earlier_ran = _by_function(before)
    functions: set[str] = set()
    for function, count in earlier_variants.items():
        if variants[function] >= count and ran[function] >= earlier_ran[function]:
            functions.add(function)
    return functions


def _by_function(tests: CollectedTests) -> tuple[Counter[str], Counter[str]]:
    """Return how many variants each test function has, and how many of them ran."""
    ran = (test for test, ending in tests.endings.items() if ending in RAN)
    return Counter(map(_function_of, tests.endings)), Counter(map(_function_of, ran))


def _fewer_by_count(
    start: ValidatorResult,
    now: ValidatorResult,
) -> Iterator[ChangedTest]:
    """Yield a row for each runner that certainly ran fewer tests, by its summaries."""
    for runner in _runners(start):
        if _is_silent(runner, start, now) and not start.suite.quiet:
            about = f"no summary of {runner}, which printed one at the start"
            yield ChangedTest(
                test=about,
                change="lost",
            )
    for count in _runner_counts(start, now):
        # Unit tests of Rust are in the sources that the agent changes.
        if count.ran < count.needed and count.runner != "cargo test":
            # The summary of go test counts packages.
            noun = "package" if count.runner == "go test" else "test"
            plural = "" if count.ran == 1 else "s"
            about = f"{count.runner} ran {count.ran} {noun}{plural}"
            about += f", and {count.needed} at the start"
            yield ChangedTest(
                test=about,
                change="lost",
            )


@dataclass(frozen=True)
class _Count:
    """How many tests of a runner ran, and how many must run."""

    runner: str
    needed: int
    ran: int


def _runner_counts(start: ValidatorResult, now: ValidatorResult) -> Iterator[_Count]:
    """Yield the counts of the runners that printed a summary in both runs."""
    if not (start.suite.whole and now.suite.whole):
        return
    for runner in _runners(start):
        summaries = _of_runner(now, runner)
        if summaries:
            needed = needed_tests(_of_runner(start, runner))
            yield _Count(runner, needed, sum(count.ran for count in summaries))


def _runners(result: ValidatorResult) -> Sequence[str]:
    return list(dict.fromkeys(count.runner for count in result.suite.counts))


def _of_runner(result: ValidatorResult, runner: str) -> list[RunnerCount]:
    return [count for count in result.suite.counts if count.runner == runner]


def _is_silent(
    runner: str,
    start: ValidatorResult,
    now: ValidatorResult,
) -> bool:
    """Return whether a runner that counted tests at the start prints no summary."""
    counted = any(count.ran or count.skipped for count in _of_runner(start, runner))
    # The number of pytest's tests may be known without a printed summary.
    is_reported = runner == "pytest" and now.tests_run is not None
    return counted and not _of_runner(now, runner) and not is_reported


def needed_tests(before: Sequence[RunnerCount]) -> int:
    """Return how many tests must run again.

    After a red summary, one with no more tests may be a retry of the same tests.
    """
    needed = largest_red = 0
    for count in before:
        if not count.certain:
            continue
        if not largest_red or count.ran > largest_red:
            needed += count.ran
        if count.failed:
            largest_red = max(largest_red, count.ran)
    return needed


def _name_of(test: str) -> str:
    """Return a test without its file."""
    return test.partition("::")[2]


def _function_of(test: str) -> str:
    """Return a test without its parameters."""
    file, separator, name = test.partition("::")
    return f"{file}{separator}{name.partition('[')[0]}"
