"""Which sides of a check run, and what their results mean. Pure: it runs nothing and reads no file.

M is everything as the agent left it. B is the agent's source on everything else of the start. O is M with only the
protected originals put back. T is B with the agent's versions of the test files. N is M with the source of the start; it
informs a reviewer and decides nothing.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from goalrunner.checking.protection import ChangedPath
from goalrunner.core.errors import some
from goalrunner.core.events import ChangedTest
from goalrunner.core.labels import Label
from goalrunner.core.verdict import ValidatorResult

Side = Literal["M", "B", "O", "T", "N"]

_NAMED = 5
"""Tests that a message names."""
_MOST_TESTS = 200
"""Tests that are shown to a reviewer."""


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
        """Return the changed paths that have the content of the start on a side; new ones do not exist there."""
        changes = [item for item in self.changes if not item.allowed]
        match side:
            case "M":
                return ()
            case "N":
                return tuple(
                    item
                    for item in self.changes
                    if item.is_work and item.kind == "source"
                )
            case "O":
                return tuple(item for item in changes if item.protected)
            case "B":
                return tuple(item for item in changes if not item.is_work)
            case "T":
                return tuple(
                    item
                    for item in changes
                    if not item.is_work and not _is_test_file(item)
                )

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides with the original checks, in the order in which they run."""
        first = self.put_back("B")
        if not first:
            return ("M",)
        return ("B",) if first == self.put_back("O") else ("B", "O")

    @property
    def unprotected(self) -> tuple[ChangedPath, ...]:
        """The paths that O has as the agent left them, and B does not."""
        return tuple(item for item in self.put_back("B") if not item.protected)

    @property
    def reviewed(self) -> tuple[str, ...]:
        """The paths that a reviewer decides about."""
        kinds = ("configuration", "script")
        return tuple(
            i.path
            for i in self.put_back("B")
            if i.protected or i.named or i.kind in kinds or _is_conftest(i)
        )

    def is_by_agent(self, path: str) -> bool:
        """Return whether a file is the agent's on a side with original checks."""
        above = path.split("/")
        names = ("/".join(above[:length]) for length in range(1, len(above) + 1))
        return any(name in self._by_agent for name in names) or self.may_change(path)

    @cached_property
    def _by_agent(self) -> frozenset[str]:
        return frozenset(
            item.path for item in self.changes if item.allowed or not item.protected
        )


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
    if "M" not in runs:
        return "M"
    if not _is_green(runs["M"]):
        return Decision("red", "M")
    lost: dict[Side, tuple[ChangedTest, ...]] = {}
    for side in case.sides:
        if side not in runs:
            return side
        lost[side] = _lost(case, runs[side]) if _is_green(runs[side]) else ()
        if _is_green(runs[side]) and not lost[side]:
            return _accepted(case, runs, side)
    if _may_rest_on_tests(case, runs):
        if "T" not in runs:
            return "T"
        if _is_green(runs["T"]):
            return Decision("complete", "T", _labels(case, runs, "T"))
    return _refused(case, runs, lost)


def _is_green(results: Iterable[ValidatorResult]) -> bool:
    results = list(results)
    return bool(results) and all(result.passed for result in results)


def _by_name(results: Sequence[ValidatorResult]) -> Results:
    return {result.name: result for result in results}


def _is_test_file(item: ChangedPath) -> bool:
    return item.kind == "test" and item.change != "deleted" and not _is_conftest(item)


def _is_conftest(item: ChangedPath) -> bool:
    return posixpath.basename(item.path) == "conftest.py"


def _lost(
    case: CheckedChanges, results: Sequence[ValidatorResult]
) -> tuple[ChangedTest, ...]:
    freed = any(item.allowed and item.rule for item in case.changes)
    rows = [
        lost_tests(case.start.get(now.name), now, case.is_by_agent, freed=freed)
        for now in results
    ]
    return tuple({item.test: item for tests in rows for item in tests}.values())


def _accepted(case: CheckedChanges, runs: Runs, side: Side) -> Decision:
    """Return the decision on a side that is green and has all tests of the start."""
    is_named = side == "O" and any(item.named for item in case.unprotected)
    if is_named and not case.strict:
        return _review(
            case,
            runs,
            "B",
            "the result rests on files that a validator names or starts",
        )
    return Decision("complete", side, _labels(case, runs, side))


def _refused(
    case: CheckedChanges, runs: Runs, lost: Mapping[Side, tuple[ChangedTest, ...]]
) -> Decision:
    """Return the decision if no side with the original checks proves the result."""
    side = next((one for one in case.sides if lost[one]), case.sides[-1])
    refusal = lost_message(lost[side]) if lost[side] else ""
    is_hidden_alone = not refusal and all(
        result.passed or result.hidden for result in runs[side]
    )
    if case.strict and not (refusal or is_hidden_alone):
        refusal = "The validators pass, but not with the original content of the files that this goal protects; restore it."
    is_cut_off = any(
        ended_before_tests(case.start.get(now.name), now, case.is_by_agent)
        for now in runs[side]
    )
    if case.strict or is_hidden_alone or is_cut_off:
        return Decision("red", side, refusal=refusal)
    why = "the validators pass only with the agent's versions of these files"
    if refusal:
        why = "tests of the start do not run with the original checks"
    return _review(case, runs, side, why, refusal)


