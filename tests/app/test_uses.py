"""Whole uses of the library as their authors would write them: a quality bar, a test suite and a judge of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner import (
    JUDGE_SYSTEM_PROMPT,
    LLM,
    Goal,
    GoalStatus,
    JudgeConfig,
    JudgeOutcome,
    build_judge_prompt,
    chat_conversation,
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
    outcome = run_goal(
        chat_conversation(model),
        goal,
        model,
        max_iterations=3,
        prompt="Explain how rainbows form.",
    )
    assert (outcome.passed, outcome.stop_reason) == (True, "satisfied")
    assert [attempt.passed for attempt in outcome.attempts] == [False, True]
    assert "there is jargon: refraction" in (outcome.attempts[0].feedback or "")


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

    model = recording(
        tmp_path / "r.jsonl", agent("A long and winding answer."), agent("Short.")
    )
    outcome = run_goal(
        chat_conversation(model),
        "Be concise.",
        validators=custom_judge,
        max_iterations=3,
    )
    assert (outcome.passed, outcome.iterations) == (True, 2)
    assert "shorter" in (outcome.attempts[0].feedback or "")


def test_a_configured_judge_and_a_look_at_the_attempts(
    tmp_path: Path, workspace: Path
) -> None:
    model = recording(
        tmp_path / "r.jsonl",
        agent("one source"),
        judge(("two sources", []), missing="a second source"),
        agent("still one"),
        judge(("two sources", []), missing="a second source still"),
    )
    outcome = run_goal(
        chat_conversation(model),
        Goal(
            objective="Response must cite at least two sources.", deliverable="response"
        ),
        JudgeConfig(model=model, system_prompt="Be strict."),
        max_iterations=2,
    )
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        GoalStatus.CAPPED,
        "max_iterations",
        2,
    )
    assert outcome.verdict is not None
    assert not outcome.verdict.complete
    assert [attempt.attempt for attempt in outcome.attempts] == [1, 2]
    assert outcome.verdict.missing.startswith("a second source still")
