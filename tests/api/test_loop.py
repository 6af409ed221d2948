"""`run_goal` and `arun_goal` over the built-in agent with recorded words: tools, validators and files are real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import goalrunner
from goalrunner import LLM, Goal, GoalStatus, JudgeConfig, ValidationOutcome, arun_goal, chat_conversation, run_goal
from goalrunner.errors import ConversationBusy, UsageError
from goalrunner.events import Event
from tests.support.recordings import agent, judge, quote, recording, shell


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def test_the_first_steps_of_the_readme(tmp_path: Path, workspace: Path) -> None:
    def short(response: dict[str, Any], agent: Any) -> bool | dict[str, Any]:
        words = len(" ".join(block["text"] for block in response["content"]).split())
        return True if words <= 5 else {"passed": False, "feedback": f"{words} words; at most 5"}

    model = recording(tmp_path / "r.jsonl", agent("one two three four five six"), agent("light bends in drops"))
    outcome = run_goal(chat_conversation(model, workspace=workspace), "Explain rainbows.", validators=[short])
    assert (outcome.status, outcome.stop_reason, outcome.passed) == ("complete", "satisfied", True)
    assert [(a.attempt, a.passed, a.feedback) for a in outcome.attempts] == [
        (1, False, "validator short: 6 words; at most 5\n6 words; at most 5"),
        (2, True, None),
    ]


async def test_every_turn_lands_in_the_conversation_that_was_passed(tmp_path: Path, workspace: Path) -> None:
    model = recording(tmp_path / "r.jsonl", agent("", shell("echo 1 > a")), agent("first"), agent("second"))
    conversation = chat_conversation(model, workspace=workspace)
    outcome = await arun_goal(conversation, "two rounds", validators=[Counter(2)], workspace=workspace)
    assert outcome.iterations == 2
    assert [message["role"] for message in conversation.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert (workspace / "a").read_text() == "1\n"


class Counter:
    """A callable validator that passes at its n-th call."""

    def __init__(self, passes_at: int) -> None:
        self._left = passes_at

    async def __call__(self, response: object, agent: object) -> ValidationOutcome:
        self._left -= 1
        return ValidationOutcome(passed=self._left <= 0, feedback="not yet")


async def test_a_judge_of_its_own_with_an_account_of_its_own(tmp_path: Path, workspace: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent("", shell("echo hello"), usage={"input_tokens": 100, "output_tokens": 10}),
        agent("said it", usage={"input_tokens": 120, "output_tokens": 5}),
        judge(("it says hello", [quote("o1", "hello")]), usage={"input_tokens": 300, "output_tokens": 20}),
    )
    judge_llm = LLM(model, account="judge")
    events: list[Event] = []
    outcome = await arun_goal(
        chat_conversation(model, workspace=workspace), "say hello", judge_llm, on_event=events.append
    )
    assert outcome.passed
    assert outcome.usage["agent"].tokens == 235
    assert outcome.usage["judge"].tokens == judge_llm.usage.tokens == 320
    assert [event.type for event in events[:2]] == ["goal_created", "run_started"]
    assert events[-1].type == "completed"


def test_a_judge_may_be_a_name_or_a_configuration(tmp_path: Path, workspace: Path) -> None:
    choices: tuple[Callable[[str], str | JudgeConfig], ...] = (
        str,
        lambda name: JudgeConfig(model=name, system_prompt="be strict"),
    )
    for number, make in enumerate(choices):
        model = recording(
            tmp_path / f"{number}.jsonl",
            agent("", shell("echo hello")),
            agent("said it"),
            judge(("it says hello", [quote("o1", "hello")])),
        )
        assert run_goal(chat_conversation(model, workspace=workspace), "say hello", make(model)).passed


def test_the_response_can_be_the_deliverable(tmp_path: Path, workspace: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent("Refraction and dispersion."),
        judge(("no jargon", []), missing="no jargon, please"),
        agent("Light bends in drops."),
        judge(("no jargon", [quote("o2", "Light bends in drops.")])),
    )
    goal = Goal(objective="Explain rainbows.", success_criteria=("no jargon",), deliverable="response")
    outcome = run_goal(chat_conversation(model, workspace=workspace), goal, model)
    assert (outcome.status, outcome.iterations) == (GoalStatus.COMPLETE, 2)


def test_a_claim_is_no_evidence(tmp_path: Path, workspace: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent("all tests pass"),
        judge(("tests pass", [quote("o1", "all tests pass")])),
    )
    outcome = run_goal(chat_conversation(model, workspace=workspace), "tests pass", model, max_iterations=1)
    assert outcome.status is GoalStatus.CAPPED
    assert outcome.verdict is not None
    assert not outcome.verdict.complete


def test_stateless_retries_see_the_original_input_and_the_latest_feedback(tmp_path: Path, workspace: Path) -> None:
    model = recording(tmp_path / "r.jsonl", agent("a"), agent("b"), agent("c"))
    conversation = chat_conversation(model, workspace=workspace)
    prompts: list[str] = []

    def check(response: object, agent: Any) -> dict[str, Any] | bool:
        prompts.append("|".join(m["content"] for m in agent.messages if m["role"] == "user"))
        return True if len(prompts) == 3 else {"passed": False, "feedback": f"feedback {len(prompts)}"}

    outcome = run_goal(
        conversation,
        "quality bar",
        validators=[check],
        preserve_context=False,
        prompt="Explain rainbows.",
        resume_prompt=lambda feedback: f"Start over: {feedback}",
    )
    assert outcome.passed
    assert prompts == [
        "Explain rainbows.",
        "Explain rainbows.\n\nStart over: validator check: feedback 1\nfeedback 1",
        "Explain rainbows.\n\nStart over: validator check: feedback 2\nfeedback 2",
    ]


async def test_run_goal_inside_a_running_loop_names_its_async_twin(tmp_path: Path, workspace: Path) -> None:
    conversation = chat_conversation(recording(tmp_path / "r.jsonl", agent("a")), workspace=workspace)
    with pytest.raises(UsageError, match=r"await arun_goal"):
        run_goal(conversation, "x", validators=["true"])


async def test_a_second_driver_is_refused(tmp_path: Path, workspace: Path) -> None:
    conversation = chat_conversation(recording(tmp_path / "r.jsonl", agent("a", delay=20)), workspace=workspace)
    first = asyncio.create_task(arun_goal(conversation, "x", validators=["true"]))
    await asyncio.sleep(0.2)
    with pytest.raises(ConversationBusy):
        await arun_goal(conversation, "y", validators=["true"])
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


def test_nobody_to_check_is_refused(tmp_path: Path, workspace: Path) -> None:
    conversation = chat_conversation(recording(tmp_path / "r.jsonl", agent("a")), workspace=workspace)
    with pytest.raises(UsageError, match="nobody can check this goal") as refusal:
        run_goal(conversation, "x")
    assert 'judge = "agent"' in refusal.value.hint
    assert "validator = " in refusal.value.hint


def test_the_run_leaves_its_records_and_nothing_in_the_workspace(
    tmp_path: Path, workspace: Path, own_home: Path
) -> None:
    model = recording(tmp_path / "r.jsonl", agent("done"))
    outcome = run_goal(chat_conversation(model, workspace=workspace), "x", validators=["true"], workspace=workspace)
    folder = Path(outcome.run_path)
    assert folder.parent == own_home / "runs"
    assert {path.name for path in folder.iterdir()} >= {
        "artifacts",
        "events.jsonl",
        "goal.toml",
        "outcome.json",
        "summary.json",
        "transcript.jsonl",
    }
    written = json.loads((folder / "outcome.json").read_text())
    assert (written["status"], written["iterations"], written["run_id"]) == ("complete", 1, folder.name)
    assert list(workspace.iterdir()) == []


def test_the_deadline_cuts_a_tool_and_the_outcome_is_written(tmp_path: Path, workspace: Path) -> None:
    model = recording(tmp_path / "r.jsonl", agent("", shell("sleep 60")))
    conversation = chat_conversation(model, workspace=workspace)
    outcome = run_goal(conversation, "x", validators=["true"], timeout=0.6, workspace=workspace)
    assert (outcome.status, outcome.stop_reason) == ("capped", "timeout")
    assert outcome.duration < 10
    assert json.loads((Path(outcome.run_path) / "outcome.json").read_text())["stop_reason"] == "timeout"
    assert "interrupted" in str(conversation.messages[-1]["content"])


def test_inf_lifts_the_cap(tmp_path: Path, workspace: Path) -> None:
    model = recording(tmp_path / "r.jsonl", *(agent(str(number)) for number in range(12)))
    outcome = run_goal(
        chat_conversation(model, workspace=workspace), "x", validators=[Counter(12)], max_iterations=float("inf")
    )
    assert (outcome.passed, outcome.iterations) == (True, 12)


def test_every_public_name_is_there() -> None:
    for name in goalrunner.__all__:
        assert getattr(goalrunner, name) is not None
    assert set(goalrunner.__all__) <= set(dir(goalrunner))
    with pytest.raises(AttributeError):
        _ = goalrunner.nothing
