"""The comparison of a green result with the baseline: tests that are missing, and summaries that are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from goalrunner.checking.protection import Difference, Protection
from goalrunner.model.validation import RunnerCount, ValidatorResult
from goalrunner.validators.base_results import BaseResults
from goalrunner.validators.missing import missing_tests, without_missing
from goalrunner.validators.named_tests import GO

Answer = tuple[ValidatorResult, Path | None]

_NAMED = 3
"""Tests that a label names."""
_RULE = (
    "Tests in protected files must all run again: none may be skipped or deselected, and the process must not end before "
    "its last test. If they are to change, the goal file must say so: [workspace] allow."
)


def complete(
    answers: Sequence[Answer],
    base: BaseResults,
    rules: Protection,
    tests: Collection[str],
    free: Sequence[Difference],
) -> tuple[tuple[Answer, ...], tuple[str, ...]]:
    """Return the answers, red if a protected test of the start did not run, and their labels.

    `tests` are the paths of the tests of the start. The files of `free` may lose tests.
    """
    changed = {item.path for item in free}

    def is_protected(path: str) -> bool:
        return path not in changed and rules.rule(path) is not None and not rules.allowed(path)

    suite = bool(tests) and not free and all(map(is_protected, tests))
    found: list[Answer] = []
    labels: list[str] = []
    for now, output in answers:
        result, more = compared(
            base.of(now.name),
            now,
            lambda path: suite if path.startswith(GO) else is_protected(path),
            suite=suite,
            freed=bool(free),
        )
        found.append((result, output))
        labels += more
    return tuple(found), tuple(dict.fromkeys(labels))


def compared(
    base: ValidatorResult | None, now: ValidatorResult, protected: Callable[[str], bool], *, suite: bool, freed: bool
) -> tuple[ValidatorResult, tuple[str, ...]]:
    """Return a result, red if it is green with fewer protected tests than the baseline, and its labels.

    `suite` says that all tests of the start are protected, `freed` that the agent may have changed checks.
    """
    if not now.passed:
        return now, ()
    labels = [f"tests filtered: {', '.join(now.suite.filters)}"] if now.suite.filters else []
    if base is None or base.suite.varying:
        return now, tuple(labels)
    if gone := missing_tests(_legible(base, now), now, protected):
        return without_missing(now, gone), ()
    if others := missing_tests(_legible(base, now), now, lambda path: not protected(path)):
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        labels.append(f"fewer tests: {', '.join(others[:_NAMED])}{more}")
    for runner in dict.fromkeys(count.runner for count in base.suite.counts):
        wrong, label = _of_runner(runner, base, now, suite=suite, freed=freed)
        if wrong:
            return _red(now, wrong), ()
        labels += [label] if label else []
    return now, tuple(labels)


def ended_early(now: ValidatorResult, program: str) -> ValidatorResult:
    """Return a green result as red because a test program started and printed no result."""
    return _red(now, f"{program} started and was ended before its result (an exit in the code under test?)")


def _of_runner(
    runner: str, base: ValidatorResult, now: ValidatorResult, *, suite: bool, freed: bool
) -> tuple[str, str]:
    """Return why one runner's tests make the result red, and a label."""
    before = [count for count in base.suite.counts if count.runner == runner]
    after = [count for count in now.suite.counts if count.runner == runner]
    certain, total = needed(before)
    if not after:
        if not any(count.ran or count.skipped for count in before) or (
            runner == "pytest" and now.tests_run is not None
        ):
            return "", ""
        if base.suite.quiet or (freed and any(count.ran for count in now.suite.counts)):
            return "", f"no test summary: {runner}"
        return f"no summary of {runner}, which printed one at the start", ""
    if all(count.named for count in (*before, *after)) or not (base.suite.whole and now.suite.whole):
        return "", ""
    ran = sum(count.ran for count in after)
    noun = ("package" if runner == "go test" else "test") + ("" if ran == 1 else "s")
    # Unit tests of Rust stand in the sources that the agent changes.
    if ran < certain and suite and runner != "cargo test":
        return f"{runner} ran {ran} {noun}, and {certain} at the start", ""
    if ran < total:
        return "", f"fewer tests: {runner} ran {ran}, {total} at the start"
    skipped, first = (sum(count.skipped for count in counts) for counts in (after, before))
    if skipped > first and ran == total:
        return "", f"more tests skipped: {runner} {skipped}, {first} at the start"
    return "", ""


def needed(before: Sequence[RunnerCount]) -> tuple[int, int]:
    """Return how many tests must run again, and how many there were.

    Behind a summary with failures, one with no more tests may be another try of the same ones.
    """
    certain = total = largest_red = 0
    for count in before:
        total += count.ran
        if not count.certain:
            continue
        certain += count.ran if not largest_red or count.ran > largest_red else 0
        largest_red = max(largest_red, count.ran) if count.failed else largest_red
    return certain, total


def _legible(base: ValidatorResult, now: ValidatorResult) -> ValidatorResult:
    """Return the base without the tests that cargo named, if output of tests stands between the names now."""
    counts = [count for count in now.suite.counts if count.runner == "cargo test"]
    if not counts or all(count.named for count in counts) or not any(count.ran for count in counts):
        return base
    ids = tuple(identifier for identifier in base.test_ids if not identifier.partition("::")[0].endswith(".rs"))
    return base.model_copy(update={"test_ids": ids})


def _red(now: ValidatorResult, wrong: str) -> ValidatorResult:
    feedback = f"exit {now.exit_code or 0}, but {wrong}.\n{_RULE}"
    return now.model_copy(update={"passed": False, "reason": "red", "summary": wrong, "feedback": feedback})
