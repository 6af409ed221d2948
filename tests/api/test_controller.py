"""`GoalController`: a driver of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner import GoalContinue, GoalController, GoalDone
from goalrunner.errors import UsageError
from tests.support.recordings import judge, quote, recording


def tool_turn(call: str, command: str, output: str) -> list[dict[str, Any]]:
    """An assistant message with a shell call, and its result."""
    function = {"name": "shell", "arguments": f'{{"command": "{command}"}}'}
    return [
        {"role": "assistant", "content": "", "tool_calls": [{"id": call, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call, "content": output},
    ]


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
    chat += [{"role": "user", "content": step.followup}, *tool_turn("c1", "pytest", "3 passed in 0.1s")]
    chat.append({"role": "assistant", "content": "now they pass"})
    done = controller.on_run_finished(chat)
    assert isinstance(done, GoalDone)
    assert (done.outcome.status, done.outcome.iterations) == ("complete", 2)
    assert (Path(done.outcome.run_path) / "outcome.json").exists()


def test_the_cap_is_its_own(tmp_path: Path) -> None:
    controller = GoalController("x", validators=[lambda response, agent: False], max_iterations=1)
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
    chat = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "the answer"}]
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
    with pytest.raises(UsageError, match="arun_goal"):
        GoalController("x", validators=["true"]).start()
