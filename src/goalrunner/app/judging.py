"""The forms in which a caller gives a judge or a critic, the judge of a goal, and `judge_goal`: one audit without a run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

from goalrunner.app.run_options import goal_model, goal_redactor
from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import UsageError, kind_of
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AGENT_MODEL, CriticConfig, JudgeConfig
from goalrunner.core.observation import Observation, Trail
from goalrunner.core.ports import Critic
from goalrunner.core.verdict import GoalVerdict
from goalrunner.judge.audit import judge_goal_async
from goalrunner.judge.prompt_builder import Events
from goalrunner.llm import LLM, as_model
from goalrunner.records.redaction import Redactor

T = TypeVar("T")


class Completing(Protocol):
    """A model of the calling program."""

    def complete(self, messages: Sequence[Message], /) -> str | Awaitable[str]:
        """Return the answer to system and user messages."""


JudgeChoice = LLM | JudgeConfig | str | Completing | Callable[[Sequence[Message]], str | Awaitable[str]] | None
"""A model instance, its configuration, its name, a function or object that answers messages, or no judge."""

CriticChoice = Critic | LLM | CriticConfig | str | None
"""A callable `(response, agent)`, a model instance, a configuration, a model's name, or no critic but that of the Goal."""


def judge_of(goal: Goal, judge: JudgeChoice = None, *, default: bool = False) -> tuple[JudgeConfig, LLM | None]:
    """Return the configuration of a judge, and the judge if it is itself a model; None is the judge of the goal.

    A judge with settings and without a model is the agent's own model; `default`: so is the judge of a goal that has none.
    Raise UsageError for a value that is no judge.
    """
    config = judge if isinstance(judge, JudgeConfig) else goal.judge
    if isinstance(judge, str) and judge.strip():
        return config.model_copy(update={"model": judge}), None
    if judge is not None and judge is not config:
        if (own := as_model(judge)) is None:
            hint = "give an LLM, a model's name, a JudgeConfig, or a function or object with complete(messages) -> str"
            raise UsageError(f"{kind_of(judge)} is not a judge", hint)
        return config.model_copy(update={"model": own.model}), own
    if not config.model and (default or judge is not None or config != JudgeConfig()):
        config = config.model_copy(update={"model": AGENT_MODEL})
    return config, as_model(config.instance)


def own_critic(critic: Any) -> LLM | Critic | None:
    """Return a critic that is no part of the Goal. Raise UsageError for what is no critic."""
    if isinstance(critic, LLM):
        return critic.separate("critic")
    if isinstance(critic, CriticConfig | None) or (isinstance(critic, str) and critic.strip()):
        return None
    if not callable(critic):
        hint = "give a callable (response, agent), an LLM, a model's name, or a CriticConfig"
        raise UsageError(f"{critic!r:.60} is not a critic", hint)
    return cast("Critic", critic)


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
    config, llm = judge_of(goal, judge_llm)
    llm = llm or goal_judge(Goal(objective="audit", judge=config))
    redactor = goal_redactor(goal, os.environ)
    return await judge_goal_async(
        llm, objective, redacted_events(events, redactor), config=config, redact=redactor.text
    )


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
    llm = judge_of(judged_by(goal))[1] or goal_model(goal, "judge")
    assert llm is not None, "it has a judge"
    return llm


def judged_by(goal: Goal) -> Goal:
    """Return a goal that has a judge of its own. Raise UsageError for another one."""
    if not goal.has_judge:
        raise UsageError("no judge is given", "add --judge MODEL, or set GOAL_JUDGE")
    if goal.judge.model == AGENT_MODEL and not goal.agent.model:
        raise UsageError('judge = "agent" needs a model of the agent', "add --judge MODEL")
    return goal
