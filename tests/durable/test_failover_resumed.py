"""A run in which another agent took over, killed there and resumed."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.support.command_line import WITH_PLAIN
from tests.support.durable_goal import Goal
from tests.support.external import program

pytestmark = pytest.mark.slow

FIRST = """
rounds()
say("session", id="s-first")
say("usage", input=100, output=0, cost=0.25)
say("text", text="I have looked around.")
say("error", message="please run double login")
"""
SECOND = """
number = rounds()
Path(os.environ["STATE"], f"turn-{number}.json").write_text(json.dumps({"asked": asked, "prompt": prompt}))
say("session", id="s-second")
say("call", id=f"c{number}", tool="Bash", command="echo 3 > done")
Path("done").write_text("3")
say("result", id=f"c{number}", output="", exit_code=0)
say("usage", input=10, output=0, cost=0.5)
say("text", text="It is done.")
"""
AGENT = """
[agents.{name}]
argv = {argv}
resume = {resume}
stream = "plain"
reports = {{ tokens = "turn", cost_usd = "turn" }}
denied = ["run double login"]
env = {{ STATE = "{state}" }}
"""
SWITCHED_AND_AFTER = (
    "agent_switched",
    "message",
    "session_opened",
    "tool_called",
    "tool_result_recorded",
)


@pytest.fixture
def chain(goal: Goal) -> Goal:
    """A goal whose first agent is signed out in round 1."""
    text = 'objective = "make done hold a 3"\nvalidator = "grep -q 3 done"\nagent = ["first", "second"]\n'
    for name, body in (("first", FIRST), ("second", SECOND)):
        folder = goal.root / name
        folder.mkdir()
        argv = list(program(folder, body))
        assert argv[0] == sys.executable
        resume = [*argv, "--resume", "{session}"]
        text += AGENT.format(
            name=name, argv=json.dumps(argv), resume=json.dumps(resume), state=folder
        )
    goal.write(text)
    return goal


def turns(goal: Goal, name: str) -> int:
    """How often the program of an agent was started."""
    path = goal.root / name / "rounds"
    return int(path.read_text()) if path.exists() else 0


def turn(goal: Goal, number: int) -> dict[str, Any]:
    """What the second agent was given at one of its starts."""
    given: dict[str, Any] = json.loads(
        (goal.root / "second" / f"turn-{number}.json").read_text()
    )
    return given


def test_a_run_that_is_killed_goes_on_with_the_agent_that_took_over(
    chain: Goal,
) -> None:
    assert chain.run(env=WITH_PLAIN).code == 0
    records = chain.records()
    began = next(
        record.seq for record in records if record.event.type == "agent_switched"
    )
    kinds: list[str] = [record.event.type for record in records if record.seq >= began]
    places = [began + kinds.index(kind) for kind in SWITCHED_AND_AFTER]
    for place, kind in zip(places, SWITCHED_AND_AFTER, strict=True):
        before = turns(chain, "first"), turns(chain, "second")
        for path in chain.work.iterdir():
            path.unlink()
        assert chain.run(kill=("after", place), env=WITH_PLAIN).code == -9
        ended = chain.resume(env=WITH_PLAIN)
        assert ended.code == 0, (kind, ended)
        assert turns(chain, "first") == before[0] + 1, kind
        number = turns(chain, "second")
        own_session = kinds.index(kind) >= kinds.index("session_opened")
        assert turn(chain, number)["asked"] == (
            ["--resume", "s-second"] if own_session else []
        ), kind
        if not own_session:
            assert "I have looked around." in turn(chain, number)["prompt"], kind
        outcome = chain.outcome()
        assert outcome["labels"][0] == "agents: first, second"
        assert outcome["agent_usage"]["first"]["input_tokens"] == 100
        assert outcome["agent_usage"]["second"]["input_tokens"] >= 10
        assert chain.command("verify").code == 0


def test_the_screen_names_the_agents_who_took_over_and_what_each_used(
    chain: Goal,
) -> None:
    ended = chain.run(env=WITH_PLAIN)
    lines = [" ".join(line.split()) for line in (ended.out + ended.err).splitlines()]
    assert any(line.startswith("agent first, then second") for line in lines), lines
    (taken,) = [line for line in lines if "takes over" in line]
    assert "agent second takes over (first: has no valid key or login" in taken.replace(
        "! ", ""
    )
    assert any(line == "agents first · 100 tokens · $0.25" for line in lines), lines
    assert any(line == "second · 10 tokens · $0.50" for line in lines), lines
