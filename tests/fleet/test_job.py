from __future__ import annotations

import pytest

from goalrunner import Goal
from goalrunner.fleet.job import with_sandbox


@pytest.mark.parametrize("of_goal", ["auto", "bwrap", "none"])
def test_a_worker_with_a_sandbox_uses_it_for_every_goal(of_goal: str) -> None:
    goal = Goal(objective="x", validator="true", workspace={"sandbox": of_goal})
    assert with_sandbox(goal, "bwrap").workspace.sandbox == "bwrap"
    assert with_sandbox(goal, "none").workspace.sandbox == of_goal
