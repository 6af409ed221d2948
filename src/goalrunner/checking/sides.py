"""Which sides of a check run, and what their results mean.

M is everything as the agent left it. B is the agent's source on everything else of the
start. O is M with only the protected originals put back. T is B with the agent's
versions of the test files. N is M with the source of the start, and its data that is no
part of the checks; it has the new scripts of checks. It informs a
reviewer and decides nothing. Nothing is run or read in this module.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from goalrunner.checking.lost_tests import (
    ABSENT,
    RAN,
    SKIPPED,
    Results,
    ended_before_tests,
    file_of,
    gone_tests,
    has_tests,
    knows_tests,
    lost_tests,
    moved_tests,
    removed_tests,
    suite_labels,
)
from goalrunner.checking.protection import NOT_KEPT, ChangedPath
from goalrunner.core.errors import some
from goalrunner.core.events import ChangedTest
from goalrunner.core.labels import Label
from goalrunner.core.verdict import ValidatorResult

Side = Literal["M", "B", "O", "T", "N"]

_NAMED = 5
"""Tests that a message names."""
_MOST_TESTS = 200
"""Tests that a reviewer sees."""


@dataclass(frozen=True)
class CheckedChanges:
    """What differs from the start of the run, as far as it decides a check."""

    changes: tuple[ChangedPath, ...] = ()
    """Changed files that git ignores are among them, as data."""
    start: Results = field(default_factory=dict)
    """The results of the baseline by the name of the validator."""
    strict: bool = False
    """The goal has `protect` or `editable`: nothing is reviewed."""
    may_change: Callable[[str], bool] = lambda _: False
    """Whether `allow` of the goal lets a path change."""

    def put_back(self, side: Side) -> tuple[ChangedPath, ...]:
        """Return the changed paths that have the content of the start on a side.

        New ones do not exist there.
        """
        if side == "M":
            return ()
        return tuple(item for item in self.changes if _is_put_back(item, side))

    def without_allowances(self) -> CheckedChanges:
        """Return the changes as if the goal allowed no change of a check."""
        changes: list[ChangedPath] = []
        for item in self.changes:
            can_be_put_back = item.allowed != NOT_KEPT
            changes.append(replace(item, allowed="") if can_be_put_back else item)
        return replace(self, changes=tuple(changes))

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides with the original checks, in the order in which they run."""
        first = self.put_back("B")
        if not first:
            return ("M",)
        # If both have the same files, one run is enough.
        return ("B",) if first == self.put_back("O") else ("B", "O")

    @property
    def unprotected(self) -> tuple[ChangedPath, ...]:
        """The paths that O has as the agent left them, and B does not."""
        return tuple(item for item in self.put_back("B") if not item.protected)

    @property
    def reviewed(self) -> tuple[str, ...]:
        """The paths that a reviewer decides about."""
        return tuple(item.path for item in self.put_back("B") if _is_reviewed(item))

    def is_by_agent(self, path: str) -> bool:
        """Return whether a file is the agent's on a side with original checks."""
        parts = path.split("/")
        # A new folder is one changed path.
        for length in range(1, len(parts) + 1):
            if "/".join(parts[:length]) in self._by_agent:
                return True
        return self.may_change(path)

    @cached_property
    def _by_agent(self) -> frozenset[str]:
        return frozenset(
            item.path for item in self.changes if item.allowed or not item.protected
        )


def _is_put_back(item: ChangedPath, side: Side) -> bool:
    """Return whether a changed path has the content of the start on a side."""
    if side == "N":
        # A validator whose own file is missing is red, whatever the source does.
        if item.needed:
            return False
        # A fix may lie in data alone, and a test has to fail without it.
        is_data = item.of_program and not (item.rule or item.protected or item.named)
        return is_data or (item.is_work and item.kind == "source")
    if item.allowed:
        return False
    match side:
        case "O":
            return item.protected
        case "B":
            return not item.is_work
        case "T":
            return not item.is_work and not _is_test_file(item)
    return False


def _is_reviewed(item: ChangedPath) -> bool:
    is_check = item.kind in ("configuration", "script") or _is_conftest(item)
    return item.protected or item.named or is_check


