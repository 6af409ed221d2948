"""The tool `plan` in a conversation: the log, and the answer to the model."""

from __future__ import annotations

from pathlib import Path

from goalrunner.core import events
from goalrunner.core.outcome import GoalStatus
from tests.support.arena import Arena, Ending
from tests.support.recordings import shell


def plan(**arguments: object) -> dict[str, object]:
    return {"name": "plan", "arguments": arguments}


async def played(folder: Path, *steps: dict[str, object]) -> Ending:
    arena = Arena(folder)
    arena.write({"a.txt": "one\n"})
    return await arena.fight(steps, validators=[{"name": "made", "run": "test -e b.txt"}])


def plans(ending: Ending) -> list[events.PlanProposed]:
    return [record.event for record in ending.records if isinstance(record.event, events.PlanProposed)]


async def test_a_step_that_a_result_shows_is_completed_in_the_state(tmp_path: Path) -> None:
    ending = await played(
        tmp_path,
        plan(current="read a.txt", pending=["write b.txt"]),
        shell("cat a.txt"),
        plan(current="write b.txt", completed={"read a.txt": "o3"}, stop_reason="none yet"),
        shell("cp a.txt b.txt"),
    )
    assert ending.outcome.status is GoalStatus.COMPLETE
    first, second = plans(ending)
    assert (first.current, first.pending) == ("read a.txt", ("write b.txt",))
    assert (second.completed, second.refused, second.stop_reason) == ({"read a.txt": "o3"}, (), "none yet")
    assert "[o3] (exit 0)\\none" in ending.told()
    assert "The plan is kept: 1 completed, 0 pending." in ending.told()


async def test_a_step_that_no_result_shows_is_refused_and_named_to_the_model(tmp_path: Path) -> None:
    ending = await played(tmp_path, plan(completed={"all tests pass": "o77"}), shell("touch b.txt"))
    (kept,) = plans(ending)
    assert (kept.completed, kept.refused) == ({}, ("all tests pass",))
    assert "completed step 1 is not accepted: there is no result o77" in ending.told()


async def test_a_plan_is_written_before_its_result(tmp_path: Path) -> None:
    ending = await played(tmp_path, plan(current="x"), shell("touch b.txt"))
    kinds = [record.event.type for record in ending.records]
    assert kinds.index("tool_called") < kinds.index("plan_proposed") < kinds.index("tool_result_recorded")


async def test_evidence_that_is_no_id_is_refused_with_the_arguments(tmp_path: Path) -> None:
    ending = await played(tmp_path, plan(completed={"done": "43 passed"}), shell("touch b.txt"))
    assert plans(ending) == []
    result = next(record.event for record in ending.records if isinstance(record.event, events.ToolResultRecorded))
    assert result.observation.facts == ("error",)
    assert "Valid arguments of plan: " in ending.told()
