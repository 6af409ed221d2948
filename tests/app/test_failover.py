"""Runs in which another agent takes over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner.app import session
from goalrunner.app.run_options import RunOptions
from goalrunner.core.agent_preset import Preset
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome
from goalrunner.records.event_log import read_records
from tests.support.command_line import WITH_PLAIN
from tests.support.external import preset
from tests.support.logs import read_messages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

SIGNED_OUT = """
print("please run double login", file=sys.stderr)
sys.exit(1)
"""


@pytest.fixture(autouse=True)
def _plain_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(WITH_PLAIN["PYTHONPATH"])


def double(root: Path, name: str, body: str, **more: Any) -> Preset:
    """An agent of that name whose state lies in a folder of its own."""
    folder = root / name
    folder.mkdir()
    return preset(folder, body, **more).model_copy(update={"env": {"STATE": str(folder)}})


def goal(root: Path, agents: dict[str, Preset], **more: Any) -> Goal:
    """To make the file `done` hold a 3; the agents take over in the order of the table."""
    place = root / "place"
    place.mkdir()
    table = {
        "objective": "make done hold a 3",
        "validator": "grep -q 3 done",
        "workspace": {"path": str(place)},
        "agent": list(agents),
        "agents": agents,
    }
    return Goal.model_validate(table | more)


async def run(goal: Goal, root: Path) -> tuple[GoalOutcome, list[Any]]:
    """Run it; gives the outcome and the events."""
    outcome = await session.arun(goal, RunOptions(home=root / "home"))
    return outcome, [record.event for record in read_records(Path(outcome.run_path) / "events.jsonl")]


def prompts(outcome: GoalOutcome) -> list[str]:
    messages = read_messages(Path(outcome.run_path) / "transcript.jsonl")
    return [str(one["content"]) for one in messages if one["role"] == "user"]


async def test_the_next_agent_takes_over_from_one_that_is_signed_out(tmp_path: Path) -> None:
    works = 'Path("done").write_text("3"); say("usage", input=10, output=5, cost=0.5); say("text", text="finished")'
    agents = {"first": double(tmp_path, "first", SIGNED_OUT), "second": double(tmp_path, "second", works)}
    outcome, events = await run(goal(tmp_path, agents), tmp_path)
    assert (outcome.status, outcome.iterations) == ("complete", 1), outcome.message
    (switched,) = [event for event in events if event.type == "agent_switched"]
    assert (switched.round, switched.index, switched.agent, switched.before) == (1, 1, "second", "first")
    assert "no valid key or login" in switched.reason
    assert "agents: first, second" in outcome.labels
    assert outcome.agent_usage["second"].tokens == 15
    assert outcome.agent_usage["first"].tokens == 0
    assert outcome.models["agent"] == "first, then second"
    assert len(set(prompts(outcome))) == 1
