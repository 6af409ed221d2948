"""Suites that are red for other reasons than the goal.

The tests of `fixes` must pass; with `known_failures`, tests that failed at the baseline
may go on failing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from goalrunner.core.errors import some
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.runner_calls import WITH_NAMES
from goalrunner.core.verdict import CollectedTests, Ending, ValidatorResult
from goalrunner.validators.collected_tests import TestNames

_TESTS_FAILED = 1
"""The exit code of pytest if tests failed, and nothing else."""


def is_judged(spec: ValidatorSpec) -> bool:
    """Return whether the tests of a validator decide, not its exit code alone."""
    return bool(spec.fixes or spec.known_failures)


def _has_verdict(result: ValidatorResult) -> bool:
    """Return whether a run came to its end, so that its tests can be judged."""
    return result.reason in ("passed", "red") and not result.cannot_run


def judged(
    base: ValidatorResult | None, now: ValidatorResult, spec: ValidatorSpec
) -> ValidatorResult:
    """Return a result by its tests. `base` is the result of the baseline.

    Green if the tests of `fixes` pass, and no other test fails that did not at the
    baseline. Without `known_failures`, the exit code must be the expected one as well.
    """
    if not is_judged(spec) or not _has_verdict(now):
        return now
    # A red run counts only if it is one of all tests.
    if not now.passed and not (spec.known_failures and _is_complete(now)):
        return now
    if why := _why_not_fixed(now, spec):
        return _red(now, why)
    if now.passed:
        return now
    failing_before = _failing(base)
    if failing_before is None:
        return _red(now, "the tests of the baseline are not known")
    newly_failing = sorted((_failing(now) or set()) - failing_before)
    if newly_failing:
        count = len(newly_failing)
        tests_fail = "1 test fails" if count == 1 else f"{count} tests fail"
        names = some(newly_failing)
        return _red(now, f"{tests_fail} that did not at the baseline: {names}")
    summary = f"{now.summary}; these failed before round 1, too"
    return now.model_copy(
        update={"passed": True, "reason": "passed", "summary": summary, "feedback": ""}
    )


def _why_not_fixed(result: ValidatorResult, spec: ValidatorSpec) -> str:
    """Return which tests of `fixes` do not pass; empty if all do."""
    tests = result.tests or CollectedTests(whole=False)
    unfixed: list[str] = []
    for name in spec.fixes:
        endings = _endings_of(name, tests)
        if not endings:
            unfixed.append(f"{name} (not found)")
        elif any(ending != "passed" for ending in endings):
            unfixed.append(name)
    if not unfixed:
        return ""
    verb = "does" if len(unfixed) == 1 else "do"
    numbers = f"{len(unfixed)} of {len(spec.fixes)}"
    return f"{numbers} tests to fix {verb} not pass: {some(unfixed)}"


def judged_at_start(
    first: ValidatorResult,
    again: ValidatorResult | None,
    spec: ValidatorSpec,
    folder: Path,
) -> ValidatorResult:
    """Return the result of the baseline. `folder` is the workspace.

    A failure counts as known only if a second run has it as well: flaky tests are no
    known failures. What only a person can correct in the goal file makes the result one
    that cannot run.
    """
    if not is_judged(spec) or not _has_verdict(first):
        return first
    mistake = next(_mistakes(first, spec, folder), "")
    if mistake:
        return first.model_copy(
            update={
                "passed": False,
                "reason": "red",
                "cannot_run": True,
                "summary": mistake,
            }
        )
    confirmed = first
    if again is not None:
        confirmed = first.model_copy(update={"tests": _confirmed(first, again)})
    return judged(confirmed, confirmed, spec)


def _mistakes(
    result: ValidatorResult, spec: ValidatorSpec, folder: Path
) -> Iterator[str]:
    """Yield what is wrong with `fixes` and `known_failures`."""
    tests = result.tests
    # A command may be red before it names tests: a later round may name them.
    if tests is None:
        if result.passed or spec.known_failures:
            key = "known_failures" if spec.known_failures else "fixes"
            yield (
                f"{key} needs the names of tests, which this command does not give;"
                f" write one of {WITH_NAMES}"
            )
        return
    if spec.known_failures and not result.passed:
        if tests.whole and not result.suite.proves:
            yield (
                "known_failures needs a command that only runs tests;"
                ' write that of the test runner: run = "pytest -q"'
            )
        elif not _is_complete(result):
            yield (
                "known_failures needs a run of all tests, and this one did not run all;"
                " remove -x; add --continue-on-collection-errors (pytest)"
                " or --no-fail-fast (cargo)"
            )
    for name in spec.fixes:
        if not _endings_of(name, tests):
            mistake = _mistaken_name(name, tests, folder)
            if mistake:
                yield mistake


def _mistaken_name(name: str, tests: CollectedTests, folder: Path) -> str:
    """Return why a name of `fixes` is no name of a test.

    Empty if the test may be one that is still to be written.
    """
    file, _, test = name.partition("::")
    path = folder / file
    if not path.is_file():
        suffix = f"::{test or name}"
        similar = next((one for one in tests.endings if one.endswith(suffix)), "")
        if not similar:
            return ""
        return f'fixes: no test is named "{name}"; did you mean "{similar}"?'
    # A file that cannot be collected may hold the test.
    if tests.endings.get(file) == "failed":
        return ""
    # `tests/a.py::Class::test_b[1]` is the function test_b.
    function = test.rpartition("::")[2].partition("[")[0]
    if function not in path.read_text(encoding="utf-8", errors="replace"):
        return ""
    return f'fixes: "{name}" exists, but this command does not collect it'


def tests_to_come(result: ValidatorResult, spec: ValidatorSpec) -> list[str]:
    """Return the names of `fixes` that mean no test of a result.

    A file that cannot be collected may hold any of them.
    """
    tests = result.tests
    if tests is None:
        return []
    uncollected: set[str] = set()
    for name, ending in tests.endings.items():
        # The id of a file alone stands for a file that failed as a whole.
        if ending == "failed" and "::" not in name:
            uncollected.add(name)
    names = [name for name in spec.fixes if not _endings_of(name, tests)]
    return [name for name in names if name.partition("::")[0] not in uncollected]


def files_of_tests(result: ValidatorResult, spec: ValidatorSpec | None) -> set[str]:
    """Return the files of failing tests, and of the tests that `fixes` names.

    A failure in them is no error of the file.
    """
    names = [name for name in _failing(result) or () if "::" in name]
    if spec is not None:
        names += spec.fixes
    return {name.partition("::")[0] for name in names}


def _confirmed(first: ValidatorResult, again: ValidatorResult) -> CollectedTests | None:
    """Return the tests of a run, without failures that a second run does not have."""
    if first.tests is None or again.tests is None:
        return first.tests
    names = TestNames(skipped_at=dict(first.tests.skipped_at), whole=first.tests.whole)
    for name, ending in first.tests.endings.items():
        if ending == "failed":
            names.endings[name] = again.tests.endings.get(name, ending)
        else:
            names.endings[name] = ending
    return names.collected


def _is_complete(result: ValidatorResult) -> bool:
    """Return whether failing tests alone make a result red, and no test was cut off.

    A file that pytest could not collect is one of its failures.
    """
    tests = result.tests
    if tests is None or not result.suite.proves:
        return False
    if tests.whole:
        return True
    # pytest goes on after a file that it cannot collect, if told so.
    is_pytest = result.tests_run is not None and result.exit_code == _TESTS_FAILED
    return is_pytest and "" not in tests.endings.values()


def _failing(result: ValidatorResult | None) -> set[str] | None:
    if result is None or result.tests is None:
        return None
    return {name for name, ending in result.tests.endings.items() if ending == "failed"}


def _endings_of(name: str, tests: CollectedTests) -> list[Ending]:
    """Return the endings of the tests that a name of `fixes` means.

    It names a test, all variants of one, or all tests of a class or file.
    """
    beginnings = (f"{name}::", f"{name}[")
    return [
        ending
        for test, ending in tests.endings.items()
        if test == name or test.startswith(beginnings)
    ]


def _red(now: ValidatorResult, why: str) -> ValidatorResult:
    feedback = f"{why}.\n\n{now.feedback}".strip()
    return now.model_copy(
        update={"passed": False, "reason": "red", "summary": why, "feedback": feedback}
    )
