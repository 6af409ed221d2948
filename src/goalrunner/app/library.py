"""`run_goal` and `arun_goal`, and conversations for callers."""

from __future__ import annotations

import asyncio
import os
import signal
import warnings
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

from pydantic import ValidationError

from goalrunner.agents import ChatConversation
from goalrunner.app.build import Assembly, assemble
from goalrunner.app.enforcement import refuse_unconfined
from goalrunner.app.models import judge_llm as goal_llm
from goalrunner.app.resources import Extras, goal_conversation
from goalrunner.app.run_options import (
    EventCallback,
    JudgeChoice,
    Request,
    RunOptions,
    existing_folder,
    refusal,
    request_of,
    shows_options,
)
from goalrunner.app.session import finish
from goalrunner.core.agent_ports import Conversation
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import AGENT_MODEL, Goal
from goalrunner.core.messages import KNOWN_BLOCKS, ROLES, unknown_block
from goalrunner.core.outcome import GoalOutcome
from goalrunner.engine.journal import refuse_driven
from goalrunner.llm import LLM, warm_up
from goalrunner.records.run_folder import goal_home
from goalrunner.system.launcher import ProcessLauncher

_HINT = "pass the whole chat in OpenAI's shape: [{'role': 'assistant', 'content': '...'}, ...]"


def refuse_no_chat(messages: object) -> None:
    """Raises UsageError for what is no list of chat messages; an empty one is a chat in which nothing was said."""
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise UsageError(f"messages must be a list of chat messages, not {_kind(messages)}", _HINT)
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping):
            raise UsageError(f"message {number} is no chat message but {_kind(message)}", _HINT)
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or role not in ROLES:
            raise UsageError(f"message {number} has the role {role!r:.40}; known: {', '.join(sorted(ROLES))}", _HINT)
        if not isinstance(content, str | list | tuple | Mapping | None):
            raise UsageError(f"the content of message {number} is neither text nor blocks but {_kind(content)}", _HINT)
        if kind := unknown_block(content):
            raise UsageError(f"message {number} has a block of the unknown kind {kind!r}", KNOWN_BLOCKS)


def refuse_no_conversation(value: Any) -> None:
    """Raises UsageError for what cannot be driven."""
    if callable(getattr(value, "send", None)) and hasattr(value, "messages") and not isinstance(value, type):
        return
    name = f'"{value}"' if isinstance(value, str) else _kind(value)
    wanted = value if isinstance(value, str) and value.strip() else "provider/model"
    raise UsageError(
        f"{name} is no conversation: it has no send and messages",
        f'pass chat_conversation("{wanted}"), or an object like goalrunner.core.agent_ports.Conversation',
    )


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


T = TypeVar("T")


@shows_options
def run_goal(
    conversation: Conversation, objective: str | Goal, judge_llm: JudgeChoice = None, **options: Unpack[RunOptions]
) -> GoalOutcome:
    """`arun_goal` for code that does not await; the same arguments. Raises UsageError inside a running event loop.

    A validator's KeyboardInterrupt is raised here once the run has ended, as that of a Ctrl-C is.
    """
    work = _run(conversation, request_of("run_goal", objective, judge_llm, options))
    return interrupting(run_blocking(work, "run_goal", "arun_goal"))


@shows_options
async def arun_goal(
    conversation: Conversation, objective: str | Goal, judge_llm: JudgeChoice = None, **options: Unpack[RunOptions]
) -> GoalOutcome:
    """Drive the conversation until the objective is provably complete or a limit stops it.

    All turns land in `conversation`; nothing is forked. `objective` is a text, or a Goal; a keyword that is given wins over
    the Goal's field, and over that field alone. Without `workspace`, the run works in the conversation's folder.
    `judge_llm` audits each round: an LLM, a model's name, or a JudgeConfig; "agent", or a JudgeConfig without a model, is
    the conversation's own model as a separate instance, and so is None where there is no validator. With validators and
    None they alone decide.
    `validators` is one check or any number of them. A validator that raises KeyboardInterrupt ends the run as cancelled.
    `max_iterations` None or inf lifts the cap; `timeout` is in seconds. `prompt` is the first user message where the
    objective is only its quality bar. `on_event` is called with each event once it is on disk. The run's folder is made
    under `home` (default: GOAL_HOME). Raises UsageError, ConversationBusy and RecordError; failures of models end in
    the outcome. (Sources: OpenHands' run_goal, Strands' GoalLoop.)
    """
    return await _run(conversation, request_of("arun_goal", objective, judge_llm, options))


