"""What holds for an agent of each framework, and for the built-in one: the same stories."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal
from goalrunner.core.events import Event, ToolResultRecorded
from tests.adapters.frameworks import FRAMEWORKS, Framework
from tests.support.fake_provider import FakeProvider, fail, hang, run, say
from tests.support.fake_provider.messages import Answer
from tests.support.recordings import judge as verdict
from tests.support.recordings import quote

pytestmark = [
    pytest.mark.adapters,
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(300),
]


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> Framework:
    """Return each framework that is installed."""
    return FRAMEWORKS[request.param]()


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, which is the current one too."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "few.txt").write_text("3 passed\n")
    (folder / "all.txt").write_text("12 passed\n")
    monkeypatch.chdir(folder)
    return folder


def says(*criteria: Any, missing: str = "") -> Any:
    """Return a judge's verdict as an answer of the provider."""
    return say(verdict(*criteria, missing=missing)["text"])


async def test_red_rounds_go_on_in_the_same_conversation(
    framework: Framework, workspace: Path
) -> None:
    with FakeProvider(
        [say("I made it."), run("touch done"), say("Now I did.")]
    ) as server:
        agent = framework.agent(server, workspace)
        outcome = await framework.run(
            agent,
            "make the file done",
            validators=["test -e done"],
            workspace=workspace,
        )
    assert (outcome.status, outcome.iterations, server.exhausted) == (
        "complete",
        2,
        False,
    )
    assert [attempt.passed for attempt in outcome.attempts] == [False, True]
    said = framework.said(agent)
    asked = [text for role, text in said if role == "user"]
    assert len(asked) == 2
    assert "make the file done" in asked[0]
    assert "test -e done" in asked[1]
    assert "I made it." in [text for role, text in said if role == "assistant"]


async def test_a_conversation_that_has_a_history_goes_on(
    framework: Framework, workspace: Path
) -> None:
    with FakeProvider(
        [
            say("First."),
            run("touch done"),
            say("Second."),
            run("touch more"),
            say("Third."),
        ]
    ) as server:
        agent = framework.agent(server, workspace)
        options: dict[str, Any] = {"workspace": workspace, "max_iterations": 2}
        await framework.run(agent, "first goal", validators=["test -e done"], **options)
        outcome = await framework.run(
            agent, "second goal", validators=["test -e more"], **options
        )
        sent = json.dumps(server.requests[-1].messages)
    assert (outcome.status, outcome.iterations) == ("complete", 1)
    assert "first goal" in sent
    assert "second goal" in sent


@pytest.mark.parametrize("same", [True, False], ids=["the-same-agent", "a-new-agent"])
async def test_a_capped_run_is_resumed(
    framework: Framework, workspace: Path, tmp_path: Path, same: bool
) -> None:
    with FakeProvider(
        [say("I made it."), run("touch done"), say("Now I did.")],
        fresh=True,
        plain=True,
    ) as server:
        agent = framework.agent(server, workspace)
        options: dict[str, Any] = {
            "validators": ["test -e done"],
            "workspace": workspace,
            "home": tmp_path / "home",
        }
        capped = await framework.run(
            agent, "make the file done", max_iterations=1, **options
        )
        again = agent if same else framework.agent(server, workspace)
        outcome = await framework.resume(
            capped, again, max_iterations=3, home=tmp_path / "home"
        )
        sent = json.dumps(server.requests[1].messages)
    assert (capped.status, outcome.status, outcome.iterations) == (
        "capped",
        "complete",
        2,
    )
    assert "I made it." in sent
    assert "test -e done" in sent


async def test_without_context_a_retry_sees_the_input_and_the_feedback(
    framework: Framework, workspace: Path
) -> None:
    with FakeProvider([say("Wrong."), say("Right.")], plain=True, fresh=True) as server:
        agent = framework.agent(server, workspace)
        outcome = await framework.run(
            agent,
            Goal(objective="say Right.", deliverable="response"),
            validators=[
                lambda response, _: {
                    "passed": "Right" in text(response),
                    "feedback": "not right",
                }
            ],
            preserve_context=False,
        )
        sent = json.dumps(server.requests[-1].messages)
    assert (outcome.status, outcome.iterations) == ("complete", 2), outcome.message
    assert "Wrong." not in sent
    assert "say Right." in sent
    assert "not right" in sent


def text(response: Any) -> str:
    """Return the text of an assistant message in blocks."""
    return "".join(block.get("text", "") for block in response["content"])