def lost_message(lost: Sequence[ChangedTest]) -> str:
    """Return why green results do not count: tests of the start did not run."""
    count = f"{len(lost)} test{'' if len(lost) == 1 else 's'} of the start did not run"
    names = [
        f"{item.test} (skipped)" if item.change == "skipped" else item.test
        for item in lost
    ]
    return (
        f"{count} with the original checks: {some(names, _NAMED)}. Every test of the start must run again: none may be "
        "removed, skipped, deselected or expected to fail, and the process must not end before its last test."
    )


def _review(
    case: CheckedChanges, runs: Runs, side: Side, why: str, refusal: str = ""
) -> Decision:
    tests = changed_tests(case, runs, side)
    files = (
        file_of(item.test)
        for item in tests
        if item.change in ("lost", "skipped") and (item.start or "::" in item.test)
    )
    paths = case.reviewed
    if side == "O" and refusal:  # files that B does not have may be the cause
        paths = (
            *paths,
            *(
                item.path
                for item in case.unprotected
                if item.kind == "test" and item.path not in paths
            ),
        )
    allow = dict.fromkeys(
        (
            *paths,
            *("*_test.go" if name.startswith("go test ") else name for name in files),
        )
    )
    hint = f"allow = {json.dumps([*allow], ensure_ascii=False)}" if allow else ""
    labels = _labels(case, runs, "M")
    if unseen := [
        item.path
        for item in case.unprotected
        if item.kind == "data" and item.path not in paths
    ]:
        labels = (*labels, Label.RESTS_ON_FILES.about(some(unseen)))
    return Decision("review", side, labels, refusal, paths, tests, why, hint)


def changed_tests(
    case: CheckedChanges, runs: Runs, side: Side
) -> tuple[ChangedTest, ...]:
    """Return the tests whose result depends on whose checks run; `side` has the original checks."""
    order = ("lost", "skipped", "red", "changed", "added")
    delivered, original = _by_name(runs["M"]), _by_name(runs[side])
    rows: dict[str, ChangedTest] = {}
    for name, result in delivered.items():
        for row in _changed_tests(case.start.get(name), result, original.get(name)):
            rows.setdefault(row.test, row)
    if _is_green(runs[side]):
        rows |= {
            item.test: item for item in _lost(case, runs[side]) if item.test not in rows
        }
    return tuple(
        sorted(rows.values(), key=lambda item: order.index(item.change))[:_MOST_TESTS]
    )


def _changed_tests(
    start: ValidatorResult | None,
    delivered: ValidatorResult,
    original: ValidatorResult | None,
) -> Iterator[ChangedTest]:
    """Yield the tests of one validator whose result depends on whose checks run."""
    gone = gone_tests(start, delivered) | gone_tests(original, delivered, start)
    moved = moved_tests(start, delivered)
    endings = [_endings(one) for one in (start, delivered, original)]
    tests = dict.fromkeys(test for one in endings if one is not None for test in one)
    files = {file_of(test) for test in tests if "::" in test}
    for test in tests:
        if (
            test in files
        ):  # it could not be collected on one of the sides; its tests say so
            continue
        before, now, other = (
            None if one is None else one.get(test, ABSENT) for one in endings
        )
        if (
            other == ABSENT
            and before not in (None, ABSENT)
            and now not in (None, ABSENT)
            and endings[2] is not None
        ):
            other = endings[2].get(file_of(test), ABSENT)
        row = _changed_test(test, before, now, other)
        if row is None or (
            test in moved.values() and row.change in ("added", "changed")
        ):
            continue
        if test in moved:
            has_original = (
                row.change == "lost" and row.original != ABSENT and test not in gone
            )
            about = {
                "moved_to": file_of(moved[test]),
                "delivered": (endings[1] or {})[moved[test]],
            }
            yield row.model_copy(
                update={**about, "change": "changed" if has_original else row.change}
            )
        elif row.change != "lost" or row.original == ABSENT or test in gone:
            yield row


def _endings(result: ValidatorResult | None) -> Mapping[str, str] | None:
    return None if result is None or result.tests is None else result.tests.endings


def _changed_test(
    test: str, start: str | None, delivered: str | None, original: str | None
) -> ChangedTest | None:
    """Return the row of a test; an ending is None where no tests are known. None if it is the same everywhere."""
    later = [ending for ending in (delivered, original) if ending is not None]
    change: Literal["lost", "skipped", "red", "changed", "added"]
    if start not in (None, ABSENT) and ABSENT in later:
        change = "lost"
    elif start in RAN and SKIPPED.intersection(later):
        change = "skipped"
    elif original == "failed":
        change = "red"
    elif original == ABSENT and delivered != ABSENT:
        change = "added"
    elif delivered != original and None not in (delivered, original):
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


