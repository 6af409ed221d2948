"""Whole uses of the library as their authors would write them: a quality bar, a test suite, a judge and a driver of one's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    JUDGE_SYSTEM_PROMPT,
    LLM,
    Goal,
    GoalContinue,
    GoalController,
    GoalDone,
    GoalStatus,
    JudgeConfig,
    JudgeOutcome,
    ValidationOutcome,
    arun_goal,
    build_judge_prompt,
    chat_conversation,
    judge_goal,
    run_goal,
)
from tests.support.recordings import agent, judge, quote, recording

BAR = "At most 3 sentences, accessible to a 10-year-old, no jargon."


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_quality_bar_in_words(tmp_path: Path, workspace: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent("Refraction and dispersion occur."),
        judge((BAR, []), missing="there is jargon: refraction"),
        agent("Light bends in drops of rain."),
        judge((BAR, [quote("o2", "Light bends in drops of rain.")])),
    )
    goal = Goal(objective=BAR, deliverable="response")
    outcome = run_goal(chat_conversation(model), goal, model, max_iterations=3, prompt="Explain how rainbows form.")
    assert (outcome.passed, outcome.stop_reason) == (True, "satisfied")
    assert [attempt.passed for attempt in outcome.attempts] == [False, True]
    assert "there is jargon: refraction" in (outcome.attempts[0].feedback or "")


def test_a_word_count(tmp_path: Path, workspace: Path) -> None:
    def word_count_validator(response: dict[str, Any], agent: Any) -> bool | dict[str, Any]:
        text = " ".join(block["text"] for block in response["content"] if "text" in block)
        words = len(text.split())
        if words <= 50:
            return True
        return {"passed": False, "feedback": f"Too long ({words} words). Cap at 50."}

    model = recording(tmp_path / "r.jsonl", agent("word " * 60), agent("word " * 50))
    outcome = run_goal(
        chat_conversation(model), "Explain it.", validators=word_count_validator, max_iterations=5, timeout=30.0
    )
    assert outcome.passed
    assert "Too long (60 words). Cap at 50." in (outcome.attempts[0].feedback or "")


async def test_a_test_suite_that_is_awaited(tmp_path: Path, workspace: Path) -> None:
    async def tests_pass(response: dict[str, Any], agent: Any) -> bool | dict[str, Any]:
        script = "echo 1 failed >&2; exit 1" if "not" in response["content"][0]["text"] else "echo 1 passed"
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        if process.returncode == 0:
            return True
        output = (out.decode() + err.decode())[-4000:]
        return {"passed": False, "feedback": f"pytest exited {process.returncode}.\n{output}"}

    model = recording(tmp_path / "r.jsonl", agent("not yet"), agent("now"))
    outcome = await arun_goal(chat_conversation(model), "Make it pass.", validators=tests_pass)
    assert (outcome.passed, outcome.iterations) == (True, 2)
    assert "pytest exited 1.\n1 failed" in (outcome.attempts[0].feedback or "")


def test_a_retry_that_starts_over_and_what_is_said_without_feedback(tmp_path: Path, workspace: Path) -> None:
    given: list[str | None] = []

    def start_over_prompt(feedback: str | None) -> str:
        given.append(feedback)
        if not feedback:
            return "That didn't pass. Start over from scratch with a different approach."
        return f"Validation failed:\n{feedback}\n\nDo NOT edit your previous response."

    answers = iter([ValidationOutcome(passed=False, feedback="too long"), False, True])
    model = recording(tmp_path / "r.jsonl", agent("a"), agent("b"), agent("c"))
    conversation = chat_conversation(model)
    outcome = run_goal(
        conversation,
        "quality bar",
        validators=lambda response, agent: next(answers),
        resume_prompt=start_over_prompt,
        preserve_context=False,
        max_iterations=3,
    )
    assert outcome.passed
    assert given[0] is not None
    assert "too long" in given[0]
    asked = [message["content"] for message in conversation.messages if message["role"] == "user"]
    assert len(asked) == 1
    assert "too long" not in asked[0]


def test_a_judge_of_ones_own_from_our_parts(tmp_path: Path, workspace: Path) -> None:
    async def custom_judge(response: dict[str, Any], agent: Any) -> dict[str, Any]:
        verdict = judge(("Be concise.", []), missing="shorter")
        if len(response["content"][0]["text"]) < 10:
            verdict = judge(("Be concise.", [quote("o1", "Short.")]))
        llm = LLM(recording(tmp_path / "judge.jsonl", verdict), account="judge")
        prompt = build_judge_prompt("Be concise.", agent.messages)
        system = {"role": "system", "content": JUDGE_SYSTEM_PROMPT}
        reply = await llm.complete([system, {"role": "user", "content": prompt}])
        outcome = JudgeOutcome.model_validate_json(reply.text)
        return {"passed": outcome.passed, "feedback": outcome.feedback}

    model = recording(tmp_path / "r.jsonl", agent("A long and winding answer."), agent("Short."))
    outcome = run_goal(chat_conversation(model), "Be concise.", validators=custom_judge, max_iterations=3)
    assert (outcome.passed, outcome.iterations) == (True, 2)
    assert "shorter" in (outcome.attempts[0].feedback or "")


def test_a_configured_judge_and_a_look_at_the_attempts(tmp_path: Path, workspace: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent("one source"),
        judge(("two sources", []), missing="a second source"),
        agent("still one"),
        judge(("two sources", []), missing="a second source still"),
    )
    outcome = run_goal(
        chat_conversation(model),
        Goal(objective="Response must cite at least two sources.", deliverable="response"),
        JudgeConfig(model=model, system_prompt="Be strict."),
        max_iterations=2,
    )
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (GoalStatus.CAPPED, "max_iterations", 2)
    assert outcome.verdict is not None
    assert not outcome.verdict.complete
    assert [attempt.attempt for attempt in outcome.attempts] == [1, 2]
    assert outcome.verdict.missing.startswith("a second source still")


def test_a_driver_of_ones_own_asks_the_controller(tmp_path: Path, workspace: Path) -> None:
    def agents_answer(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if len(chat) == 1:
            return [{"role": "assistant", "content": "All tests pass."}]
        call = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"command": "pytest"}'}}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "3 passed"},
            {"role": "assistant", "content": "See above."},
        ]

    model = recording(
        tmp_path / "r.jsonl",
        judge(("the tests pass", []), missing="run the tests and show it"),
        judge(("the tests pass", [quote("o1", "3 passed")])),
    )
    controller = GoalController("Make the tests pass.", LLM(model, account="judge"), max_iterations=10)
    chat: list[dict[str, Any]] = [{"role": "user", "content": controller.start()}]
    for _ in range(10):
        chat += agents_answer(chat)
        decision = controller.on_run_finished(chat)
        if isinstance(decision, GoalDone):
            break
        assert isinstance(decision, GoalContinue)
        assert "run the tests and show it" in decision.followup
        chat.append({"role": "user", "content": decision.followup})
    assert isinstance(decision, GoalDone)
    assert (decision.outcome.status, decision.outcome.iterations) == ("complete", 2)

    again = LLM(recording(tmp_path / "s.jsonl", judge(("tests", [quote("o1", "3 passed")]))), account="judge")
    verdict = judge_goal(again, "Make the tests pass.", chat)
    assert (verdict.complete, verdict.score, verdict.missing) == (True, 1.0, "")