async def test_a_checkpoint_brings_the_chat_back_and_leaves_files(
    framework: Framework, workspace: Path
) -> None:
    with FakeProvider(
        [say("One."), run("touch file"), say("Two.")], plain=True, fresh=True
    ) as server:
        agent = framework.agent(server, workspace)
        objective = Goal(objective="go on", deliverable="response")
        await framework.run(agent, objective, validators=[lambda response, _: True])
        conversation = framework.conversation(agent)
        before, checkpoint = list(conversation.messages), conversation.checkpoint()
        await framework.run(agent, objective, validators=[lambda response, _: True])
        assert len(conversation.messages) > len(before)
        conversation.restore(checkpoint)
    assert list(conversation.messages) == before
    assert (workspace / "file").exists()


async def test_a_deadline_cuts_a_model_call_and_the_agent_can_go_on(
    framework: Framework, workspace: Path
) -> None:
    with FakeProvider([hang(), say("Done.")], plain=True, fresh=True) as server:
        agent = framework.agent(server, workspace)
        began = time.monotonic()
        objective = Goal(objective="wait", deliverable="response")
        outcome = await framework.run(
            agent, objective, validators=[lambda response, _: True], timeout=1
        )
        assert time.monotonic() - began < 8
        again = await framework.run(
            agent, objective, validators=[lambda response, _: True]
        )
    assert (outcome.status, outcome.stop_reason) == ("capped", "timeout")
    assert again.status == "complete"


async def test_a_cancelled_run_is_recorded_as_cancelled(
    framework: Framework, workspace: Path, tmp_path: Path
) -> None:
    with FakeProvider([hang()], plain=True) as server:
        agent = framework.agent(server, workspace)
        work = asyncio.ensure_future(
            framework.run(
                agent,
                "wait",
                validators=["false"],
                workspace=workspace,
                home=tmp_path / "home",
            )
        )
        while not server.requests:
            await asyncio.sleep(0.05)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    (written,) = (tmp_path / "home" / "runs").glob("*/outcome.json")
    assert json.loads(written.read_text())["status"] == "cancelled"


def _before_round_1(framework: Framework) -> list[Answer]:
    """Return the judge's answers before round 1: only a model of goal itself is asked, not one of a framework."""
    return [] if framework.has_models else [say("Yes.")]


async def test_usage_is_counted_by_account(
    framework: Framework, workspace: Path
) -> None:
    greeting = _before_round_1(framework)
    with (
        FakeProvider([run("cat all.txt"), say("Done.")]) as server,
        FakeProvider(
            [*greeting, says(("it passes", [quote("o1", "12 passed")]))],
            plain=True,
            fresh=True,
        ) as second,
    ):
        agent = framework.agent(server, workspace)
        outcome = await framework.run(
            agent, "show that it passes", framework.judge(second), workspace=workspace
        )
    assert outcome.status == "complete", outcome.message
    agent_usage, judge_usage = outcome.usage["agent"], outcome.usage["judge"]
    assert (agent_usage.calls, agent_usage.input_tokens, agent_usage.output_tokens) == (
        2,
        20,
        10,
    )
    calls = len(greeting) + 1
    assert (judge_usage.calls, judge_usage.input_tokens, judge_usage.output_tokens) == (
        calls,
        10 * calls,
        5 * calls,
    )


async def test_a_budget_of_tokens_ends_the_turn(
    framework: Framework, workspace: Path
) -> None:
    steps = [run(f"echo {number}; sleep 0.5", usage=(60, 20)) for number in range(8)]
    with FakeProvider([*steps, say("Done.")]) as server:
        agent = framework.agent(server, workspace)
        goal = Goal(
            objective="count", budget={"tokens": 200}, validators=[{"run": "false"}]
        )
        outcome = await framework.run(agent, goal, workspace=workspace)
    assert (outcome.status, outcome.stop_reason) == ("capped", "budget_exhausted")
    assert server.played < 6


