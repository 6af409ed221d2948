"""`judge_goal`: one audit of a chat or a transcript, without a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from goalrunner.app.library import run_blocking
from goalrunner.app.models import judge_llm as goal_llm
from goalrunner.app.resources import goal_redactor
from goalrunner.app.run_options import JudgeChoice
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal, JudgeConfig
from goalrunner.core.observation import Observation, Trail
from goalrunner.core.verdict import GoalVerdict
from goalrunner.judge import judge_goal_async
from goalrunner.judge.prompt_builder import Events
from goalrunner.llm import LLM
from goalrunner.records.redaction import Redactor


def judge_goal(judge_llm: JudgeChoice, objective: str | Goal, events: Events) -> GoalVerdict:
    """`ajudge_goal` for code that does not await. Raises UsageError inside a running event loop."""
    return run_blocking(ajudge_goal(judge_llm, objective, events), "judge_goal", "ajudge_goal")


async def ajudge_goal(judge_llm: JudgeChoice, objective: str | Goal, events: Events) -> GoalVerdict:
    """Ask a judge once whether the objective is provably complete; its citations are checked.

    `events` is a Trail (`read_transcript(path)`), or chat messages in OpenAI's shape. A reply that cannot be read ends in
    a verdict with source "fallback": score 0, not complete. Raises ModelError when the judge cannot be asked, UsageError
    for an empty objective. Secrets are replaced in the events before the judge sees them. (Source: OpenHands' judge_goal.)
    """
    if judge_llm is None and isinstance(objective, Goal):
        judge_llm = objective.judge
    config = judge_llm if isinstance(judge_llm, JudgeConfig) else None
    redactor = goal_redactor(objective if isinstance(objective, Goal) else Goal(objective="audit"), os.environ)
    shown = _redacted(events, redactor)
    return await judge_goal_async(judge_model(judge_llm), objective, shown, config=config, redact=redactor.text)


def _redacted(events: Events, redactor: Redactor) -> Events:
    """What happened without secrets; citations are matched on the same text."""
    if not isinstance(events, Trail):
        # What is no chat is refused where it is read.
        known = isinstance(events, Sequence) and not isinstance(events, str | bytes)
        return [redactor.json(item) if isinstance(item, Mapping) else item for item in events] if known else events
    items = tuple(
        item.model_copy(update={"command": redactor.text(item.command), "facts": tuple(map(redactor.text, item.facts))})
        if isinstance(item, Observation)
        else item
        for item in events.items
    )
    return Trail(items=items, read=lambda item: redactor.text(events.read(item)))


def judge_model(choice: JudgeChoice) -> LLM:
    """The model behind a choice of judge. Raises UsageError if none is given."""
    if isinstance(choice, LLM):
        return choice
    if not isinstance(choice, JudgeConfig | str | None):
        raise UsageError(f"a {type(choice).__name__} is no judge", "give an LLM, a model's name, or a JudgeConfig")
    config = choice if isinstance(choice, JudgeConfig) else JudgeConfig(choice or "")
    llm = goal_llm(Goal(objective="audit", judge=config))
    if llm is None:
        raise UsageError("no judge is given", "give a model: --judge openai/gpt-5-mini, or judge = in the goal file")
    return llm
