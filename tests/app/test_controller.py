"""`GoalController`: a driver of one's own."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    Goal,
    GoalContinue,
    GoalController,
    GoalDone,
    JudgeConfig,
    run_goal,
)
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Event
from goalrunner.records.run_folder import RunFolder
from goalrunner.transcripts import read_transcript
from tests.support.recordings import judge, quote, recording


def tool_turn(call: str, command: str, output: str) -> list[dict[str, Any]]:
    """An assistant message with a shell call, and its result."""
    function = {"name": "shell", "arguments": f'{{"command": "{command}"}}'}
    return [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": call, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call, "content": output},
    ]


def nested(levels: int, kind: type[list[Any] | dict[str, Any]]) -> object:
    value: object = "x"
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


def test_it_says_what_to_send_until_the_goal_is_proven(tmp_path: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        judge(("tests pass", []), missing="run the tests"),
        judge(("tests pass", [quote("o1", "3 passed")])),
    )
    controller = GoalController("make the tests pass", model)
    chat: list[dict[str, Any]] = [{"role": "user", "content": controller.start()}]
    assert "make the tests pass" in chat[0]["content"]
    chat.append({"role": "assistant", "content": "done!"})
    step = controller.on_run_finished(chat)
    assert isinstance(step, GoalContinue)
    assert "run the tests" in step.followup
    chat += [
        {"role": "user", "content": step.followup},
        *tool_turn("c1", "pytest", "3 passed in 0.1s"),
    ]
    chat.append({"role": "assistant", "content": "now they pass"})
    done = controller.on_run_finished(chat)
    assert isinstance(done, GoalDone)
    assert (done.outcome.status, done.outcome.iterations) == ("complete", 2)
    assert (Path(done.outcome.run_path) / "outcome.json").exists()


FIXED, BROKEN = "return a + b\n", "return a - b\n"
TESTED = "3 passed in 0.1s"


@pytest.mark.parametrize(
    ("contents", "timed", "complete"),
    [
        # An edit, the tests, and what the file is at the end.
        ((FIXED, FIXED), True, True),
        ((FIXED, BROKEN), True, False),
        ((BROKEN, FIXED), True, False),
        ((FIXED, FIXED), False, False),
        ((BROKEN, BROKEN), False, True),
    ],
)
def test_a_report_counts_if_nothing_changed_after_its_message(
    tmp_path: Path, contents: tuple[str, str], timed: bool, complete: bool
) -> None:
    """Without a timestamp, the whole round counts. A file that is written once more has changed."""
    file = tmp_path / "work" / "calc.py"
    file.parent.mkdir()
    file.write_text(BROKEN)
    verdict = judge(("tests pass", [quote("o1", TESTED)]))
    model = recording(tmp_path / "r.jsonl", *[verdict] * 2)
    controller = GoalController(
        "make the tests pass", model, workspace=file.parent, max_iterations=1
    )
    chat: list[dict[str, Any]] = [{"role": "user", "content": controller.start()}]
    before, after = contents
    if before != BROKEN:
        file.write_text(before)
    time.sleep(0.05)
    call, result = tool_turn("c1", "pytest", TESTED)
    chat += [{**call, "timestamp": time.time()} if timed else call, result]
    time.sleep(0.02)
    if after != before:
        file.write_text(after)
    done = controller.on_run_finished(
        [*chat, {"role": "assistant", "content": "they pass"}]
    )
    assert isinstance(done, GoalDone)
    assert done.outcome.passed is complete, done.outcome.verdict


def test_an_edit_that_was_undone_in_the_round_makes_a_report_outdated(
    tmp_path: Path,
) -> None:
    file = tmp_path / "work" / "calc.py"
    file.parent.mkdir()
    file.write_text(BROKEN)
    model = recording(
        tmp_path / "r.jsonl", judge(("tests pass", [quote("o1", TESTED)]))
    )
    controller = GoalController(
        "make the tests pass", model, workspace=file.parent, max_iterations=1
    )
    chat: list[dict[str, Any]] = [{"role": "user", "content": controller.start()}]
    file.write_text(FIXED)
    chat += tool_turn("c1", "pytest", TESTED)
    file.write_text(BROKEN)
    done = controller.on_run_finished(
        [*chat, {"role": "assistant", "content": "they pass"}]
    )
    assert isinstance(done, GoalDone)
    assert not done.outcome.passed
    assert done.outcome.verdict is not None
    assert (
        "calc.py changed in the round in which the calling program reported o1"
        in done.outcome.verdict.missing
    )


def test_what_the_user_wrote_is_recorded_once_and_prompts_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    model = recording(
        tmp_path / "r.jsonl", *[judge(("tests pass", []), missing="run the tests")] * 3
    )
    events: list[Event] = []
    template = "Still missing: {feedback}. Now go on with all of it, please."
    goal = Goal(objective="make the tests pass", judge=model, resume_prompt=template)
    controller = GoalController(goal, on_event=events.append)
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "Errors must be in German, says hunter2hunter2."},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": controller.start()},
        {"role": "assistant", "content": "done!"},
    ]
    step = controller.on_run_finished(chat)
    assert isinstance(step, GoalContinue)
    chat += [
        {"role": "user", "content": f"[my program] {step.followup}"},
        {"role": "assistant", "content": "again"},
    ]
    controller.on_run_finished(chat)
    controller.close()

    resumed = GoalController.resume(controller.run_path, on_event=events.append)
    followup = resumed.start()
    chat += [
        {"role": "user", "content": followup},
        {"role": "user", "content": "And in French."},
    ]
    resumed.on_run_finished([*chat, {"role": "assistant", "content": "done"}])

    said = [event.text for event in events if event.type == "user_said"]
    assert said == [
        "Errors must be in German, says [redacted:MY_TOKEN].",
        "And in French.",
    ]
    trail = read_transcript(Path(controller.run_path))
    assert [(one.round, one.text) for one in trail.said] == [(1, said[0]), (3, said[1])]


def test_goal_cancel_ends_the_run_after_the_turn_of_the_agent() -> None:
    controller = GoalController("x", validators=[lambda response, agent: True])
    controller.start()
    folder = RunFolder(Path(controller.run_path))
    folder.write_json(folder.cancellation, {"said": "cancelled by ann: too late"})
    done = controller.on_run_finished([{"role": "assistant", "content": "done"}])
    assert isinstance(done, GoalDone)
    assert (done.outcome.stop_reason, done.outcome.message) == (
        "cancelled",
        "cancelled by ann: too late",
    )
    assert json.loads(folder.outcome.read_text())["status"] == "cancelled"


def test_a_chat_that_begins_afresh_is_new_evidence(tmp_path: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        judge(("tests pass", []), missing="more"),
        judge(("tests pass", [quote("o2", "7 failed")])),
    )
    events: list[Event] = []
    controller = GoalController("make the tests pass", model, on_event=events.append)
    controller.start()
    controller.on_run_finished(
        [
            *tool_turn("c1", "pytest", "43 passed"),
            {"role": "assistant", "content": "done"},
        ]
    )
    controller.on_run_finished(tool_turn("c1", "pytest", "7 failed"))
    seen = [
        event.evidence_ref for event in events if event.type == "tool_result_recorded"
    ]
    assert seen == ["o1", "o2"]


def test_a_round_without_words_has_no_response() -> None:
    said: list[str] = []

    def check(response: dict[str, Any], agent: Any) -> bool:
        said.append(response["content"][0]["text"] if response["content"] else "")
        return False

    controller = GoalController("x", validators=[check])
    controller.start()
    first = [{"role": "assistant", "content": "first answer"}]
    controller.on_run_finished(first)
    controller.on_run_finished([*first, *tool_turn("c1", "ls", "a")])
    assert said == ["first answer", ""]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (None, "messages must be a list of chat messages, not None"),
        ("done", "messages must be a list of chat messages, not a str"),
        ({}, "messages must be a list of chat messages, not a dict"),
        ([5], "message 1 is an int, not a chat message"),
        (
            [{}],
            "message 1 has the role None; known: assistant, developer, function, system, tool, user",
        ),
        (
            [{"role": "user", "content": "x"}, {"role": "ai", "content": "done"}],
            "message 2 has the role 'ai'; known: assistant, developer, function, system, tool, user",
        ),
        (
            [{"role": "assistant", "content": 5}],
            "the content of message 1 is an int, not text or a list of blocks",
        ),
        (
            [{"role": "tool", "content": nested(5000, list)}],
            "message 1 is nested more than 100 levels deep",
        ),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "a", "function": {"arguments": nested(5000, dict)}}
                    ],
                }
            ],
            "message 1 is nested more than 100 levels deep",
        ),
    ],
)
def test_what_is_no_chat_is_refused_and_the_round_can_be_given_again(
    messages: Any, said: str
) -> None:
    controller = GoalController("x", validators=["true"])
    controller.start()
    with pytest.raises(UsageError) as refusal:
        controller.on_run_finished(messages)
    assert refusal.value.message == said
    assert isinstance(
        controller.on_run_finished([{"role": "assistant", "content": None}]), GoalDone
    )


def test_a_keyboard_interrupt_of_a_validator_ends_the_run_with_an_outcome(
    own_home: Path,
) -> None:
    def check(response: Any, agent: Any) -> bool:
        raise KeyboardInterrupt

    controller = GoalController("x", validators=[check])
    controller.start()
    with pytest.raises(KeyboardInterrupt):
        controller.on_run_finished([{"role": "assistant", "content": "done"}])
    (path,) = own_home.glob("runs/*/outcome.json")
    assert json.loads(path.read_text())["status"] == "cancelled"
    with pytest.raises(UsageError, match="no round"):
        controller.on_run_finished([])


def test_a_judge_without_its_key_ends_the_run_before_the_agent_works(
    own_home: Path,
) -> None:
    controller = GoalController(
        "x", JudgeConfig("openai/gpt-5-mini", api_key_env="JUDGE_KEY")
    )
    with pytest.raises(
        UsageError,
        match="ended before it began: the environment variable JUDGE_KEY is not set",
    ):
        controller.start()
    (path,) = own_home.glob("runs/*/outcome.json")
    assert json.loads(path.read_text())["stop_reason"] == "authentication"


def test_the_cap_is_its_own(tmp_path: Path) -> None:
    controller = GoalController(
        "x", validators=[lambda response, agent: False], max_iterations=1
    )
    controller.start()
    done = controller.on_run_finished([{"role": "assistant", "content": "done"}])
    assert isinstance(done, GoalDone)
    assert done.outcome.stop_reason == "max_iterations"


def test_a_validator_sees_the_response_and_the_messages(tmp_path: Path) -> None:
    seen: list[Any] = []

    def check(response: dict[str, Any], agent: Any) -> bool:
        seen.append((response["content"][0]["text"], len(agent.messages)))
        return True

    controller = GoalController("x", validators=[check])
    controller.start()
    chat = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "the answer"},
    ]
    assert isinstance(controller.on_run_finished(chat), GoalDone)
    assert seen == [("the answer", 2)]


def test_it_is_started_once_and_ends_once() -> None:
    controller = GoalController("x", validators=["true"])
    with pytest.raises(UsageError, match="no round"):
        controller.on_run_finished([])
    controller.start()
    with pytest.raises(UsageError, match="started already"):
        controller.start()
    assert isinstance(controller.on_run_finished([]), GoalDone)
    with pytest.raises(UsageError, match="no round"):
        controller.on_run_finished([])


async def test_inside_a_running_loop_it_names_the_async_way() -> None:
    with pytest.raises(UsageError, match="astart"):
        GoalController("x", validators=["true"]).start()


class _OwnConversation:
    """A conversation that records nothing itself, with a chat from before the run."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = [
            {"role": "user", "content": "Reports are in German."},
            {"role": "assistant", "content": "Yes."},
        ]

    def send(self, prompt: str) -> str:
        self.messages += [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": "Done."},
        ]
        self.messages.append(
            {
                "role": "user",
                "content": f"And in French, after {len(self.messages)} messages.",
            }
        )
        return "Done."

    def checkpoint(self) -> object:
        return len(self.messages)

    def restore(self, checkpoint: object) -> None:
        raise NotImplementedError


def test_a_conversation_without_records_tells_what_the_user_wrote_before_and_during_the_run() -> (
    None
):
    answers = iter([False, True])
    events: list[Event] = []
    conversation = _OwnConversation()
    outcome = run_goal(
        conversation,
        "x",
        validators=[lambda response, _: next(answers)],
        on_event=events.append,
    )
    assert outcome.iterations == 2
    said = [event.text for event in events if event.type == "user_said"]
    assert said == [
        "Reports are in German.",
        "And in French, after 4 messages.",
        "And in French, after 7 messages.",
    ]
