"""`run_goal` and `arun_goal`: the loop over a conversation that the caller holds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from goalrunner.agents import ChatConversation
from goalrunner.api.request import Check, EventCallback, JudgeChoice, Request
from goalrunner.api.session import finish
from goalrunner.compose import Assembly, Extras, assemble, goal_conversation
from goalrunner.compose import judge_llm as goal_llm
from goalrunner.errors import UsageError
from goalrunner.events import Event
from goalrunner.llm import LLM, warm_up
from goalrunner.model.goal import DEFAULT_MAX_ITERATIONS, Goal
from goalrunner.model.outcome import GoalOutcome
from goalrunner.ports import Conversation
from goalrunner.process import ProcessLauncher
from goalrunner.prompts import ResumePrompt
from goalrunner.runs import goal_home

T = TypeVar("T")


def run_goal(
    conversation: Conversation, objective: str | Goal, judge_llm: JudgeChoice = None, **options: Any
) -> GoalOutcome:
    """`arun_goal` for code that does not await; the same arguments. Raises UsageError inside a running event loop."""
    return run_blocking(arun_goal(conversation, objective, judge_llm, **options), "run_goal", "arun_goal")


async def arun_goal(
    conversation: Conversation,
    objective: str | Goal,
    judge_llm: JudgeChoice = None,
    *,
    max_iterations: float | None = DEFAULT_MAX_ITERATIONS,
    timeout: float | None = None,
    validators: Sequence[Check] = (),
    preserve_context: bool = True,
    resume_prompt: ResumePrompt | None = None,
    prompt: str | None = None,
    workspace: Path | str | None = None,
    on_event: Callable[[Event], None] | None = None,
    home: Path | None = None,
) -> GoalOutcome:
    """Drive the conversation until the objective is provably complete or a limit stops it.

    All turns land in `conversation`; nothing is forked. `objective` is a text, or a Goal whose own fields then say what
    the keywords would (`max_iterations`, `timeout` and `preserve_context` given here win over the Goal's).
    `judge_llm` audits each round: an LLM, a model's name, or a JudgeConfig; None: validators alone decide.
    `max_iterations` None or inf lifts the cap; `timeout` is in seconds. `prompt` is the first user message where the
    objective is only its quality bar. `on_event` is called with each event once it is on disk. The run's folder is made
    under `home` (default: GOAL_HOME). Raises UsageError, ConversationBusy and RecordError; failures of models end in
    the outcome. (Sources: OpenHands' run_goal, Strands' GoalLoop.)
    """
    request = Request(
        objective=objective,
        judge_llm=judge_llm,
        max_iterations=max_iterations,
        timeout=timeout,
        validators=validators,
        preserve_context=preserve_context,
        resume_prompt=resume_prompt,
        prompt=prompt,
        workspace=workspace,
    )
    return await finish(assemble_request(request, conversation, on_event, home), signals=False)


def assemble_request(
    request: Request, conversation: Conversation, on_event: Callable[[Event], None] | None, home: Path | None
) -> Assembly:
    """The run of a request over a conversation that exists already."""
    goal = request.goal()
    judge = request.judge_llm if isinstance(request.judge_llm, LLM) else goal_llm(goal)
    warm_up([judge.model] if judge else [])
    extras = Extras(
        conversation=conversation,
        judge_llm=judge,
        validators=request.own_validators(),
        resume_prompt=request.resume_prompt,
        first_prompt=request.prompt,
    )
    observers = () if on_event is None else (EventCallback(on_event),)
    return assemble(goal, home=home or goal_home(os.environ), observers=observers, extras=extras)


def chat_conversation(model: str | LLM, *, workspace: Path | str = ".", **agent: Any) -> ChatConversation:
    """The built-in agent in a folder. `agent` holds further fields of AgentConfig: max_steps, system_prompt, params, env, ..."""
    llm = model if isinstance(model, LLM) else None
    name = llm.model if llm else str(model)
    goal = Goal.model_validate({"objective": "chat", "agent": {"model": name, **agent}})
    config = goal.agent
    llm = llm or LLM(name, api_base=config.api_base, api_key_env=config.api_key_env, params=config.params)
    return goal_conversation(goal, llm, Path(workspace).resolve(), ProcessLauncher(), os.environ)


def run_blocking(work: Coroutine[Any, Any, T], name: str, instead: str) -> T:
    """Run a coroutine to its end. Raises UsageError where an event loop is running already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise UsageError(f"{name} cannot be called inside a running event loop", f"await {instead}(...) there")
