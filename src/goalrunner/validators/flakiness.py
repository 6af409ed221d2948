"""Checks that contradict themselves: red and green on the same content. Owns the rule; runs none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goalrunner.model.validation import ValidatorResult


def flaky(results_by_tree: Mapping[str, Sequence[ValidatorResult]]) -> tuple[str, ...]:
    """Names of the validators that were both red and green on one tree, sorted.

    The keys say what was checked and where: results of the workspace and of a clean checkout belong under two keys, for
    a difference between those has other causes. Each result is the one after all its retries.
    """
    found: set[str] = set()
    for results in results_by_tree.values():
        green = {result.name for result in results if result.passed}
        found |= {result.name for result in results if not result.passed and result.name in green}
    return tuple(sorted(found))
