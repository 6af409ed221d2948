"""`judge_goal`: one audit without a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner import LLM, Goal, JudgeConfig, build_judge_prompt, judge_goal
from goalrunner.core.errors import GoalError, UsageError
from tests.support.recordings import judge, quote, recording

CHAT = [
    {"role": "system", "content": "you are secret"},
    {"role": "user", "content": "make it pass"},
    {"role": "tool", "tool_call_id": "c", "content": "3 passed"},
    {"role": "assistant", "content": "all good"},
]


def test_it_grades_a_chat(tmp_path: Path) -> None:
    model = recording(
        tmp_path / "r.jsonl", judge(("tests pass", [quote("o1", "3 passed")]))
    )
    verdict = judge_goal(LLM(model, account="judge"), "make it pass", CHAT)
    assert (verdict.score, verdict.complete, verdict.missing) == (1.0, True, "")


def test_a_quote_that_is_nowhere_is_not_complete(tmp_path: Path) -> None:
    # Told once that the words are not there, the judge repeats them.
    model = recording(
        tmp_path / "r.jsonl", *[judge(("tests pass", [quote("o1", "4 passed")]))] * 2
    )
    verdict = judge_goal(model, Goal(objective="make it pass"), CHAT)
    assert not verdict.complete
    assert "4 passed" in verdict.missing


def test_an_unreadable_judge_falls_back(tmp_path: Path) -> None:
    replies = [{"account": "judge", "text": "it looks fine to me"}] * 3
    verdict = judge_goal(
        JudgeConfig(model=recording(tmp_path / "r.jsonl", *replies)),
        "make it pass",
        CHAT,
    )
    assert (verdict.score, verdict.complete, verdict.source) == (0.0, False, "fallback")


def test_blocks_of_tools_are_evidence_and_an_unknown_block_is_named(
    tmp_path: Path,
) -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "3 passed"}
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "make it pass"},
        {"role": "user", "content": [result]},
    ]
    model = recording(
        tmp_path / "r.jsonl", judge(("tests pass", [quote("o1", "3 passed")]))
    )
    assert judge_goal(model, "make it pass", chat).complete
    unknown = [*chat, {"role": "assistant", "content": [{"type": "riddle"}]}]
    for ask in (
        lambda: judge_goal(model, "x", unknown),
        lambda: build_judge_prompt("x", unknown),
    ):
        with pytest.raises(
            UsageError, match="message 3 has a block of the unknown kind 'riddle'"
        ):
            ask()


def test_no_judge_is_refused() -> None:
    with pytest.raises(UsageError, match="no judge is given"):
        judge_goal(None, "x", CHAT)


def test_an_error_of_a_judge_has_no_error_of_the_runner_as_its_context() -> None:
    def broken(_: Any) -> str:
        raise KeyError("mine")

    with pytest.raises(GoalError) as raised:
        judge_goal(broken, "x", CHAT)
    chain: BaseException | None = raised.value
    while chain is not None:
        assert "event loop" not in str(chain)
        chain = chain.__cause__ or chain.__context__
