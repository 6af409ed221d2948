"""Turns that are cut by a time limit, of the turn or of the run: what is there is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner import arun_goal, chat_conversation, run_goal
from goalrunner.app import session
from goalrunner.app.run_options import RunOptions
from goalrunner.core import events
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AgentConfig, ValidatorSpec, WorkspaceConfig
from goalrunner.core.outcome import GoalOutcome
from goalrunner.records.event_log import read_records
from goalrunner.records.run_search import find_run
from tests.support.recordings import agent, judge, recording, shell

pytestmark = pytest.mark.timeout(60)


def goal(place: Path, config: AgentConfig, **more: object) -> Goal:
    """A goal that is met once the file `done` is there."""
    check = ValidatorSpec(name="done", run="test -e done")
    workspace = WorkspaceConfig(path=str(place))
    given = {
        "objective": "make done",
        "validators": (check,),
        "workspace": workspace,
        "agent": config,
        **more,
    }
    return Goal.model_validate(given)


def finished(outcome: GoalOutcome) -> list[tuple[str, str]]:
    """How each turn ended, and why."""
    records = read_records(Path(outcome.run_path) / "events.jsonl")
    ends = [one.event for one in records if isinstance(one.event, events.RoundFinished)]
    return [(end.reason, end.ending) for end in ends]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


async def test_the_run_is_complete_if_the_goal_is_met_when_its_time_is_over(
    place: Path, tmp_path: Path
) -> None:
    hangs = AgentConfig(use="command", command=("touch done; sleep 60",))
    outcome = await session.arun(
        goal(place, hangs, timeout=3), RunOptions(home=tmp_path / "home")
    )
    assert (outcome.status, outcome.iterations) == ("complete", 1)
    assert finished(outcome) == [("interrupted", "the time limit of 3 s")]
    assert outcome.duration < 20


async def test_a_turn_that_changed_nothing_is_not_checked_at_the_limit(
    place: Path, tmp_path: Path
) -> None:
    hangs = AgentConfig(use="command", command=("sleep 60",))
    outcome = await session.arun(
        goal(place, hangs, timeout=3), RunOptions(home=tmp_path / "home")
    )
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        "capped",
        "timeout",
        0,
    )
    assert finished(outcome) == []


async def test_a_turn_ends_at_its_own_limit_and_the_next_one_goes_on(
    place: Path, tmp_path: Path
) -> None:
    line = "test -e begun && touch done && exit; touch begun; sleep 60"
    slow = AgentConfig(use="command", command=(line,), turn_timeout=2)
    outcome = await session.arun(goal(place, slow), RunOptions(home=tmp_path / "home"))
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert finished(outcome) == [
        ("interrupted", "the turn's time limit of 2 s"),
        ("answered", ""),
    ]
    transcript = (Path(outcome.run_path) / "transcript.jsonl").read_text()
    assert (
        "Your last turn ended before you had finished: the turn's time limit of 2 s."
        in transcript
    )


def test_the_built_in_agent_goes_on_after_a_turn_that_was_cut(
    place: Path, tmp_path: Path
) -> None:
    turns = (
        agent("", shell("touch begun; sleep 60")),
        agent("", shell("touch done")),
        agent("made it"),
    )
    conversation = chat_conversation(
        recording(tmp_path / "r.jsonl", *turns), workspace=place
    )
    outcome = run_goal(
        conversation, goal(place, AgentConfig(turn_timeout=2)), home=tmp_path / "home"
    )
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert finished(outcome)[0] == ("interrupted", "the turn's time limit of 2 s")
    roles = [message["role"] for message in conversation.messages]
    assert roles == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    records = read_records(Path(outcome.run_path) / "events.jsonl")
    results = [
        one.event.observation.facts
        for one in records
        if isinstance(one.event, events.ToolResultRecorded)
    ]
    assert results == [("interrupted",), ("exit 0",)]


class Slow:
    """A conversation of a calling program that never answers, and records nothing."""

    def __init__(self, place: Path) -> None:
        self.messages: list[dict[str, str]] = []
        self.place = place

    async def send(self, prompt: str) -> str:
        import asyncio

        self.messages.append({"role": "user", "content": prompt})
        if (self.place / "begun").exists():
            (self.place / "done").touch()
            return "done"
        (self.place / "begun").touch()
        await asyncio.sleep(60)
        return "never"


async def test_a_turn_of_a_programs_own_conversation_is_cut(
    place: Path, tmp_path: Path
) -> None:
    outcome = await arun_goal(
        Slow(place), goal(place, AgentConfig(turn_timeout=1)), home=tmp_path / "home"
    )
    assert (outcome.status, outcome.iterations) == ("complete", 2)
    assert finished(outcome) == [
        ("interrupted", "the turn's time limit of 1 s"),
        ("answered", ""),
    ]


async def test_a_turn_in_a_thread_cannot_be_cut(place: Path) -> None:
    class Threaded:
        messages: tuple[()] = ()

        def send(self, prompt: str) -> str:
            return prompt

    with pytest.raises(
        UsageError,
        match=r"turn_timeout cannot be enforced: Threaded\.send is not async",
    ):
        await arun_goal(Threaded(), goal(place, AgentConfig(turn_timeout=1)))


async def test_a_run_whose_agent_falls_silent_after_the_fix_is_complete(
    place: Path, tmp_path: Path
) -> None:
    silent = AgentConfig(
        use="command", command=("touch done; sleep 60",), idle_timeout=1
    )
    outcome = await session.arun(
        goal(place, silent), RunOptions(home=tmp_path / "home")
    )
    assert (outcome.status, outcome.iterations) == ("complete", 1)
    assert finished(outcome) == [("interrupted", "no output for 1 s")]
    assert outcome.duration < 10


USED = {"input_tokens": 90, "output_tokens": 10, "cost_usd": 0.0}


def spending(folder: Path, *more: dict[str, Any]) -> str:
    """A model that makes `done` with its first call and goes on; each call uses 100 tokens."""
    commands = ("touch done", "sleep 0", "sleep 0")
    calls = (agent("", shell(command), usage=USED) for command in commands)
    return recording(folder / "r.jsonl", *calls, agent("made it", usage=USED), *more)


def test_a_turn_that_the_budget_cuts_is_checked(place: Path, tmp_path: Path) -> None:
    conversation = chat_conversation(spending(tmp_path), workspace=place)
    outcome = run_goal(
        conversation, goal(place, AgentConfig()), tokens=150, home=tmp_path / "home"
    )
    assert (outcome.status, outcome.iterations, outcome.labels) == ("complete", 1, ())
    assert finished(outcome) == [("interrupted", "its budget is spent")]


def test_a_spent_budget_allows_no_audit_of_green_validators(
    place: Path, tmp_path: Path
) -> None:
    conversation = chat_conversation(spending(tmp_path, judge()), workspace=place)
    wanted = goal(place, AgentConfig())
    outcome = run_goal(
        conversation, wanted, "agent", tokens=150, home=tmp_path / "home"
    )
    assert (outcome.status, outcome.stop_reason) == ("capped", "budget_exhausted")
    assert "validators green, not audited" in outcome.labels
    assert outcome.usage["agent"].tokens == 200
    assert "judge" not in outcome.usage


async def test_a_run_whose_last_check_is_red_is_capped_and_goes_on_with_a_higher_limit(
    place: Path, tmp_path: Path
) -> None:
    line = "test -e begun && touch done && exit; touch begun; sleep 60"
    hangs = AgentConfig(use="command", command=(line,))
    options = RunOptions(home=tmp_path / "home")
    capped = await session.arun(goal(place, hangs, timeout=3), options)
    assert (capped.status, capped.stop_reason, capped.iterations) == (
        "capped",
        "timeout",
        1,
    )
    assert (
        capped.message
        == "the time limit of 3 s was reached while the agent of round 1 ran"
    )
    assert capped.verdict is not None
    assert "done" in capped.verdict.missing
    folder = find_run(options.home, capped.run_id)
    outcome = await session.resume_run(folder, options, {"timeout": 60.0})
    assert (outcome.status, outcome.iterations) == ("complete", 2)
