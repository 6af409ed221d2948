"""`resume`, `aresume` and `GoalController.resume`: a run of the library goes on, here or in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    Goal,
    GoalController,
    GoalDone,
    GoalOutcome,
    aresume,
    chat_conversation,
    read_chat,
    read_events,
    resume,
    run_goal,
)
from goalrunner.cli.main import main
from goalrunner.core.errors import UsageError
from tests.app.test_callers_mistakes import Agent, says
from tests.app.test_controller import tool_turn
from tests.app.test_library_forms import PASSED, REFUSED, Judge
from tests.support.recordings import agent, judge, quote, recording, shell


def capped(**keywords: Any) -> GoalOutcome:
    return run_goal(
        Agent("bad"),
        "Be good.",
        validators=[says("good")],
        max_iterations=1,
        **keywords,
    )


@pytest.mark.parametrize("form", ["outcome", "folder", "path", "id"])
def test_a_run_goes_on_with_a_higher_limit(form: str) -> None:
    first = capped()
    assert first.stop_reason == "max_iterations"
    forms: dict[str, Any] = {
        "outcome": first,
        "folder": first.run_path,
        "path": Path(first.run_path),
        "id": first.run_id,
    }
    agent = Agent("good")
    second = resume(
        forms[form],
        agent,
        validators=[says("good")],
        max_iterations=5,
        note="Be kind as well.",
    )
    assert (second.status, second.iterations, second.run_id) == (
        "complete",
        2,
        first.run_id,
    )
    assert "Be kind as well." in agent.prompts[0]
    assert [attempt.passed for attempt in second.attempts] == [False, True]


def test_a_conversation_with_load_alone_gets_the_chat() -> None:
    class Loading(Agent):
        def load(self, messages: Any, unfinished: Any, recorder: Any) -> None:
            self.messages = list(messages)

    agent = Loading("good")
    second = resume(capped(), agent, validators=[says("good")], max_iterations=5)
    assert second.passed
    assert [message["content"] for message in agent.messages[:2]] == ["Be good.", "bad"]


async def test_in_an_event_loop() -> None:
    from goalrunner import arun_goal

    first = await arun_goal(
        Agent("bad"), "Be good.", validators=[says("good")], max_iterations=1
    )
    second = await aresume(
        first, Agent("good"), validators=[says("good")], max_iterations=float("inf")
    )
    assert (second.status, second.limits["max_iterations"]) == ("complete", None)
    with pytest.raises(UsageError, match="await aresume"):
        resume(first, Agent("good"), validators=[says("good")])


def test_the_chat_is_saved_with_the_run_and_given_back(tmp_path: Path) -> None:
    model = recording(tmp_path / "r.jsonl", agent("", shell("echo one")), agent("bad"))
    first = run_goal(
        chat_conversation(model, workspace=tmp_path),
        "Be good.",
        validators=[says("good")],
        max_iterations=1,
    )
    later = recording(tmp_path / "later.jsonl", agent("good"))
    conversation = chat_conversation(later, workspace=tmp_path)
    second = resume(first, conversation, validators=[says("good")], max_iterations=3)
    assert second.status == "complete"
    assert [message["role"] for message in conversation.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert [message["role"] for message in read_chat(second)[1:]] == [
        message["role"] for message in conversation.messages
    ]


def test_a_judge_of_a_name_is_made_again_and_a_function_is_passed_again(
    tmp_path: Path,
) -> None:
    name = recording(
        tmp_path / "j.jsonl",
        {"account": "judge", "text": REFUSED},
        {"account": "judge", "text": PASSED.replace("o1", "o2")},
    )
    first = run_goal(Agent("a long answer"), "Be short.", name, max_iterations=1)
    assert resume(first, Agent("a short answer"), max_iterations=2).status == "complete"

    first = run_goal(
        Agent("a long answer"), "Be short.", judge=Judge(REFUSED), max_iterations=1
    )
    with pytest.raises(
        UsageError, match="the judge of this run, custom/Judge, was made by the program"
    ):
        resume(first, Agent("a short answer"), max_iterations=2)
    again = Judge(PASSED.replace("o1", "o2"))
    assert (
        resume(first, Agent("a short answer"), judge=again, max_iterations=2).status
        == "complete"
    )


def test_what_only_the_program_can_make_is_asked_for() -> None:
    first = capped(resume_prompt=lambda feedback: "again")
    with pytest.raises(
        UsageError,
        match="has the callable validators check, and these were given: none",
    ):
        resume(first, Agent("good"), max_iterations=3)
    with pytest.raises(
        UsageError, match="passed its resume_prompt; only that program can resume it"
    ):
        resume(first, Agent("good"), validators=[says("good")], max_iterations=3)
    with pytest.raises(UsageError, match="the run has no validator true"):
        resume(
            first, Agent("good"), validators=["true", says("good")], max_iterations=3
        )
    with pytest.raises(UsageError, match="workspace of a run is fixed"):
        resume(first, Agent("good"), workspace=".")
    with pytest.raises(UsageError, match="max_iterations: "):
        resume(first, Agent("good"), validators=[says("good")], max_iterations=-1)
    with pytest.raises(UsageError, match="timeout: "):
        resume(first, Agent("good"), validators=[says("good")], timeout=float("nan"))
    with pytest.raises(UsageError, match="no run"):
        resume("absent", Agent("good"))


def test_a_run_that_is_complete_does_not_go_on_and_has_the_same_outcome() -> None:
    done = run_goal(Agent("good"), "Be good.", validators=[says("good")])
    assert resume(done, Agent("bad"), validators=[says("good")]) == done


def test_the_command_line_names_the_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = capped()
    assert main(["resume", first.run_id, "--max-iterations", "5"]) == 2
    assert "goalrunner.resume(run, conversation)" in capsys.readouterr().err.replace(
        "\n", " "
    )


PROGRAM = """
import os, sys
from goalrunner import GoalController, run_goal, chat_conversation