@dataclass(frozen=True)
class Decision:
    """What the sides that ran mean."""

    ending: Literal["red", "complete", "review"]
    side: Side
    """The side whose results count."""
    labels: tuple[str, ...] = ()
    refusal: str = ""
    """Why green results do not count, for the agent."""
    paths: tuple[str, ...] = ()
    """The paths that a reviewer decides about."""
    tests: tuple[ChangedTest, ...] = ()
    why: str = ""
    """Why a reviewer is asked, in one sentence."""
    hint: str = ""
    """The line of the goal file that accepts the changes."""


Runs = Mapping[Side, Sequence[ValidatorResult]]


def next_side(case: CheckedChanges, runs: Runs) -> Side | Decision:
    """Return the side that runs next, or the decision."""
    # If it is red, no other side has to run.
    if "M" not in runs:
        return "M"
    if not _is_green(runs["M"]):
        return Decision("red", "M")
    lost: dict[Side, tuple[ChangedTest, ...]] = {}
    for side in case.sides:
        if side not in runs:
            return side
        lost[side] = ()
        if _is_green(runs[side]):
            lost[side] = _lost(case, runs[side])
            if not lost[side]:
                return _accepted(case, runs, side)
    if _may_rest_on_tests(case, runs):
        if "T" not in runs:
            return "T"
        if _is_green(runs["T"]):
            return Decision("complete", "T", _labels(case, runs, "T"))
    return _refused(case, runs, lost)


def _is_green(results: Sequence[ValidatorResult]) -> bool:
    # Without a result, nothing shows that the work is done.
    return bool(results) and all(result.passed for result in results)


def _by_name(results: Sequence[ValidatorResult]) -> Results:
    return {result.name: result for result in results}


def _is_test_file(item: ChangedPath) -> bool:
    # conftest.py decides which tests run, so it is no file of tests alone.
    return item.kind == "test" and item.change != "deleted" and not _is_conftest(item)


def _is_conftest(item: ChangedPath) -> bool:
    return posixpath.basename(item.path) == "conftest.py"


def _lost(
    case: CheckedChanges,
    results: Sequence[ValidatorResult],
) -> tuple[ChangedTest, ...]:
    """Return the tests of the start that are missing or skipped in these results."""
    # A check that `allow` lets the agent change may have other tests than at the start.
    checks_may_change = any(item.allowed and item.rule for item in case.changes)
    lost: dict[str, ChangedTest] = {}
    for now in results:
        start = case.start.get(now.name)
        rows = lost_tests(
            start, now, case.is_by_agent, checks_may_change=checks_may_change
        )
        for row in rows:
            lost[row.test] = row
    return tuple(lost.values())


def _accepted(
    case: CheckedChanges,
    runs: Runs,
    side: Side,
) -> Decision:
    """Return the decision on a side that is green and has all tests of the start."""
    rests_on_named = side == "O" and any(item.named for item in case.unprotected)
    # On O these files are the agent's, so they may have decided the result.
    if rests_on_named and not case.strict:
        why = "the result rests on files that a validator names or starts"
        return _review(case, runs, "B", why)
    return Decision("complete", side, _labels(case, runs, side))


def _refused(
    case: CheckedChanges,
    runs: Runs,
    lost: Mapping[Side, tuple[ChangedTest, ...]],
) -> Decision:
    """Return the decision if no side with the original checks proves the result."""
    side = case.sides[-1]
    refusal = ""
    # Lost tests tell the agent more than a red side does.
    for green_side in case.sides:
        if lost[green_side]:
            side, refusal = green_side, lost_message(lost[green_side])
            break
    results = runs[side]
    # The agent may not learn anything of a validator that is hidden from it.
    is_hidden_alone = not refusal and all(
        result.passed or result.hidden for result in results
    )
    if case.strict and not (refusal or is_hidden_alone):
        refusal = (
            "The validators pass, but not with the original content of the files that "
            "this goal protects; restore it."
        )
    is_cut_off = any(
        ended_before_tests(case.start.get(now.name), now, case.is_by_agent)
        for now in results
    )
    # A reviewer could allow nothing in these cases.
    if case.strict or is_hidden_alone or is_cut_off:
        return Decision("red", side, refusal=refusal)
    why = "the validators pass only with the agent's versions of these files"
    if refusal:
        why = "tests of the start do not run with the original checks"
    return _review(case, runs, side, why, refusal)


