"""Results of validators at a revision are added to the trail of a transcript."""

from __future__ import annotations

from dataclasses import replace

from goalrunner.audits.revision_checks import RevisionChecks
from goalrunner.core.observation import Observation, UserText, trail_with
from goalrunner.core.verdict import ValidatorResult


def test_what_is_outdated_and_what_a_person_wrote_stay_known() -> None:
    observed = Observation(id="o1", source="shell", command="pytest", round=1)
    outdated = {"o1": "a.py changed after o1"}
    wrote = (UserText(1, "keep the API"),)
    trail = replace(trail_with([(observed, "3 passed")]), stale=outdated, said=wrote)
    result = ValidatorResult(name="tests", passed=True, command="pytest")
    added = RevisionChecks((result,), ("4 passed",)).added_to(trail)
    assert [item.round for item in added.items] == [1, 1]
    assert added.read(added.items[0]) == "3 passed"
    assert added.read(added.items[1]) == "4 passed"
    assert added.stale == outdated
    assert added.said == wrote
