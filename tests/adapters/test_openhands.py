"""What only the adapter of OpenHands has: its events, its controller, its critic."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal
from goalrunner.app.previous_run import read_events
from goalrunner.core.errors import UsageError
from goalrunner.core.observation import Claim, Observation
from goalrunner.transcripts import read_transcript
from tests.adapters.frameworks import Framework, openhands
from tests.support.fake_provider import FakeProvider, calls, fail, hang, run, say
from tests.support.recordings import judge as verdict
from tests.support.recordings import quote

pytestmark = [
    pytest.mark.adapters,
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(300),
]


@pytest.fixture(autouse=True)
def framework() -> Framework:
    """Return OpenHands, if it is installed."""
    return openhands()


@pytest.fixture
def adapter(framework: Framework) -> Any:
    """Return the adapter."""
    return import_module("goalrunner.adapters.openhands")


def passes(observation: str, words: str) -> Any:
    """Return a complete verdict with one citation as an answer of the provider."""
    return say(verdict(("it passes", [quote(observation, words)]))["text"])


def test_run_goal_takes_a_conversation_and_an_llm_by_position(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    (tmp_path / "report.txt").write_text("12 passed\n")
    with (
        FakeProvider([run("cat report.txt"), say("Done.")]) as server,
        FakeProvider([passes("o1", "12 passed")], plain=True, fresh=True) as second,
    ):
        conversation, judge = framework.agent(server, tmp_path), framework.judge(second)
        outcome = adapter.run_goal(
            conversation, "the tests pass", judge, max_iterations=3
        )
    assert (outcome.status, outcome.iterations, outcome.verdict.complete) == (
        "complete",
        1,
        True,
    )
    assert len(judge.metrics.token_usages) == 1
    kinds = [type(event).__name__ for event in conversation.state.events]
    assert kinds.count("ActionEvent") == kinds.count("ObservationEvent") == 1


def test_judge_goal_audits_the_events_of_a_conversation(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    claimed = passes("o1", "13 passed")
    (tmp_path / "report.txt").write_text("12 passed\n")
    with (
        FakeProvider([run("cat report.txt"), say("13 passed")]) as server,
        FakeProvider(
            [passes("o1", "12 passed"), claimed, claimed], plain=True, fresh=True
        ) as second,
    ):
        conversation, judge = framework.agent(server, tmp_path), framework.judge(second)
        conversation.send_message("Run the tests.")
        conversation.run()
        proven = adapter.judge_goal(judge, "the tests pass", conversation.state.events)
        refused = adapter.judge_goal(judge, "the tests pass", conversation.state.events)
    assert (proven.complete, refused.complete) == (True, False)
    assert refused.missing


def test_the_judge_sees_what_a_person_wrote_and_no_other_messages_of_the_role(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    sdk, kinds = import_module("openhands.sdk"), import_module("openhands.sdk.event")
    answers = [passes("o1", "12 passed")] * 2
    (tmp_path / "report.txt").write_text("12 passed\n")
    with (
        FakeProvider([say("Yes."), run("cat report.txt"), say("12 passed")]) as server,
        FakeProvider(answers, plain=True, fresh=True) as second,
    ):
        conversation, judge = framework.agent(server, tmp_path), framework.judge(second)
        conversation.send_message("Reports are in German.")
        conversation.run()
        added = sdk.Message(role="user", content=[sdk.TextContent(text="Think again.")])
        conversation.state.events.append(
            kinds.MessageEvent(source="environment", llm_message=added)
        )
        outcome = adapter.run_goal(
            conversation,
            "the tests pass",
            judge,
            max_iterations=1,
            home=tmp_path / "home",
        )
        adapter.judge_goal(judge, "the tests pass", conversation.state.events)
        prompts = [request.messages[-1]["content"] for request in second.requests]
    said = [
        event.text
        for event in read_events(outcome, home=tmp_path / "home")
        if event.type == "user_said"
    ]
    assert said == ["Reports are in German."]
    for prompt in map(str, prompts):
        assert "round 1: Reports are in German." in prompt
        assert "Think again." not in prompt


def test_a_controller_takes_the_events_after_each_run(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    with FakeProvider(
        [say("I made it."), run(f"touch {tmp_path}/done"), say("Now I did.")]
    ) as server:
        conversation = framework.agent(server, tmp_path)
        controller = adapter.GoalController(
            "make the file", validators=["test -e done"], workspace=tmp_path
        )
        conversation.send_message(controller.start())
        conversation.run()
        step = controller.on_run_finished(conversation.state.events)
        assert isinstance(step, adapter.GoalContinue)
        assert "test -e done" in step.followup
        conversation.send_message(step.followup)
        conversation.run()
        done = controller.on_run_finished(conversation.state.events)
    assert isinstance(done, adapter.GoalDone)
    assert (done.outcome.status, done.outcome.iterations) == ("complete", 2)


async def test_a_controller_works_in_an_event_loop(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    with FakeProvider([run(f"touch {tmp_path}/done"), say("I did.")]) as server:
        conversation = framework.agent(server, tmp_path)
        controller = adapter.GoalController(
            "make the file", validators=["test -e done"], workspace=tmp_path
        )
        conversation.send_message(await controller.astart())
        await conversation.arun()
        done = await controller.aon_run_finished(conversation.state.events)
    assert done.outcome.status == "complete"


def test_the_critic_of_the_agent_refines_inside_a_round(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    sdk, critics = (
        import_module("openhands.sdk"),
        import_module("openhands.sdk.critic.base"),
    )
    scores = iter([0.1, 0.9])

    class Doubtful(critics.CriticBase):  # type: ignore[misc, name-defined]
        """Refuses the first work."""

        def evaluate(self, events: Sequence[Any], git_patch: str | None = None) -> Any:
            """Return the next score."""
            return critics.CriticResult(score=next(scores), message="look again")

    first, second = (
        calls(("finish", {"message": text})) for text in ("Made.", "Really made.")
    )
    with FakeProvider([first, run("touch done"), second]) as server:
        agent = framework.agent(server, tmp_path).agent
        critic = Doubtful(iterative_refinement=critics.IterativeRefinementConfig())
        conversation = sdk.Conversation(
            agent.model_copy(update={"critic": critic}),
            workspace=str(tmp_path),
            visualizer=None,
        )
        outcome = adapter.run_goal(
            conversation, "make the file", validators=["test -e done"]
        )
    assert (outcome.status, outcome.iterations, outcome.usage["agent"].calls) == (
        "complete",
        1,
        3,
    )
    assert any(
        "appears incomplete" in text
        for role, text in framework.said(conversation)
        if role == "user"
    )


def test_the_error_of_an_agent_names_the_recorded_run(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    errors = import_module("openhands.sdk.conversation.exceptions")
    with FakeProvider([fail(401, "Incorrect API key")], plain=True) as server:
        (tmp_path / "work").mkdir()
        conversation = framework.agent(server, tmp_path / "work")
        with pytest.raises(errors.ConversationRunError) as raised:
            adapter.run_goal(
                conversation,
                "make the file",
                validators=["test -e done"],
                home=tmp_path / "home",
            )
    (run,) = (tmp_path / "home" / "runs").iterdir()
    assert raised.value.__notes__ == [
        f"goal show {run.name} shows the run that it ended"
    ]
    assert json.loads((run / "outcome.json").read_text())["status"] == "failed"


def test_an_outcome_without_a_checked_round_has_a_verdict(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    with FakeProvider([hang()], plain=True) as server:
        conversation = framework.agent(server, tmp_path)
        outcome = adapter.run_goal(
            conversation, "make the file", validators=["test -e done"], timeout=1
        )
    assert (outcome.status, outcome.iterations) == ("capped", 0)
    assert (outcome.verdict.score, outcome.verdict.complete) == (0.0, False)
    assert "time limit" in outcome.verdict.missing


HUGE = "/usr/lib"
"""A folder of the system with very many files."""


def test_a_controller_watches_the_workspace_of_the_conversation(
    framework: Framework, adapter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(HUGE)
    (tmp_path / "all.txt").write_text("12 passed\n")
    commands = ["cat all.txt", "sleep 0.1; sh -c 'echo x >new.txt'"]
    with (
        FakeProvider([*map(run, commands), say("Done.")]) as server,
        FakeProvider([passes("o1", "12 passed")], plain=True, fresh=True) as second,
    ):
        conversation, judge = framework.agent(server, tmp_path), framework.judge(second)
        controller = adapter.GoalController(
            "the tests pass", judge, conversation=conversation, max_iterations=1
        )
        began = time.monotonic()
        conversation.send_message(controller.start())
        assert time.monotonic() - began < 20
        conversation.run()
        outcome = controller.on_run_finished(conversation.state.events).outcome
    assert outcome.workspace == str(tmp_path)
    assert "new.txt changed after o1 began" in outcome.verdict.missing


@pytest.mark.parametrize(
    ("commands", "complete"),
    [
        (["touch done.txt", "cat all.txt"], True),
        (["cat all.txt", "echo 3 passed >all.txt"], False),
    ],
)
def test_without_the_conversation_the_order_of_the_calls_decides(
    framework: Framework,
    adapter: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    commands: list[str],
    complete: bool,
) -> None:
    monkeypatch.chdir(HUGE)
    (tmp_path / "all.txt").write_text("12 passed\n")
    place = f"o{1 + commands.index('cat all.txt')}"
    with (
        FakeProvider([*map(run, commands), say("Done.")]) as server,
        FakeProvider([passes(place, "12 passed")], plain=True, fresh=True) as second,
    ):
        conversation, judge = framework.agent(server, tmp_path), framework.judge(second)
        controller = adapter.GoalController("the tests pass", judge, max_iterations=1)
        began = time.monotonic()
        conversation.send_message(controller.start())
        assert time.monotonic() - began < 20
        conversation.run()
        outcome = controller.on_run_finished(conversation.state.events).outcome
    assert outcome.passed is complete, outcome.verdict.missing
    assert complete or "all.txt changed after o1" in outcome.verdict.missing
    assert "no snapshots" in outcome.labels


def test_without_records_a_failed_judge_cannot_be_asked_again(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    errors = import_module("openhands.sdk.llm.exceptions")
    testing = import_module("openhands.sdk.testing")
    judge = testing.TestLLM.from_messages([errors.LLMRateLimitError("slow down")])
    controller = adapter.GoalController("the tests pass", judge, records="none")
    controller.start()
    with pytest.raises(errors.LLMRateLimitError):
        controller.on_run_finished([])
    with pytest.raises(UsageError, match="keep records"):
        controller.on_run_finished([])


def test_what_is_no_conversation_is_refused(adapter: Any) -> None:
    with pytest.raises(UsageError, match="a list is not a conversation of OpenHands"):
        adapter.run_goal([], "make the file", lambda messages: "")
    with pytest.raises(UsageError, match="pass Conversation"):
        adapter.GoalController("make the file", conversation="gpt")


def test_a_run_is_cancelled_by_a_signal_also_inside_a_running_event_loop(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()

    async def main(conversation: Any) -> None:
        with pytest.raises(KeyboardInterrupt):
            adapter.run_goal(
                conversation,
                "wait",
                validators=["false"],
                home=tmp_path / "home",
            )

    # A request that the signal breaks is made again by the library of the SDK.
    with FakeProvider([hang() for _ in range(9)], plain=True) as server:
        conversation = framework.agent(server, tmp_path / "work")

        def interrupt() -> None:
            while not server.requests:
                time.sleep(0.05)
            main_thread = threading.main_thread().ident
            assert main_thread is not None
            signal.pthread_kill(main_thread, signal.SIGINT)

        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=interrupt)
        thread.start()
        loop.run_until_complete(main(conversation))
        thread.join()
        loop.close()
    (written,) = (tmp_path / "home" / "runs").glob("*/outcome.json")
    assert json.loads(written.read_text())["status"] == "cancelled"


def test_a_command_needs_a_known_folder(adapter: Any) -> None:
    with pytest.raises(UsageError, match="pass conversation="):
        adapter.GoalController("make the file", validators=["test -e done"])


def elsewhere(framework: Framework, server: FakeProvider, folder: Path) -> Any:
    """Return a conversation whose workspace is on another machine."""
    tool = import_module("tests.adapters.openhands_tool")
    conversation = framework.agent(server, folder)
    conversation.workspace = tool.OtherMachine(working_dir=str(folder))
    return conversation


def test_validators_run_in_a_remote_workspace_by_its_commands(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    with FakeProvider(
        [say("I made it."), run("touch done"), say("Now I did.")]
    ) as server:
        outcome = adapter.run_goal(
            elsewhere(framework, server, tmp_path),
            "make the file",
            validators=["pwd && test -e done"],
        )
    assert (outcome.status, outcome.iterations) == ("complete", 2), outcome.message
    assert "checked remotely: pwd && test -e done" in outcome.labels
    assert "no snapshots" in outcome.labels
    assert str(tmp_path) in outcome.attempts[0].feedback
    assert outcome.check_environment == ""


def test_a_controller_checks_a_remote_workspace(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    goal = Goal(
        objective="make the file",
        validators=[
            {"run": 'test -e "$FILE"', "env": {"FILE": "the done"}, "cwd": "in"}
        ],
    )
    (tmp_path / "in").mkdir()
    with FakeProvider([run("touch 'in/the done'"), say("I did.")]) as server:
        conversation = elsewhere(framework, server, tmp_path)
        controller = adapter.GoalController(goal, conversation=conversation)
        conversation.send_message(controller.start())
        conversation.run()
        done = controller.on_run_finished(conversation.state.events)
    assert done.outcome.status == "complete", done.outcome.message


@pytest.mark.parametrize(
    "goal",
    [
        {"validators": [{"run": "true", "hidden": True}]},
        {"validators": [{"python": "os:getcwd"}]},
        {"validator": "true", "workspace": {"protect": ["tests/**"]}},
        {"validator": "true", "approvals": {"checks": "refuse"}},
        {"validator": "true", "baseline": "red"},
    ],
    ids=lambda goal: next(reversed(goal)),
)
def test_what_needs_the_files_here_is_refused_in_a_remote_workspace(
    framework: Framework, adapter: Any, tmp_path: Path, goal: dict[str, Any]
) -> None:
    with FakeProvider([]) as server:
        conversation = elsewhere(framework, server, tmp_path)
        with pytest.raises(UsageError, match="use a conversation with a"):
            adapter.run_goal(conversation, Goal(objective="make the file", **goal))


def test_a_remote_workspace_that_does_not_answer_is_not_the_fault_of_the_agent(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with FakeProvider([run("rmdir ../work"), say("Done.")]) as server:
        outcome = adapter.run_goal(
            elsewhere(framework, server, folder),
            "make the file",
            validators=["test -e done"],
            home=tmp_path / "home",
        )
    assert (outcome.status, outcome.iterations) == ("failed", 0), outcome.message
    assert "no route to host" in outcome.message


def test_no_test_is_red_in_a_remote_workspace(
    framework: Framework, adapter: Any, tmp_path: Path
) -> None:
    with FakeProvider([say("Done.")]) as server:
        outcome = adapter.run_goal(
            elsewhere(framework, server, tmp_path),
            "the tests pass",
            validators=["python -m unittest || true"],
            max_iterations=1,
        )
    assert outcome.status == "capped"
    assert "test" in outcome.verdict.missing


def test_a_conversation_that_was_saved_is_read_as_a_transcript(
    framework: Framework, tmp_path: Path
) -> None:
    sdk = import_module("openhands.sdk")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "report.txt").write_text("12 passed\n")
    with FakeProvider([run("cat report.txt"), say("All 13 tests passed.")]) as server:
        agent = framework.agent(server, tmp_path / "work").agent
        saved = tmp_path / "saved"
        conversation = sdk.Conversation(
            agent,
            workspace=str(tmp_path / "work"),
            visualizer=None,
            persistence_dir=str(saved),
        )
        conversation.send_message("Run the tests.")
        conversation.run()
        conversation.close()
    (folder,) = {path.parent for path in saved.rglob("event-*.json")}
    trail = read_transcript(folder)
    (seen,) = [item for item in trail.items if isinstance(item, Observation)]
    assert (trail.format, trail.partial, seen.reported_by) == (
        "openhands",
        "",
        "openhands",
    )
    assert "12 passed" in trail.read(seen)
    assert [trail.read(item) for item in trail.items if isinstance(item, Claim)][
        -1
    ] == "All 13 tests passed."
