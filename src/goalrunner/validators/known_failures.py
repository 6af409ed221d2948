"""Suites that are red for other reasons: named tests must pass, and tests that failed at the baseline may go on failing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from goalrunner.core.errors import some
from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.core.runner_calls import WITH_NAMES
from goalrunner.core.verdict import CollectedTests, ValidatorResult
from goalrunner.validators.collected_tests import TestNames

_TESTS_FAILED = 1
"""The exit code of pytest if tests failed, and nothing else."""


def is_judged(spec: ValidatorSpec) -> bool:
    """Return whether the tests of a validator decide, rather than its exit code alone."""
    return bool(spec.fixes or spec.known_failures)


def judged(
    base: ValidatorResult | None, now: ValidatorResult, spec: ValidatorSpec
) -> ValidatorResult:
    """Return a result by its tests: green if those of `fixes` pass, and no other test fails that did not at the baseline.

    Without `known_failures`, the exit code must be the expected one as well. `base` is the result of the baseline.
    """
    if not is_judged(spec) or now.reason not in ("passed", "red") or now.cannot_run:
        return now
    if not now.passed and not (spec.known_failures and _is_complete(now)):
        return now
    tests = now.tests or CollectedTests(whole=False)
    absent = {name for name in spec.fixes if not _matching(name, tests)}
    unfixed = [
        f"{name} (not found)" if name in absent else name
        for name in spec.fixes
        if not _passes(name, tests)
    ]
    if unfixed:
        verb = "does" if len(unfixed) == 1 else "do"
        return _red(
            now,
            f"{len(unfixed)} of {len(spec.fixes)} tests to fix {verb} not pass: {some(unfixed)}",
        )
    if now.passed:
        return now
    known = _failing(base)
    if known is None:
        return _red(now, "the tests of the baseline are not known")
    if worse := sorted((_failing(now) or set()) - known):
        tests_fail = "1 test fails" if len(worse) == 1 else f"{len(worse)} tests fail"
        return _red(now, f"{tests_fail} that did not at the baseline: {some(worse)}")
    summary = f"{now.summary}; these failed before round 1, too"
    return now.model_copy(
        update={"passed": True, "reason": "passed", "summary": summary, "feedback": ""}
    )


def judged_at_start(
    first: ValidatorResult,
    again: ValidatorResult | None,
    spec: ValidatorSpec,
    folder: Path,
) -> ValidatorResult:
    """Return the result of the baseline. A failure is known only if it is one in a second run as well.

    `folder` is the workspace. What only a person can correct in the goal file makes the result one that cannot run.
    """
    if not is_judged(spec) or first.reason not in ("passed", "red") or first.cannot_run:
        return first
    if why := next(_mistakes(first, spec, folder), ""):
        update = {"passed": False, "reason": "red", "cannot_run": True, "summary": why}
        return first.model_copy(update=update)
    confirmed = (
        first
        if again is None
        else first.model_copy(update={"tests": _confirmed(first, again)})
    )
    return judged(confirmed, confirmed, spec)


def _mistakes(
    result: ValidatorResult, spec: ValidatorSpec, folder: Path
) -> Iterator[str]:
    """Yield what is wrong with `fixes` and `known_failures`."""
    key = "known_failures" if spec.known_failures else "fixes"
    tests = result.tests
    if tests is None:
        if result.passed or spec.known_failures:
            yield f"{key} needs the names of tests, which this command does not give; write one of {WITH_NAMES}"
        return
    if (
        spec.known_failures
        and not result.passed
        and tests.whole
        and not result.suite.proves
    ):
        yield 'known_failures needs a command that only runs tests; write that of the test runner: run = "pytest -q"'
    elif spec.known_failures and not result.passed and not _is_complete(result):
        how = "remove -x; add --continue-on-collection-errors (pytest) or --no-fail-fast (cargo)"
        yield f"known_failures needs a run of all tests, and this one did not run all; {how}"
    for name in spec.fixes:
        if not _matching(name, tests) and (why := _mistaken_name(name, tests, folder)):
            yield why


def _mistaken_name(name: str, tests: CollectedTests, folder: Path) -> str:
    """Return why a name of `fixes` is no name of a test; empty if the test may be one that is still to be written."""
    file, _, test = name.partition("::")
    same = [known for known in tests.endings if known.endswith(f"::{test or name}")]
    path = folder / file
    if not path.is_file():
        return (
            f'fixes: no test is named "{name}"; did you mean "{same[0]}"?'
            if same
            else ""
        )
    function = test.rpartition("::")[2].partition("[")[0]
    is_hidden = tests.endings.get(file) == "failed"
    if is_hidden or function not in path.read_text(encoding="utf-8", errors="replace"):
        return ""
    return f'fixes: "{name}" exists, but this command does not collect it'


def tests_to_come(result: ValidatorResult, spec: ValidatorSpec) -> list[str]:
    """Return the names of `fixes` that mean no test of a result. A file that cannot be collected may hold any of them."""
    tests = result.tests
    if tests is None:
        return []
    unread = {
        file
        for file, ending in tests.endings.items()
        if ending == "failed" and "::" not in file
    }
    names = (name for name in spec.fixes if not _matching(name, tests))
    return [name for name in names if name.partition("::")[0] not in unread]


def files_of_tests(result: ValidatorResult, spec: ValidatorSpec | None) -> set[str]:
    """Return the files of failing tests and of those that `fixes` names: a failure there is no error of the file."""
    names = {name for name in _failing(result) or () if "::" in name}.union(
        spec.fixes if spec is not None else ()
    )
    return {name.partition("::")[0] for name in names}


def _confirmed(first: ValidatorResult, again: ValidatorResult) -> CollectedTests | None:
    """Return the tests of a run, without failures that a second run does not have."""
    if first.tests is None or again.tests is None:
        return first.tests
    found = TestNames(skipped_at=dict(first.tests.skipped_at), whole=first.tests.whole)
    for name, ending in first.tests.endings.items():
        found.endings[name] = (
            again.tests.endings.get(name, ending) if ending == "failed" else ending
        )
    return found.collected


def _is_complete(result: ValidatorResult) -> bool:
    """Return whether the failures of tests are the only reason for a red result, and no test was cut off.

    A file that pytest could not collect is one of its failures.
    """
    tests = result.tests
    if tests is None or not result.suite.proves:
        return False
    is_pytest = result.tests_run is not None and result.exit_code == _TESTS_FAILED
    return tests.whole or (is_pytest and "" not in tests.endings.values())


def _failing(result: ValidatorResult | None) -> set[str] | None:
    if result is None or result.tests is None:
        return None
    return {name for name, ending in result.tests.endings.items() if ending == "failed"}


def _matching(name: str, tests: CollectedTests) -> list[str]:
    """Return the tests that a name of `fixes` means: a test, all variants of one, or all tests of a class or file."""
    return [
        known
        for known in tests.endings
        if known == name or known.startswith((f"{name}::", f"{name}["))
    ]


def _passes(name: str, tests: CollectedTests) -> bool:
    endings = [tests.endings[known] for known in _matching(name, tests)]
    return bool(endings) and all(ending == "passed" for ending in endings)


def _red(now: ValidatorResult, why: str) -> ValidatorResult:
    feedback = f"{why}.\n\n{now.feedback}".strip()
    return now.model_copy(
        update={"passed": False, "reason": "red", "summary": why, "feedback": feedback}
    )