def check(response, agent):
    return "good" in response["content"][0]["text"]

if sys.argv[1] == "run":
    class Agent:
        messages = []
        async def send(self, prompt, recorder):
            recorder.message({"role": "user", "content": prompt})
            os.kill(os.getpid(), 9)
    run_goal(Agent(), "Be good.", validators=[check])
controller = GoalController("Make the tests pass.", validators=[check])
print(controller.start(), flush=True)
os.kill(os.getpid(), 9)
"""


def killed(how: str, tmp_path: Path, home: Path) -> Path:
    """Run a program that is killed in its first round; return the folder of its run."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, how],
        cwd=tmp_path,
        timeout=60,
        check=False,
        capture_output=True,
    )
    assert ended.returncode == -9, ended.stderr
    (folder,) = (home / "runs").iterdir()
    return folder


def check(response: dict[str, Any], agent: Any) -> bool:
    return bool("good" in response["content"][0]["text"])


def test_a_run_whose_process_was_killed_goes_on_in_another(
    tmp_path: Path, own_home: Path
) -> None:
    folder = killed("run", tmp_path, own_home)
    outcome = resume(folder, Agent("good"), validators=[check])
    assert (outcome.status, outcome.iterations) == ("complete", 1)


@pytest.mark.slow
def test_a_controller_whose_process_was_killed_goes_on_in_another(
    tmp_path: Path, own_home: Path
) -> None:
    folder = killed("controller", tmp_path, own_home)
    controller = GoalController.resume(folder, validators=[check])
    assert controller.objective == "Make the tests pass."
    assert "Make the tests pass." in controller.start()
    done = controller.on_run_finished([{"role": "assistant", "content": "good"}])
    assert isinstance(done, GoalDone)
    assert (done.outcome.status, done.outcome.iterations) == ("complete", 1)
    started = [
        event.round for event in read_events(folder) if event.type == "round_started"
    ]
    assert started == [1]


def test_a_resumed_controller_takes_nothing_twice(tmp_path: Path) -> None:
    replies = [
        judge(("tests pass", []), missing="run them"),
        judge(("tests pass", [quote("o1", "3 passed in 0.1s")])),
    ]
    model = recording(tmp_path / "r.jsonl", *replies)
    goal = Goal(objective="Make the tests pass.", redact={"extra": ["/hunter[0-9]/"]})
    first = GoalController(goal, model)
    chat: list[dict[str, Any]] = [{"role": "user", "content": first.start()}]
    chat += [
        *tool_turn("c1", "pytest", "3 passed in 0.1s"),
        *tool_turn("c2", "env", "PASSWORD=hunter2"),
    ]
    chat.append({"role": "assistant", "content": "done, hunter2"})
    step = first.on_run_finished(chat)
    first.close()
    with pytest.raises(UsageError, match="no round to check"):
        first.on_run_finished(chat)

    second = GoalController.resume(first.run_path)
    assert second.iteration == 0
    followup = second.start()
    assert second.iteration == 1
    assert not isinstance(step, GoalDone)
    chat += [
        {"role": "user", "content": followup},
        {"role": "assistant", "content": "they do"},
    ]
    done = second.on_run_finished(chat)
    assert isinstance(done, GoalDone)
    recorded = [
        event.evidence_ref
        for event in read_events(first.run_path)
        if event.type == "tool_result_recorded"
    ]
    assert recorded == ["o1", "o2"]
    assert done.outcome.status == "complete"