def lost_message(lost: Sequence[ChangedTest]) -> str:
    """Return why green results do not count: tests of the start did not run."""
    plural = "" if len(lost) == 1 else "s"
    names = [
        f"{row.test} (skipped)" if row.change == "skipped" else row.test for row in lost
    ]
    return (
        f"{len(lost)} test{plural} of the start did not run with the original checks: "
        f"{some(names, _NAMED)}. Every test of the start must run again: none may be "
        "removed, skipped, deselected or expected to fail, and the process must not "
        "end before its last test."
    )


def _review(
    case: CheckedChanges,
    runs: Runs,
    side: Side,
    why: str,
    refusal: str = "",
) -> Decision:
    """Return the decision that a reviewer is asked; `side` has the original checks."""
    tests = changed_tests(case, runs, side)
    paths = list(case.reviewed)
    if side == "O" and refusal:
        # Tests that B does not have may be the cause.
        for item in case.unprotected:
            if item.kind == "test" and item.path not in paths:
                paths.append(item.path)
    labels = _labels(case, runs, "M")
    unreviewed_data = [
        item.path
        for item in case.unprotected
        if item.kind == "data" and item.path not in paths
    ]
    if unreviewed_data:
        labels = (*labels, Label.RESTS_ON_FILES.about(some(unreviewed_data)))
    hint = _allow_line(paths, tests)
    return Decision("review", side, labels, refusal, tuple(paths), tests, why, hint)


def _allow_line(paths: Sequence[str], tests: Sequence[ChangedTest]) -> str:
    """Return the line of the goal file that allows paths and tests to change."""
    allow = dict.fromkeys(paths)
    for row in tests:
        is_test = bool(row.start) or "::" in row.test
        if row.change not in ("lost", "skipped") or not is_test:
            continue
        pattern = file_of(row.test)
        # The summary of go test names packages, not files.
        if pattern.startswith("go test "):
            pattern = "*_test.go"
        allow[pattern] = None
    if not allow:
        return ""
    return f"allow = {json.dumps([*allow], ensure_ascii=False)}"


def changed_tests(
    case: CheckedChanges,
    runs: Runs,
    side: Side,
) -> tuple[ChangedTest, ...]:
    """Return the tests whose result depends on whose checks run.

    `side` has the original checks.
    """
    order = ("lost", "skipped", "red", "changed", "added")
    original = _by_name(runs[side])
    rows: dict[str, ChangedTest] = {}
    for result in runs["M"]:
        start = case.start.get(result.name)
        comparison = _Comparison(start, result, original.get(result.name))
        for row in comparison.changed_tests():
            rows.setdefault(row.test, row)
    if _is_green(runs[side]):
        for row in _lost(case, runs[side]):
            rows.setdefault(row.test, row)
    # The most serious ones come first, because the list is cut.
    by_change = sorted(rows.values(), key=lambda row: order.index(row.change))
    return tuple(by_change[:_MOST_TESTS])


