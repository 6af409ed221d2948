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
    return await arena.fight(
        steps, validators=[{"name": "made", "run": "test -e b.txt"}]
    )


async def test_a_plan_is_kept_before_its_result_and_the_model_reads_what_is_accepted(
    tmp_path: Path,
) -> None:
    ending = await played(
        tmp_path,
        plan(current="read a.txt", pending=["write b.txt"]),
        shell("cat a.txt"),
        plan(
            completed={"read a.txt": "o3", "all tests pass": "o77"},
            stop_reason="none yet",
        ),
        plan(completed={"done": "43 passed"}),
        shell("cp a.txt b.txt"),
    )
    assert ending.outcome.status is GoalStatus.COMPLETE
    first, second = [
        record.event
        for record in ending.records
        if isinstance(record.event, events.PlanProposed)
    ]
    assert (first.current, first.pending) == ("read a.txt", ("write b.txt",))
    assert (second.completed, second.refused) == (
        {"read a.txt": "o3"},
        ("all tests pass",),
    )
    assert "completed step 2 is not accepted: there is no result o77" in ending.told()
    assert "Valid arguments of plan: " in ending.told()
    kinds = [record.event.type for record in ending.records]
    assert (
        kinds.index("tool_called")
        < kinds.index("plan_proposed")
        < kinds.index("tool_result_recorded")
    )
