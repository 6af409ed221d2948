"""`run_goal` and `arun_goal`, and conversations for callers."""

from __future__ import annotations

import inspect
import os
import signal
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack, cast

from pydantic import ValidationError

from goalrunner.agents.chat import ChatConversation
from goalrunner.app.build import PreparedRun, prepare_run
from goalrunner.app.external_agent import built_in_conversation
from goalrunner.app.judging import run_blocking
from goalrunner.app.keywords import (
    JudgeChoice,
    MinimalConversation,
    RunKeywords,
    existing_folder,
    goal_and_options,
    refusal,
    shows_options,
)
from goalrunner.app.resolve import withheld
from goalrunner.app.run_options import RunOptions, goal_model
from goalrunner.app.session import finish
from goalrunner.core.agent_ports import Conversation
from goalrunner.core.errors import UsageError, kind_of
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AGENT_MODEL
from goalrunner.core.limits import guarding_key
from goalrunner.core.outcome import GoalOutcome
from goalrunner.engine.journal import refuse_driven
from goalrunner.engine.turns import WANTED, accepts
from goalrunner.llm import LLM, warm_up
from goalrunner.llm.custom import OutsideModel
from goalrunner.system.launcher import ProcessLauncher, child_environment


def refuse_no_conversation(value: Any) -> None:
    """Raise UsageError if this cannot be driven."""
    wanted = value if isinstance(value, str) and value.strip() else "provider/model"
    hint = f'pass chat_conversation("{wanted}"), or an object like goalrunner.Conversation'
    if isinstance(value, type):
        raise UsageError(f"{value.__name__} is a class, not a conversation", hint)
    if lacks := [name for name in ("send", "messages") if not hasattr(value, name)]:
        name = f'"{value}"' if isinstance(value, str) else kind_of(value)
        raise UsageError(f"{name} is not a conversation: it has no {' and no '.join(lacks)}", hint)
    kind, messages = type(value).__name__, value.messages
    if not callable(value.send) or not (accepts(value.send, 2) or accepts(value.send, 1)):
        raise UsageError(f"{kind}.send cannot be called with a prompt and a recorder", WANTED)
    if callable(messages) or isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        hint = "make it a list, or a property that returns it"
        raise UsageError(f"{kind}.messages is {kind_of(messages)}, not a list", hint)


def refuse_no_checkpoint(goal: Goal, conversation: object) -> None:
    """Raise UsageError if each retry must begin with the same chat, and the conversation cannot return to it."""
    methods = [getattr(conversation, name, None) for name in ("checkpoint", "restore")]
    plain = all(callable(method) and not inspect.iscoroutinefunction(method) for method in methods)
    if not (goal.preserve_context or plain):
        raise UsageError(
            f"preserve_context=False needs {type(conversation).__name__}.checkpoint() and .restore(checkpoint)",
            "add these two plain methods, or omit preserve_context=False",
        )