@pytest.mark.parametrize("records", ["all", "none"])
async def test_tool_results_are_observations_and_the_agents_text_is_none(
    framework: Framework, workspace: Path, own_home: Path, records: str
) -> None:
    events: list[Event] = []
    claimed = says(("it passes", [quote("o1", "all 12 tests passed")]))
    shown = says(("it passes", [quote("o2", "12 passed")]))
    with (
        FakeProvider(
            [
                run("cat few.txt"),
                say("all 12 tests passed"),
                run("cat all.txt"),
                say("Shown."),
            ]
        ) as server,
        FakeProvider(
            [*_before_round_1(framework), claimed, claimed, shown],
            plain=True,
            fresh=True,
        ) as second,
    ):
        agent = framework.agent(server, workspace)
        outcome = await framework.run(
            agent,
            "12 tests pass",
            framework.judge(second),
            workspace=workspace,
            on_event=events.append,
            records=records,
        )
    assert (outcome.status, outcome.iterations) == ("complete", 2), outcome.message
    assert ("no snapshots" in outcome.labels) == (records == "none")
    assert bool(list(own_home.iterdir())) == (records == "all")
    results = [
        event.observation for event in events if isinstance(event, ToolResultRecorded)
    ]
    assert [(one.id, one.source, one.command, one.reported_by) for one in results] == [
        ("o1", "shell", "cat few.txt", framework.name),
        ("o2", "shell", "cat all.txt", framework.name),
    ]


@pytest.mark.parametrize(
    ("commands", "complete"),
    [
        (["touch done", "sleep 0.1; cat all.txt"], True),
        (["touch done", "sleep 0.1; cat all.txt", "sleep 0.1; rm done"], False),
        (
            [
                "echo 12 passed > few.txt",
                "sleep 0.1; cat few.txt",
                "sleep 0.1; echo 3 passed > few.txt",
            ],
            False,
        ),
        (["sleep 0.1; touch done; cat all.txt; rm done"], False),
    ],
)
async def test_a_result_counts_in_its_round_if_nothing_changed_after_its_tool_was_started(
    framework: Framework, workspace: Path, commands: list[str], complete: bool
) -> None:
    cited = min(len(commands), 2)
    shown = says(("it passes", [quote(f"o{cited}", "12 passed")]))
    with (
        FakeProvider(
            [*map(run, commands), say("I did it.")], plain=True, fresh=True
        ) as first,
        FakeProvider(
            [*_before_round_1(framework), shown], plain=True, fresh=True
        ) as second,
    ):
        agent = framework.agent(first, workspace)
        options: dict[str, Any] = {"workspace": workspace, "max_iterations": 1}
        outcome = await framework.run(
            agent, "make it pass", framework.judge(second), **options
        )
    assert outcome.verdict is not None
    assert outcome.passed is complete, outcome.verdict.missing
    assert (
        complete
        or f"o{cited} is stale" in outcome.verdict.missing
        or "itself changed" in outcome.verdict.missing
    )


async def test_a_verdict_without_a_citation_is_not_complete(
    framework: Framework, workspace: Path
) -> None:
    with (
        FakeProvider([say("All done.")], plain=True) as server,
        FakeProvider(
            [say('{"score": 1.0, "complete": true, "missing": ""}')] * 9,
            plain=True,
            fresh=True,
        ) as second,
    ):
        agent = framework.agent(server, workspace)
        outcome = await framework.run(
            agent,
            "tests pass",
            framework.judge(second),
            workspace=workspace,
            max_iterations=1,
        )
    assert outcome.status != "complete"


async def test_a_refused_key_ends_the_run_as_failed(
    framework: Framework, workspace: Path, tmp_path: Path
) -> None:
    with FakeProvider([fail(401, "Incorrect API key")], plain=True) as server:
        agent = framework.agent(server, workspace)
        work = framework.run(
            agent,
            "anything",
            validators=["false"],
            workspace=workspace,
            home=tmp_path / "home",
        )
        # As in OpenHands, the adapter raises the error after the end was recorded.
        if framework.name == "openhands":
            with pytest.raises(Exception, match="Incorrect API key"):
                await work
        else:
            await work
    (written,) = (tmp_path / "home" / "runs").glob("*/outcome.json")
    outcome = json.loads(written.read_text())
    # A conversation of a user's program raises any error; the message names its cause.
    is_own = framework.name in ("langgraph", "pydantic-ai")
    reason = "agent_failed" if is_own else "authentication"
    assert (outcome["status"], outcome["stop_reason"]) == ("failed", reason)
    assert "401" in outcome["message"]


async def test_two_runs_over_one_agent_are_refused(
    framework: Framework, workspace: Path
) -> None:
    with FakeProvider([hang(3)], plain=True) as server:
        agent = framework.agent(server, workspace)
        objective = Goal(objective="wait", deliverable="response")
        options: dict[str, Any] = {
            "validators": [lambda response, _: True],
            "timeout": 2,
        }
        first = asyncio.ensure_future(framework.run(agent, objective, **options))
        await asyncio.sleep(0.5)
        with pytest.raises(Exception, match="already used by another run"):
            await framework.run(agent, objective, **options)
        await first