@dataclass(frozen=True)
class _Comparison:
    """The results of one validator whose tests are compared."""

    start: ValidatorResult | None
    delivered: ValidatorResult
    original: ValidatorResult | None
    """The result with the original checks."""

    def changed_tests(self) -> Iterator[ChangedTest]:
        """Yield the tests whose result depends on whose checks run."""
        gone = gone_tests(self.start, self.delivered)
        gone |= gone_tests(self.original, self.delivered, self.start)
        moved = moved_tests(self.start, self.delivered)
        new_ids = set(moved.values())
        for test in self._tests():
            row = self._changed_test(test)
            # The row of its earlier id tells of a test that was moved.
            if row is None or (test in new_ids and row.change in ("added", "changed")):
                continue
            is_lost = row.original == ABSENT or test in gone
            if test in moved:
                # The original checks ran it in its earlier file.
                is_changed = row.change == "lost" and not is_lost
                change = "changed" if is_changed else row.change
                yield row.model_copy(update=self._moved_to(moved[test], change))
            elif row.change != "lost" or is_lost:
                yield row

    def _moved_to(self, new_id: str, change: str) -> dict[str, str]:
        endings = _endings(self.delivered) or {}
        return {
            "moved_to": file_of(new_id),
            "delivered": endings[new_id],
            "change": change,
        }

    def _tests(self) -> list[str]:
        """Return the tests of all results."""
        tests: dict[str, None] = {}
        for result in (self.start, self.delivered, self.original):
            tests.update(dict.fromkeys(_endings(result) or ()))
        # A file that could not be collected in one of them has its tests in another.
        files = {file_of(test) for test in tests if "::" in test}
        return [test for test in tests if test not in files]

    def _changed_test(self, test: str) -> ChangedTest | None:
        start = _ending(self.start, test)
        delivered = _ending(self.delivered, test)
        original = _ending(self.original, test)
        exists = start not in (None, ABSENT) and delivered not in (None, ABSENT)
        if original == ABSENT and exists:
            # Its file may not have been collected with the original checks.
            original = _ending(self.original, file_of(test))
        return _changed_test(test, start, delivered, original)


def _endings(result: ValidatorResult | None) -> Mapping[str, str] | None:
    if result is None or result.tests is None:
        return None
    return result.tests.endings


def _ending(result: ValidatorResult | None, test: str) -> str | None:
    """Return how a test ended; None where no tests are known."""
    endings = _endings(result)
    if endings is None:
        return None
    return endings.get(test, ABSENT)


def _changed_test(
    test: str,
    start: str | None,
    delivered: str | None,
    original: str | None,
) -> ChangedTest | None:
    """Return the row of a test; None if it is the same everywhere.

    An ending is None where no tests are known.
    """
    later = {delivered, original} - {None}
    change: Literal["lost", "skipped", "red", "changed", "added"]
    if start not in (None, ABSENT) and ABSENT in later:
        change = "lost"
    elif start in RAN and SKIPPED.intersection(later):
        change = "skipped"
    elif original == "failed":
        change = "red"
    elif original == ABSENT and delivered != ABSENT:
        change = "added"
    elif len(later) == 2:
        change = "changed"
    else:
        return None
    return ChangedTest(
        test=test,
        change=change,
        start=start or "",
        delivered=delivered or "",
        original=original or "",
    )


def _all_endings(results: Iterable[ValidatorResult]) -> dict[str, str]:
    """Return how each test of several results ended."""
    endings: dict[str, str] = {}
    for result in results:
        endings.update(_endings(result) or {})
    return endings


def with_endings_on_start(
    tests: Sequence[ChangedTest],
    on_start: Sequence[ValidatorResult],
) -> tuple[ChangedTest, ...]:
    """Return the tests with their endings on the source of the start."""
    if all(_endings(result) is None for result in on_start):
        return tuple(tests)
    endings = _all_endings(on_start)
    return tuple(
        row.model_copy(update={"on_start": endings.get(row.delivered_name, ABSENT)})
        for row in tests
    )


def fixes_failure(
    case: CheckedChanges,
    delivered: Sequence[ValidatorResult],
) -> bool | None:
    """Return whether a test passes that failed at a green baseline.

    Return None if none failed there. A baseline with failures is green where
    `known_failures` says so.
    """
    green = [start for start in case.start.values() if start.passed]
    failed = set(_tests_with(green, "failed"))
    if not failed:
        return None
    return not failed.isdisjoint(_tests_with(delivered, "passed"))


def _tests_with(
    results: Iterable[ValidatorResult],
    wanted_ending: str,
) -> Iterator[tuple[str, str]]:
    """Yield the validator and the id of each test that ended like this."""
    for result in results:
        for test, ending in (_endings(result) or {}).items():
            if ending == wanted_ending:
                yield result.name, test


