"""`judge_goal`: one audit of a chat or a transcript, without a run. Owns no prompt and no check."""

from __future__ import annotations

from goalrunner.api.loop import run_blocking
from goalrunner.api.request import JudgeChoice
from goalrunner.compose import judge_llm as goal_llm
from goalrunner.errors import UsageError
from goalrunner.judge import judge_goal_async
from goalrunner.judge.prompts import Events
from goalrunner.llm import LLM
from goalrunner.model.goal import Goal, JudgeConfig
from goalrunner.model.verdict import GoalVerdict


def judge_goal(judge_llm: JudgeChoice, objective: str | Goal, events: Events) -> GoalVerdict:
    """`ajudge_goal` for code that does not await. Raises UsageError inside a running event loop."""
    return run_blocking(ajudge_goal(judge_llm, objective, events), "judge_goal", "ajudge_goal")


async def ajudge_goal(judge_llm: JudgeChoice, objective: str | Goal, events: Events) -> GoalVerdict:
    """Ask a judge once whether the objective is provably complete; its citations are checked.

    `events` is a Trail (`read_transcript(path)`), or chat messages in OpenAI's shape. A reply that cannot be read ends in
    a verdict with source "fallback": score 0, not complete. Raises ModelError when the judge cannot be asked, UsageError
    for an empty objective. (Source: OpenHands' judge_goal.)
    """
    config = judge_llm if isinstance(judge_llm, JudgeConfig) else None
    return await judge_goal_async(judge_model(judge_llm), objective, events, config=config)


def judge_model(choice: JudgeChoice) -> LLM:
    """The model behind a choice of judge. Raises UsageError where none is named."""
    if isinstance(choice, LLM):
        return choice
    if not isinstance(choice, JudgeConfig | str | None):
        raise UsageError(f"a {type(choice).__name__} is no judge", "give an LLM, a model's name, or a JudgeConfig")
    config = choice if isinstance(choice, JudgeConfig) else JudgeConfig(choice or "")
    llm = goal_llm(Goal(objective="audit", judge=config))
    if llm is None:
        raise UsageError("no judge is named", "give a model: --judge openai/gpt-5-mini, or judge = in the goal file")
    return llm