async def _run(conversation: Conversation, request: Request) -> GoalOutcome:
    return await finish(assemble_request(request, conversation))


def assemble_request(request: Request, conversation: Conversation, *, needs_round: bool = False) -> Assembly:
    """The run of a request over a conversation that exists already."""
    refuse_no_conversation(conversation)
    refuse_driven(conversation)
    folder = getattr(conversation, "workspace", None)
    goal = request.goal(
        has_model=isinstance(getattr(conversation, "llm", None), LLM),
        folder=Path(folder) if isinstance(folder, str | Path) else None,
    )
    refuse_unconfined(goal)
    if goal.unlimited:
        warnings.warn("nothing stops this run but success: no cap, no timeout, no budget", RuntimeWarning, stacklevel=4)
    judge = _judge(request, goal, conversation)
    warm_up([judge.model] if judge else [])
    extras = Extras(
        conversation=conversation,
        judge_llm=judge,
        validators=request.own_validators(),
        resume_prompt=request.resume_prompt,
        first_prompt=request.prompt,
        needs_round=needs_round,
    )
    observers = () if request.on_event is None else (EventCallback(request.on_event),)
    chosen = Path(request.home) if request.home else goal_home(os.environ)
    return assemble(goal, home=chosen, observers=observers, extras=extras, approver=request.approver)


def _judge(request: Request, goal: Goal, conversation: Conversation) -> LLM | None:
    """The judge's own instance; "agent" is the conversation's model once more, with an account of its own."""
    if isinstance(request.judge_llm, LLM):
        return request.judge_llm
    if goal.judge.model != AGENT_MODEL:
        return goal_llm(goal)
    llm = getattr(conversation, "llm", None)
    if not isinstance(llm, LLM):
        raise UsageError(
            'judge "agent" is the agent\'s own model, and this conversation shows none', "name a model for the judge"
        )
    config = goal.judge
    if config.api_base or config.api_key_env or config.params:
        return goal_llm(goal.model_copy(update={"agent": goal.agent.model_copy(update={"model": llm.model})}))
    return llm.separate("judge")


def chat_conversation(model: str | LLM, *, workspace: Path | str = ".", **agent: Any) -> ChatConversation:
    """The built-in agent in a folder. `agent` holds further fields of AgentConfig: max_steps, system_prompt, params, env, ...

    Raises UsageError for a model without a name, a folder that is not there, and fields that do not hold.
    """
    llm = model if isinstance(model, LLM) else None
    name = llm.model if llm else model
    if not isinstance(name, str) or not name.strip():
        raise UsageError(
            "the agent's model has no name", 'name one in LiteLLM\'s way: chat_conversation("provider/model")'
        )
    folder = existing_folder(workspace)
    try:
        goal = Goal.model_validate({"objective": "chat", "agent": {"model": name, **agent}})
    except ValidationError as error:
        raise refusal(error, "AgentConfig") from None
    config = goal.agent
    llm = llm or LLM(name, api_base=config.api_base, api_key_env=config.api_key_env, params=config.params)
    if llm.api_key_env:
        goal = goal.model_copy(update={"agent": config.model_copy(update={"api_key_env": llm.api_key_env})})
    return goal_conversation(goal, llm, folder, ProcessLauncher(), os.environ)


def interrupting(outcome: GoalOutcome) -> GoalOutcome:
    """The outcome. Raises KeyboardInterrupt where the run ended by one, so that the caller's program ends as well."""
    if outcome.signal == signal.SIGINT:
        raise KeyboardInterrupt
    return outcome


def run_blocking(work: Coroutine[Any, Any, T], name: str, instead: str) -> T:
    """Run a coroutine to its end. Raises UsageError where an event loop is running already."""
    if _in_a_loop():
        work.close()
        raise UsageError(f"{name} cannot be called inside a running event loop", f"await {instead}(...) there")
    return asyncio.run(work)


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