@shows_options
def run_goal(
    conversation: MinimalConversation,
    objective: str | Goal,
    judge_llm: JudgeChoice = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Run `arun_goal`, with the same arguments, in an event loop of its own. Raise UsageError inside a running event loop.

    The KeyboardInterrupt of a validator is raised here when the run has ended, like that of Ctrl-C.
    """
    work = _run("run_goal", conversation, objective, judge_llm, options)
    return interrupting(run_blocking(work, "run_goal", "arun_goal"))


@shows_options
async def arun_goal(
    conversation: MinimalConversation,
    objective: str | Goal,
    judge_llm: JudgeChoice = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Drive the conversation until the objective is provably complete or a limit stops it.

    All turns land in `conversation`; nothing is forked. `objective` is a text, or a Goal; a keyword that is given overrides
    only its own field of the Goal. Without `workspace`, the run works in the conversation's folder.
    `judge_llm` audits each round: an LLM, a model's name, or a JudgeConfig; "agent", or a JudgeConfig without a model, is
    the conversation's own model as a separate instance, and so is None if there is no validator. With validators and
    None, the validators alone decide.
    `validators` is one check or any number of them. A validator that raises KeyboardInterrupt ends the run as cancelled.
    `max_iterations` None or inf lifts the cap; `timeout` is in seconds. `prompt` is the first user message if the
    objective is only its quality bar. `on_event` is called with each event once it is on disk. The run's folder is made
    under `home` (default: GOAL_HOME). Raise UsageError, ConversationBusy and RecordError; failures of models end in
    the outcome. (Sources: OpenHands' run_goal, Strands' GoalLoop.)
    """
    return await _run("arun_goal", conversation, objective, judge_llm, options)


async def _run(
    name: str, conversation: MinimalConversation, objective: str | Goal, judge: JudgeChoice, keywords: RunKeywords
) -> GoalOutcome:
    refuse_no_conversation(conversation)
    goal, options = goal_and_options(name, objective, judge, keywords, conversation)
    key = guarding_key(goal.approvals, goal.risk_class)
    if key and not getattr(conversation, "supports_approvals", False):
        raise UsageError(
            f"{type(conversation).__name__} does not set supports_approvals, so {key} cannot be enforced",
            "call `await recorder.permit(...)` before each action and set supports_approvals = True on the class,\n"
            "or use chat_conversation, or remove the setting",
        )
    return await finish(prepare_conversation(goal, options, cast(Conversation, conversation)))


def prepare_conversation(goal: Goal, options: RunOptions, conversation: Conversation) -> PreparedRun:
    """Prepare the run of a goal over a conversation that exists already."""
    refuse_driven(conversation)
    refuse_unconfined(goal)
    refuse_no_checkpoint(goal, conversation)
    if goal.unlimited:
        warnings.warn("this run has no limit: no max_iterations, no timeout, no budget", RuntimeWarning, stacklevel=4)
    judge = options.judge_llm or own_model(goal, "judge", conversation)
    critic = options.critic or own_model(goal, "critic", conversation)
    warm_up([llm.model for llm in (judge, critic) if isinstance(llm, LLM) and not isinstance(llm, OutsideModel)])
    return prepare_run(goal, replace(options, conversation=conversation, judge_llm=judge, critic=critic))


def refuse_unconfined(goal: Goal) -> None:
    """Raise UsageError if the goal insists on a sandbox: the commands of a conversation that exists are in none."""
    if goal.workspace.sandbox == "bwrap":
        raise UsageError(
            'sandbox = "bwrap" cannot be enforced: the calling program made the conversation, and its commands are in no sandbox',
            'write sandbox = "auto" to confine only the validators, or run the goal file with: goal run',
        )


def own_model(goal: Goal, account: Literal["judge", "critic"], conversation: Conversation) -> LLM | None:
    """Return an own instance for judge or critic; "agent" is the conversation's model, with an account of its own."""
    config = goal.judge if account == "judge" else goal.critic
    if config.model != AGENT_MODEL:
        return goal_model(goal, account)
    llm = getattr(conversation, "llm", None)
    if not isinstance(llm, LLM):
        why = f'{account} "agent" is the agent\'s own model, but this conversation has no llm'
        raise UsageError(why, f"name a model for the {account}")
    named = goal.model_copy(update={"agent": goal.agent.model_copy(update={"model": llm.model})})
    return goal_model(named, account, agent=llm)


def chat_conversation(model: str | LLM, *, workspace: Path | str = ".", **agent: Any) -> ChatConversation:
    """Return the built-in agent in a folder. `agent` holds fields of AgentConfig: max_steps, system_prompt, params, env, ...

    Raise UsageError for a model without a name, a missing folder, and invalid fields.
    """
    llm = model if isinstance(model, LLM) else None
    name = llm.model if llm else model
    if not isinstance(name, str) or not name.strip():
        hint = 'name it as LiteLLM does: chat_conversation("provider/model")'
        raise UsageError("the agent's model has no name", hint)
    folder = existing_folder(workspace)
    try:
        goal = Goal.model_validate({"objective": "chat", "agent": {"model": name, **agent}})
    except ValidationError as error:
        raise refusal(error, "AgentConfig") from None
    config = goal.agent
    llm = llm or LLM(name, api_base=config.api_base, api_key_env=config.api_key_env, params=config.params)
    env = child_environment(os.environ, extra=config.env, withhold=withheld(goal, llms=[llm]))
    return built_in_conversation(goal, llm, folder, ProcessLauncher(), env)


def interrupting(outcome: GoalOutcome) -> GoalOutcome:
    """Return the outcome. Raise KeyboardInterrupt if SIGINT ended the run, so that the caller's program ends as well."""
    if outcome.signal == signal.SIGINT:
        raise KeyboardInterrupt
    return outcome
