"""`judge_goal`: one audit of a chat, without a run; and the judge of a goal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from goalrunner.app.keywords import JudgeChoice, no_judge, own_judge
from goalrunner.app.resolve import goal_redactor, withheld
from goalrunner.app.run_options import goal_model
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AGENT_MODEL, JudgeConfig
from goalrunner.core.observation import Observation, Trail
from goalrunner.core.verdict import GoalVerdict
from goalrunner.judge.audit import judge_goal_async
from goalrunner.judge.prompt_builder import Events
from goalrunner.llm import LLM
from goalrunner.records.redaction import Redactor

T = TypeVar("T")


def run_blocking(work: Coroutine[Any, Any, T], name: str, instead: str) -> T:
    """Run a coroutine to its end. Raise UsageError in a running event loop."""
    loop = None
    with suppress(RuntimeError):
        loop = asyncio.get_running_loop()
    if loop is None:  # outside of the block, whose error would be in each traceback of the work
        return asyncio.run(work)
    work.close()
    raise UsageError(f"{name} cannot be called inside a running event loop", f"await {instead}(...) there")


def judge_goal(judge_llm: JudgeChoice, objective: str | Goal, events: Events) -> GoalVerdict:
    """Run `ajudge_goal` in an event loop of its own. Raise UsageError inside a running event loop."""
    return run_blocking(ajudge_goal(judge_llm, objective, events), "judge_goal", "ajudge_goal")


async def ajudge_goal(judge_llm: JudgeChoice, objective: str | Goal, events: Events) -> GoalVerdict:
    """Ask a judge once whether the objective is provably complete; its citations are checked.

    `events` is a Trail (`read_transcript(path)`), or chat messages in OpenAI's shape. A reply that cannot be read ends in
    a verdict with source "fallback": score 0, not complete. Raise ModelError when the judge cannot be asked, UsageError
    for an empty objective. Secrets are replaced in the events before the judge sees them. (Source: OpenHands' judge_goal.)
    """
    goal = objective if isinstance(objective, Goal) else Goal(objective="audit")
    choice = goal.judge if judge_llm is None else judge_llm
    llm, config = own_judge(choice), choice if isinstance(choice, JudgeConfig) else None
    if llm is None:
        if config is None and not isinstance(choice, str):
            raise no_judge(choice)
        llm = goal_judge(Goal(objective="audit", judge=choice))
    redactor = goal_redactor(goal, os.environ, withheld(goal))
    shown = redacted_events(events, redactor)
    return await judge_goal_async(llm, objective, shown, config=config, redact=redactor.text)


def redacted_events(events: Events, redactor: Redactor) -> Events:
    """Return the events without secrets; citations are matched on the same text."""
    if isinstance(events, Trail):
        items = tuple(
            item.model_copy(
                update={"command": redactor.text(item.command), "facts": tuple(map(redactor.text, item.facts))}
            )
            if isinstance(item, Observation)
            else item
            for item in events.items
        )
        return replace(events, items=items, read=lambda item: redactor.text(events.read(item)))
    # What is no chat is refused where it is read.
    known = isinstance(events, Sequence) and not isinstance(events, str | bytes)
    return [redactor.json(item) if isinstance(item, Mapping) else item for item in events] if known else events


def goal_judge(goal: Goal) -> LLM:
    """Return a new model for the judge of a goal. Raise UsageError if it has none."""
    llm = own_judge(judged_by(goal).judge) or goal_model(goal, "judge")
    assert llm is not None, "it has a judge"
    return llm


def judged_by(goal: Goal) -> Goal:
    """Return a goal that has a judge of its own. Raise UsageError for another one."""
    if not goal.has_judge:
        raise UsageError("no judge is given", "add --judge MODEL, or set GOAL_JUDGE")
    if goal.judge.model == AGENT_MODEL and not goal.agent.model:
        raise UsageError('judge = "agent" needs a model of the agent', "add --judge MODEL")
    return goal
