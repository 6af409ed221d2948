"""Runs in which another agent takes over."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goalrunner.app import session
from goalrunner.app.readiness import readiness, run_notes
from goalrunner.app.resolve import resolve
from goalrunner.app.run_options import Callback, RunOptions
from goalrunner.core.agent_preset import Preset
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome
from goalrunner.records.event_log import read_records
from tests.support.acp_bench import AcpBench
from tests.support.command_line import WITH_PLAIN
from tests.support.external import preset
from tests.support.logs import read_messages
from tests.support.sandboxes import needs_sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

SIGNED_OUT = """
Path(os.environ["STATE"], "ran").touch()
say("error", message="please run double login")
sys.exit(1)
"""
WORKS = """
state = Path(os.environ["STATE"])
state.joinpath("prompt").write_text(prompt)
state.joinpath("environ").write_text(json.dumps(dict(os.environ)))
Path("done").write_text("3")
say("usage", input=10, output=5, cost=0.5)
say("text", text="finished")
"""


@pytest.fixture(autouse=True)
def _plain_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(WITH_PLAIN["PYTHONPATH"])


def double(root: Path, name: str, body: str, **more: Any) -> Preset:
    """An agent of that name whose state lies in a folder of its own."""
    folder = root / name
    folder.mkdir()
    return preset(folder, body, **more).model_copy(
        update={"env": {"STATE": str(folder)}}
    )


def goal(root: Path, agents: dict[str, Preset], **more: Any) -> Goal:
    """To make the file `done` hold a 3; the agents take over in the order of the table."""
    place = root / "place"
    place.mkdir(exist_ok=True)
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
    return outcome, [
        record.event for record in read_records(Path(outcome.run_path) / "events.jsonl")
    ]


def prompts(outcome: GoalOutcome) -> list[str]:
    messages = read_messages(Path(outcome.run_path) / "transcript.jsonl")
    return [str(one["content"]) for one in messages if one["role"] == "user"]


def state_of(root: Path, name: str, file: str) -> str:
    """What a double left in its folder."""
    return (root / name / file).read_text()


def switches(events: list[Any]) -> list[tuple[int, str, str]]:
    return [
        (event.round, event.before, event.agent)
        for event in events
        if event.type == "agent_switched"
    ]


async def test_the_next_agent_takes_over_from_one_that_is_signed_out(
    tmp_path: Path,
) -> None:
    agents = {
        "first": double(tmp_path, "first", SIGNED_OUT),
        "second": double(tmp_path, "second", WORKS),
    }
    outcome, events = await run(goal(tmp_path, agents), tmp_path)
    assert (outcome.status, outcome.iterations) == ("complete", 1), outcome.message
    (switched,) = [event for event in events if event.type == "agent_switched"]
    assert (switched.round, switched.index, switched.agent, switched.before) == (
        1,
        1,
        "second",
        "first",
    )
    assert switched.reason.startswith("has no valid key or login")
    assert "agents: first, second" in outcome.labels
    assert {name: usage.tokens for name, usage in outcome.agent_usage.items()} == {
        "first": 0,
        "second": 15,
    }
    assert outcome.models["agent"] == "first, then second"
    assert len(set(prompts(outcome))) == 1
    assert state_of(tmp_path, "second", "prompt") == prompts(outcome)[0]


async def test_an_agent_that_works_is_not_replaced(tmp_path: Path) -> None:
    agents = {
        "first": double(tmp_path, "first", WORKS),
        "second": double(tmp_path, "second", SIGNED_OUT),
    }
    outcome, events = await run(goal(tmp_path, agents), tmp_path)
    assert (outcome.status, switches(events), outcome.agent_usage) == (
        "complete",
        [],
        {},
    )
    assert not any(label.startswith("agents") for label in outcome.labels)
    assert not (tmp_path / "second" / "ran").exists()


async def test_the_next_agent_reads_what_the_one_before_said_and_stays_for_later_rounds(
    tmp_path: Path,
) -> None:
    first = """
        say("session", id="s-first")
        say("usage", input=7, output=1, cost=0.25)
        if rounds() == 1:
            say("text", text="I wrote half of it")
        else:
            say("error", message="please run double login")
    """
    second = """
        number = rounds()
        Path(os.environ["STATE"], f"prompt-{number}").write_text(prompt)
        Path(os.environ["STATE"], f"asked-{number}").write_text(" ".join(asked))
        if number == 2:
            Path("done").write_text("3")
        say("session", id="s-second")
        say("usage", input=10, output=5, cost=0.5)
        say("text", text="finished")
    """
    agents = {
        "first": double(tmp_path, "first", first, resumes=True),
        "second": double(tmp_path, "second", second, resumes=True),
    }
    outcome, events = await run(goal(tmp_path, agents), tmp_path)
    assert (outcome.status, outcome.iterations) == ("complete", 3), outcome.message
    assert switches(events) == [(2, "first", "second")]
    begun = state_of(tmp_path, "second", "prompt-1")
    assert begun.startswith("Another agent has worked on this before you")
    assert "The agent:\n> I wrote half of it" in begun
    assert begun.count(prompts(outcome)[1]) == 1
    assert state_of(tmp_path, "second", "asked-1") == ""
    assert state_of(tmp_path, "second", "asked-2") == "--resume s-second"
    assert "I wrote half of it" not in state_of(tmp_path, "second", "prompt-2")
    spent = {
        name: (usage.tokens, usage.cost_usd)
        for name, usage in outcome.agent_usage.items()
    }
    assert spent == {"first": (16, 0.5), "second": (30, 1.0)}
    assert (outcome.usage["agent"].tokens, outcome.usage["agent"].cost_usd) == (46, 1.5)


async def test_the_end_names_all_that_failed(tmp_path: Path) -> None:
    agents = {name: double(tmp_path, name, SIGNED_OUT) for name in ("first", "second")}
    outcome, events = await run(goal(tmp_path, agents), tmp_path)
    assert (outcome.status, outcome.stop_reason, outcome.exit_code) == (
        "failed",
        "authentication",
        4,
    )
    assert switches(events) == [(1, "first", "second")]
    assert outcome.message.startswith("the agent second has no valid key or login")
    assert "first could not go on either: has no valid key or login" in outcome.message


async def test_a_budget_counts_what_all_agents_used(tmp_path: Path) -> None:
    first = 'say("usage", input=60, output=0, cost=0); say("error", message="please run double login")'
    second = 'say("usage", input=60, output=0, cost=0); say("text", text="not done")'
    agents = {
        "first": double(tmp_path, "first", first),
        "second": double(tmp_path, "second", second),
    }
    outcome, _ = await run(goal(tmp_path, agents, budget={"tokens": 100}), tmp_path)
    assert (outcome.status, outcome.stop_reason) == ("capped", "budget_exhausted")
    assert "120 of 100 tokens are spent" in outcome.message


async def test_each_agent_has_its_own_key_and_not_that_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_KEY", "SECOND_KEY"):
        monkeypatch.setenv(name, f"value-of-{name}")
    agents = {
        "first": double(tmp_path, "first", SIGNED_OUT).model_copy(
            update={"keys": ("FIRST_KEY",)}
        ),
        "second": double(tmp_path, "second", WORKS).model_copy(
            update={"keys": ("SECOND_KEY",)}
        ),
    }
    agent = {"use": list(agents), "env": {"OF_FIRST": "1"}}
    outcome, _ = await run(goal(tmp_path, agents, agent=agent), tmp_path)
    environ = json.loads(state_of(tmp_path, "second", "environ"))
    assert (outcome.status, environ["SECOND_KEY"]) == (
        "complete",
        "value-of-SECOND_KEY",
    )
    assert not {"FIRST_KEY", "OF_FIRST"} & environ.keys()


def errors(goal: Goal, root: Path, at_work: int = 0) -> list[str]:
    """Why a run does not start."""
    config = replace(resolve(goal, RunOptions(home=root / "home")), at_work=at_work)
    return [
        str(finding.error) for finding in readiness(config) if finding.error is not None
    ]


@pytest.mark.parametrize(
    ("lacks", "goals", "said"),
    [
        (
            {"argv": ("no-such-program", "x")},
            {},
            "the agent second cannot be started: no-such-program: not found",
        ),
        (
            {"reports": {}},
            {"budget": {"tokens": 5}},
            "second does not report its tokens",
        ),
        (
            {"argv": ("sh", "-c", "true"), "acp": ()},
            {"approvals": {"require": ["shell"]}},
            'second, driven by its command line, does not ask before it acts, so require = ["shell"] cannot be enforced',
        ),
    ],
)
def test_an_agent_that_could_not_take_over_is_an_error_before_round_1(
    lacks: dict[str, Any], goals: dict[str, Any], said: str, tmp_path: Path
) -> None:
    first = double(tmp_path, "first", WORKS)
    asking = first.model_copy(
        update={
            "argv": (),
            "acp": first.argv,
            "acp_reports": {"tokens": "turn"},
            "reports": {},
        }
    )
    agents = {
        "first": asking,
        "second": double(tmp_path, "second", WORKS).model_copy(update=lacks),
    }
    (error,) = errors(goal(tmp_path, agents, **goals), tmp_path)
    assert error.startswith(said)


def test_an_agent_that_has_given_up_is_not_needed_any_more(tmp_path: Path) -> None:
    gone = double(tmp_path, "first", WORKS).model_copy(
        update={"argv": ("no-such-program", "x")}
    )
    wanted = goal(
        tmp_path, {"first": gone, "second": double(tmp_path, "second", WORKS)}
    )
    assert errors(wanted, tmp_path)
    assert errors(wanted, tmp_path, at_work=1) == []


def test_findings_name_the_agent_if_there_are_several(tmp_path: Path) -> None:
    agents = {
        name: double(tmp_path, name, WORKS).model_copy(
            update={"keys": (f"{name.upper()}_KEY",)}
        )
        for name in ("first", "second")
    }
    config = resolve(goal(tmp_path, agents), RunOptions(home=tmp_path / "home"))
    names = [finding.name for finding in readiness(config)]
    assert [name for name in names if " " in name] == [
        "first program",
        "first sign-in",
        "second program",
        "second sign-in",
    ]
    notes = run_notes(readiness(config), config)
    assert [note.partition(":")[0] for note in notes if "KEY" in note] == [
        "first is not signed in",
        "second is not signed in",
    ]


def speaker(root: Path, name: str, *turns: list[Any]) -> tuple[Preset, AcpBench]:
    """An agent of that name that speaks ACP, and what it was sent."""
    folder = root / name
    folder.mkdir()
    bench = AcpBench(folder, *turns)
    return Preset(acp=bench.command, acp_reports={"tokens": "turn"}), bench


async def test_a_program_that_is_gone_in_the_middle_of_a_run_is_replaced(
    tmp_path: Path,
) -> None:
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\nrm "$0"\necho I did one half\n')
    tool.chmod(0o755)
    agents = {
        "first": Preset(argv=(str(tool), "go")),
        "second": double(tmp_path, "second", WORKS),
    }
    outcome, events = await run(goal(tmp_path, agents), tmp_path)
    assert (outcome.status, switches(events)) == (
        "complete",
        [(2, "first", "second")],
    ), outcome.message
    assert "> I did one half" in state_of(tmp_path, "second", "prompt")


@pytest.mark.parametrize("protocol", ["acp", None])
async def test_an_agent_that_speaks_acp_takes_over_in_a_session_of_its_own(
    protocol: str | None, tmp_path: Path
) -> None:
    first = 'say("text", text="half of it") if rounds() == 1 else say("error", message="please run double login")'
    second, seen = speaker(
        tmp_path, "second", [["shell", "echo 3 > done"], ["say", "done"]]
    )
    if protocol:
        other, _ = speaker(
            tmp_path,
            "first",
            [["say", "half of it"]],
            [["refuse", -32000, "Authentication required"]],
        )
        agents = {"first": other, "second": second}
    else:
        agents = {"first": double(tmp_path, "first", first), "second": second}
    outcome, events = await run(goal(tmp_path, agents), tmp_path)
    assert (outcome.status, switches(events)) == (
        "complete",
        [(2, "first", "second")],
    ), outcome.message
    (prompt,) = seen.prompts()
    assert prompt.startswith("Another agent has worked on this before you")
    assert "The agent:\n> half of it" in prompt
    opened = [event.session.agent for event in events if event.type == "session_opened"]
    assert opened[-1] == "second"


async def test_a_person_decides_on_the_actions_of_the_agent_that_took_over(
    tmp_path: Path,
) -> None:
    call = {"toolCallId": "c1", "kind": "execute", "title": "`echo 3 > done`"}
    asks = [
        "ask",
        call,
        ["allow_once", "reject_once"],
        [["shell", "echo 3 > done"]],
        [],
    ]
    first, _ = speaker(
        tmp_path, "first", [["refuse", -32000, "Authentication required"]]
    )
    second, _ = speaker(tmp_path, "second", [asks, ["say", "done"]])
    wanted = goal(
        tmp_path, {"first": first, "second": second}, approvals={"require": ["shell"]}
    )
    outcome, events = await run(wanted, tmp_path)
    assert (outcome.status, outcome.stop_reason) == ("blocked", "approval_required")
    assert switches(events) == [(1, "first", "second")]
    assert not (tmp_path / "place" / "done").exists()


@needs_sandbox
async def test_the_next_agent_is_in_the_same_sandbox_and_sees_its_own_files_of_home_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, place = tmp_path / "user", tmp_path / "place"
    writes = 'import pathlib; pathlib.Path.home().joinpath("cache").touch(); '
    looks = 'import pathlib; print([str(path) for path in pathlib.Path.home().rglob("*")]); open("done", "w").write("3")'
    agents = {}
    for name, source in (
        ("first", writes + 'print("please run double login"); exit(1)'),
        ("second", looks),
    ):
        (user / f".{name}").mkdir(parents=True)
        (user / f".{name}" / "key").touch()
        script = place / f"{name}.py"
        place.mkdir(exist_ok=True)
        script.write_text(source)
        agents[name] = Preset(
            argv=(sys.executable, str(script)),
            home=(f".{name}",),
            denied=("run double login",),
        )
    monkeypatch.setenv("HOME", str(user))
    workspace = {"path": str(place), "sandbox": "auto"}
    outcome, events = await run(goal(tmp_path, agents, workspace=workspace), tmp_path)
    assert (outcome.status, switches(events)) == (
        "complete",
        [(1, "first", "second")],
    ), outcome.message
    messages = read_messages(Path(outcome.run_path) / "transcript.jsonl")
    said = [str(one["content"]) for one in messages if one["role"] == "assistant"]
    assert str(user / ".second" / "key") in said[-1]
    assert str(user / ".first" / "key") not in said[-1]
    assert str(user / "cache") not in said[-1]


def used_up(root: Path) -> Preset:
    """An agent whose usage limit is reached, without a word about its end."""
    limited = double(
        root,
        "first",
        'say("usage", input=3, output=0, cost=0.1); rounds(); sys.exit(75)',
    )
    return limited.model_copy(update={"exit_codes": {75: "limit"}})


async def test_a_limit_that_lasts_longer_than_the_goal_waits_leaves_the_round_to_the_next_agent(
    tmp_path: Path,
) -> None:
    agents = {"first": used_up(tmp_path), "second": double(tmp_path, "second", WORKS)}
    outcome, events = await run(
        goal(tmp_path, agents, wait=30.0), tmp_path
    )  # the first pause would last a minute
    assert (outcome.status, switches(events)) == (
        "complete",
        [(1, "first", "second")],
    ), outcome.message
    assert not [event for event in events if event.type == "wait_started"]
    assert [event.reason for event in events if event.type == "agent_switched"] == [
        "usage limit"
    ]
    assert {name: usage.tokens for name, usage in outcome.agent_usage.items()} == {
        "first": 3,
        "second": 15,
    }


async def test_a_limit_that_the_goal_waits_for_keeps_the_agent(tmp_path: Path) -> None:
    agents = {"first": used_up(tmp_path), "second": double(tmp_path, "second", WORKS)}
    seen: list[Any] = []
    options = RunOptions(home=tmp_path / "home", observers=(Callback(seen.append),))
    running = asyncio.ensure_future(
        session.arun(goal(tmp_path, agents, wait=90.0), options)
    )
    while not (running.done() or any(event.type == "wait_started" for event in seen)):
        await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [event.reason for event in seen if event.type == "wait_started"] == [
        "usage limit"
    ]
    assert switches(seen) == []