def with_endings_on_start(
    tests: Sequence[ChangedTest], on_start: Sequence[ValidatorResult]
) -> tuple[ChangedTest, ...]:
    """Return the tests with their endings on the source of the start."""
    known = [
        endings for result in on_start if (endings := _endings(result)) is not None
    ]
    if not known:
        return tuple(tests)
    endings = {test: ending for one in known for test, ending in one.items()}
    return tuple(
        item.model_copy(update={"on_start": endings.get(item.delivered_name, ABSENT)})
        for item in tests
    )


def fixes_failure(
    case: CheckedChanges, delivered: Sequence[ValidatorResult]
) -> bool | None:
    """Return whether a test passes that failed at a green baseline; None if none failed there.

    A baseline with failures is green where `known_failures` says so.
    """
    failed = {
        (start.name, test)
        for start in case.start.values()
        for test, ending in (_endings(start) or {}).items()
        if start.passed and ending == "failed"
    }
    passed = {
        (now.name, test)
        for now in delivered
        for test, ending in (_endings(now) or {}).items()
        if ending == "passed"
    }
    return not failed.isdisjoint(passed) if failed else None


def added_test_fails(
    case: CheckedChanges,
    delivered: Sequence[ValidatorResult],
    on_start: Sequence[ValidatorResult],
) -> bool | None:
    """Return whether a test that was added fails on the source of the start; None if no test was added."""
    added: set[str] = set()
    is_known = True
    for result in filter(has_tests, delivered):
        before, after = _endings(case.start.get(result.name)), _endings(result)
        if before is None or after is None:
            is_known = False
        else:
            added |= after.keys() - before.keys()
    if not added and (
        is_known or not any(item.kind == "test" for item in case.changes)
    ):
        return None
    endings = {
        test: ending
        for result in on_start
        for test, ending in (_endings(result) or {}).items()
    }
    is_green = all(result.passed for result in on_start)
    return not is_green and (
        not is_known
        or any(endings.get(test, ABSENT) in ("failed", ABSENT) for test in added)
    )


def _may_rest_on_tests(case: CheckedChanges, runs: Runs) -> bool:
    """Return whether the originals are red for a threshold alone, which the agent's versions of tests may reach."""
    changes_tests = any(
        _is_test_file(item) and item.change == "changed" for item in case.put_back("B")
    )
    reds = [
        [result for result in runs[side] if not result.passed] for side in case.sides
    ]
    return (
        not case.strict
        and changes_tests
        and any(
            red and all(result.suite.below_threshold for result in red) for red in reds
        )
    )


def _labels(case: CheckedChanges, runs: Runs, side: Side) -> tuple[str, ...]:
    """Return what weakens a completion that rests on a side."""
    labels: list[str] = []
    if allowed := [item.path for item in case.changes if item.allowed and item.rule]:
        labels.append(Label.CHECKS_CHANGED.about(some(allowed)))
    if side == "O":
        labels.append(
            Label.RESTS_ON_FILES.about(some([item.path for item in case.unprotected]))
        )
    if side == "T":
        tests = [item.path for item in case.put_back("B") if _is_test_file(item)]
        labels.append(Label.RESTS_ON_TESTS.about(some(tests)))
    original = _by_name(runs[side])
    removed = sum(
        removed_tests((case.start.get(one.name), original.get(one.name)), one)
        for one in runs["M"]
    )
    if removed:
        labels.append(Label.TESTS_REMOVED.about(str(removed)))
    if side != "M" and (differ := _differing_checks(case, runs, side)):
        labels.append(Label.CHECKS_DIFFER.about(some(differ)))
    for now in runs[side]:
        labels += suite_labels(case.start.get(now.name), now)
    return tuple(dict.fromkeys(labels))


def _differing_checks(case: CheckedChanges, runs: Runs, side: Side) -> list[str]:
    """Return the paths of changed configuration and scripts, and of tests where names alone tell what was removed."""
    original = _by_name(runs[side])
    known = compared = True
    results = [result for result in runs["M"] if has_tests(result)]
    for now in results:
        other = original.get(now.name)
        known = (
            known
            and knows_tests(now)
            and (knows_tests(case.start.get(now.name)) or knows_tests(other))
        )
        compared = compared and other is not None and has_tests(other)
    differing_paths = []
    for item in case.put_back("O"):
        if item.kind in ("configuration", "script"):
            differing_paths.append(item.path)
        elif item.kind == "test" and item.change != "new" and side != "T":
            is_counted = bool(results) and (
                known or (compared and item.change == "changed")
            )
            differing_paths += [] if is_counted else [item.path]
    return differing_paths