def added_test_fails(
    case: CheckedChanges,
    delivered: Sequence[ValidatorResult],
    on_start: Sequence[ValidatorResult],
) -> bool | None:
    """Return whether a test that was added fails on the source of the start.

    A test of the start whose new version fails there shows as much. Return None if no
    test was added.
    """
    added: set[str] = set()
    passed_before: set[str] = set()
    knows_all = True
    for result in filter(has_tests, delivered):
        before, after = _endings(case.start.get(result.name)), _endings(result)
        if before is None or after is None:
            knows_all = False
        else:
            moved = moved_tests(case.start.get(result.name), result)
            added |= after.keys() - before.keys() - set(moved.values())
            passed_before |= {test for test in after if before.get(test) == "passed"}
    changes_tests = any(item.kind == "test" for item in case.changes)
    if not added and (knows_all or not changes_tests):
        return None
    if all(result.passed for result in on_start):
        return False
    endings = _all_endings(on_start)
    fails = any(endings.get(test, ABSENT) in ("failed", ABSENT) for test in added)
    for test in passed_before:
        # Its file may not be importable there.
        ending = endings.get(test, endings.get(file_of(test)))
        fails = fails or ending == "failed"
    # Without the ids of tests, a red result has to be enough.
    return fails or not knows_all


def _may_rest_on_tests(case: CheckedChanges, runs: Runs) -> bool:
    """Return whether the originals are red for a threshold alone.

    The agent's versions of tests may reach it.
    """
    changes_tests = any(
        _is_test_file(item) and item.change == "changed" for item in case.put_back("B")
    )
    if case.strict or not changes_tests:
        return False
    for side in case.sides:
        red = [result for result in runs[side] if not result.passed]
        if red and all(result.suite.below_threshold for result in red):
            return True
    return False


def _labels(
    case: CheckedChanges,
    runs: Runs,
    side: Side,
) -> tuple[str, ...]:
    """Return what weakens a completion that rests on a side."""
    labels: list[str] = []
    allowed = [item.path for item in case.changes if item.allowed and item.rule]
    if allowed:
        labels.append(Label.CHECKS_CHANGED.about(some(allowed)))
    if side == "O":
        files = [item.path for item in case.unprotected]
        labels.append(Label.RESTS_ON_FILES.about(some(files)))
    if side == "T":
        tests = [item.path for item in case.put_back("B") if _is_test_file(item)]
        labels.append(Label.RESTS_ON_TESTS.about(some(tests)))
    original = _by_name(runs[side])
    removed = 0
    for result in runs["M"]:
        earlier = (case.start.get(result.name), original.get(result.name))
        removed += removed_tests(earlier, result)
    if removed:
        labels.append(Label.TESTS_REMOVED.about(str(removed)))
    differing = _differing_checks(case, runs, side)
    if differing:
        labels.append(Label.CHECKS_DIFFER.about(some(differing)))
    for result in runs[side]:
        labels += suite_labels(case.start.get(result.name), result)
    return tuple(dict.fromkeys(labels))


def _differing_checks(
    case: CheckedChanges,
    runs: Runs,
    side: Side,
) -> list[str]:
    """Return the paths of changed checks of which nothing else is known.

    These are configuration and scripts, and tests where names alone tell what was
    removed.
    """
    if side == "M":
        return []
    original = _by_name(runs[side])
    results = list(filter(has_tests, runs["M"]))
    # Whether all tests are known by their ids, and whether they are counted at least.
    knows_ids = has_counts = bool(results)
    for result in results:
        other = original.get(result.name)
        knows_earlier = knows_tests(case.start.get(result.name)) or knows_tests(other)
        knows_ids = knows_ids and knows_tests(result) and knows_earlier
        has_counts = has_counts and other is not None and has_tests(other)
    paths: list[str] = []
    for item in case.put_back("O"):
        if item.kind in ("configuration", "script"):
            paths.append(item.path)
        elif item.kind == "test" and item.change != "new" and side != "T":
            # A deleted file cannot be counted.
            is_counted = has_counts and item.change == "changed"
            if not (knows_ids or is_counted):
                paths.append(item.path)
    return paths
