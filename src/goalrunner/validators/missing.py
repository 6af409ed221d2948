"""Protected tests that no longer run. Owns the comparison of two results' tests; runs none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from goalrunner.model.validation import TEST_IDS, ValidatorResult

_NAMED = 5
"""Tests that a refusal names."""


def missing_tests(base: ValidatorResult, now: ValidatorResult, protected: Callable[[str], bool]) -> tuple[str, ...]:
    """The tests in protected files that passed or failed at the base and neither pass nor fail now, sorted.

    `protected` is asked with a file's path, relative to the workspace. Variants of a parametrised test may have other
    names as long as there are no fewer of them. A file that could not be collected at the base must have some test now.
    """
    there = set(now.test_ids)
    files = {_file(identifier) for identifier in there}
    functions = {_function(identifier) for identifier in there}
    variants = Counter(_function(identifier) for identifier in there)
    before = Counter(_function(identifier) for identifier in base.test_ids)
    # Of very many tests only the first are known: what would come behind them cannot be missed.
    end = now.test_ids[-1] if len(now.test_ids) >= TEST_IDS else None
    return tuple(
        identifier
        for identifier in base.test_ids
        if identifier not in there
        and identifier not in functions
        and (end is None or identifier <= end)
        and protected(_file(identifier))
        and not ("::" not in identifier and identifier in files)
        and not ("[" in identifier and variants[_function(identifier)] >= before[_function(identifier)])
    )


def without_missing(now: ValidatorResult, missing: tuple[str, ...]) -> ValidatorResult:
    """The result, red where protected tests are missing in it; the reason names them."""
    if not missing:
        return now
    named = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
    count = f"{len(missing)} protected test{'' if len(missing) == 1 else 's'}"
    feedback = (
        f"{count} of the start did not run: {named}.\nTests in protected files must all run again: none may be skipped, "
        "deselected or expected to fail. If they are to change, the goal file must say so: [workspace] allow."
    )
    summary = f"{count} did not run: {missing[0]}{', ...' if len(missing) > 1 else ''}"
    return now.model_copy(update={"passed": False, "reason": "red", "summary": summary, "feedback": feedback})


def _file(identifier: str) -> str:
    return identifier.partition("::")[0]


def _function(identifier: str) -> str:
    """A test without its parameters."""
    file, mark, rest = identifier.partition("::")
    return f"{file}{mark}{rest.partition('[')[0]}"
