"""What the baseline shows of the checks: the files that tests were collected from, and the programs that were started."""

from __future__ import annotations

from collections.abc import Iterable

from goalrunner.checking.protection import ObservedChecks
from goalrunner.core.verdict import ValidatorResult


def observed_checks(results: Iterable[ValidatorResult], tools: Iterable[str] = ()) -> ObservedChecks:
    """Return what the results of the baseline show; `tools` are the programs that the validators start."""
    ids = [
        identifier for result in results for identifier in (result.tests.endings if result.tests else result.test_ids)
    ]
    files = (identifier.partition("::")[0] for identifier in ids if "::test" in identifier.lower())
    return ObservedChecks(frozenset(path for path in files if path.endswith(".py")), tools=frozenset(tools))
