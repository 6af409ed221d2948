"""`run_goal`, `resume` and `judge_goal` with their asynchronous forms, and conversations for callers."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import warnings
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack, cast

from pydantic import ValidationError

from goalrunner.agents.chat import ChatConversation
from goalrunner.app.build import PreparedRun, prepare_run
from goalrunner.app.external_agent import built_in_conversation
from goalrunner.app.keywords import (
    MinimalConversation,
    ResumeKeywords,
    RunKeywords,
    existing_folder,
    given_options,
    goal_and_options,
    refusal,
    refuse_no_checkpoint,
    refuse_no_conversation,
    refuse_unconfined,
    shows_options,
)
from goalrunner.app.previous_run import LoadedRun, Reference, frozen_goal, load_run, run_folder
from goalrunner.app.run_options import (
    Checks,
    JudgeChoice,
    RunOptions,
    goal_judge,
    goal_redactor,
    judge_of,
    own_critic,
    redacted_events,
    split_checks,
    withheld,
)
from goalrunner.app.session import EarlierRun, finish
from goalrunner.core.agent_ports import Conversation
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.limits import guarding_key
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.ports import Validator
from goalrunner.core.verdict import GoalVerdict
from goalrunner.engine.turns import refuse_driven
from goalrunner.judge.audit import judge_goal_async
from goalrunner.judge.prompt_builder import Events
from goalrunner.llm import LLM, is_custom
from goalrunner.system.launcher import ProcessLauncher, child_environment

T = TypeVar("T")


def run_blocking(work: Coroutine[Any, Any, T], name: str, instead: str) -> T:
    """Run a coroutine to its end. Raise UsageError in a running event loop."""
    loop = None
    with suppress(RuntimeError):
        loop = asyncio.get_running_loop()
    if loop is None:  # not in the block: its RuntimeError would be in each traceback of the work
        return asyncio.run(work)
    work.close()
    raise UsageError(f"{name} cannot be called inside a running event loop", f"await {instead}(...) there")


@shows_options
def run_goal(
    conversation: MinimalConversation,
    objective: str | Goal,
    judge_llm: JudgeChoice = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Run `arun_goal`, with the same arguments, in an event loop of its own. Raise UsageError inside a running event loop.

    Raise KeyboardInterrupt after the run if Ctrl-C, or a KeyboardInterrupt of a validator, ended it.
    """
    work = arun_goal(conversation, objective, judge_llm, **options)
    return interrupting(run_blocking(work, "run_goal", "arun_goal"))


@shows_options
async def arun_goal(
    conversation: MinimalConversation,
    objective: str | Goal,
    judge_llm: JudgeChoice = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Drive the conversation until the objective is provably complete or a limit stops it.

    All turns are added to `conversation`. `objective` is a text, or a Goal; a keyword overrides only its own field of the
    Goal. Without `workspace`, the run works in the conversation's folder.
    `judge_llm` audits each round: an LLM, a model's name, or a JudgeConfig. "agent", or a JudgeConfig without a model, is
    a separate instance of the conversation's own model. None is the same if there are no validators; else the validators
    alone decide.
    `validators` is one check or any number of them. A validator that raises KeyboardInterrupt ends the run as cancelled.
    `max_iterations` None or inf lifts the cap; `timeout` is in seconds. `prompt` is the first user message if it
    differs from the objective. `on_event` is called with each event once it is on disk. The run's folder is made
    under `home` (default: GOAL_HOME). Raise UsageError, ConversationBusy and RecordError; failures of models end in
    the outcome. (Sources: OpenHands' run_goal, Strands' GoalLoop.)
    """
    refuse_no_conversation(conversation)
    goal, given = goal_and_options(objective, judge_llm, options, conversation)
    key = guarding_key(goal.approvals, goal.risk_class)
    if key and not getattr(conversation, "supports_approvals", False):
        raise UsageError(
            f"{type(conversation).__name__} does not set supports_approvals, so {key} cannot be enforced",
            "call `await recorder.permit(...)` before each action and set supports_approvals = True on the class,\n"
            "or use chat_conversation, or remove the setting",
        )
    return await finish(prepare_conversation(goal, given, cast(Conversation, conversation)))


def prepare_conversation(goal: Goal, options: RunOptions, conversation: Conversation) -> PreparedRun:
    """Prepare a run that drives the caller's conversation."""
    refuse_driven(conversation)
    refuse_unconfined(goal)
    refuse_no_checkpoint(goal, conversation)
    if goal.unlimited:
        warnings.warn("this run has no limit: no max_iterations, no timeout, no budget", RuntimeWarning, stacklevel=4)
    return prepare_run(goal, replace(options, conversation=conversation))


def resume(
    run: Reference, conversation: MinimalConversation, judge_llm: JudgeChoice = None, **options: Unpack[ResumeKeywords]
) -> GoalOutcome:
    """Run `aresume`, with the same arguments, in an event loop of its own. Raise UsageError inside a running event loop."""
    return interrupting(run_blocking(aresume(run, conversation, judge_llm, **options), "resume", "aresume"))


async def aresume(
    run: Reference, conversation: MinimalConversation, judge_llm: JudgeChoice = None, **options: Unpack[ResumeKeywords]
) -> GoalOutcome:
    """Continue a run of `run_goal`, and drive it to its end. `run` is its outcome, its folder, or its id.

    The goal is the one that was recorded; `max_iterations`, `timeout`, `tokens` and `cost_usd` replace its limits (inf: no
    limit), and `note` is a message to the agent. The conversation gets the recorded chat through its method `load`, if it
    has one. Parts that only a program can make are given again: callable validators, a callable `resume_prompt`, a
    critic, and a judge that is a function. Raise UsageError if one is missing, or if the run cannot be resumed.
    """
    refuse_no_conversation(conversation)
    refuse_driven(cast(Conversation, conversation))
    earlier = load_earlier(run, conversation, judge_llm, options)
    return earlier.completed() or await finish(await earlier.resume())


_LIMITS = ("max_iterations", "timeout", "tokens", "cost_usd")


def load_earlier(run: Reference, conversation: Any, judge_llm: JudgeChoice, keywords: ResumeKeywords) -> EarlierRun:
    """Return the run with the keywords of a call. Raise UsageError if one of them does not fit it."""
    defaults = {**dict.fromkeys(ResumeKeywords.__annotations__), "validators": (), "note": ""}
    given, options = given_options(defaults, keywords, judge_llm)
    folder = run_folder(run, options.home)
    loaded = load_run(folder)
    goal = frozen_goal(folder, os.environ, loaded.goal_file, runnable=False)
    refuse_no_checkpoint(goal, conversation)
    goal = goal.model_copy(update={"judge": judge_of(goal, given["judge"])})
    if is_custom(goal.judge.model) and goal.judge.instance is None:
        why = f"the judge of this run, {goal.judge.model}, was made by the program that started it"
        raise UsageError(why, "pass it again: judge=...")
    limits = {name: given[name] for name in _LIMITS if name in keywords}
    for name, value in limits.items():
        if value is not None and not (isinstance(value, int | float) and value > 0):
            raise UsageError(f"{name} must be a positive number, not {value!r}", "inf lifts the limit")
        if value is None or value == math.inf:
            limits[name] = None
        elif name in ("max_iterations", "tokens"):
            limits[name] = int(value)
    options = replace(
        options,
        conversation=conversation,
        critic=own_critic(given["critic"]),
        validators=_validators(goal, loaded, given["validators"]),
    )
    return EarlierRun(folder, loaded, options, limits, goal, given["note"])


def _validators(goal: Goal, loaded: LoadedRun, given: Checks) -> tuple[Validator, ...]:
    """Return the validators that run in this process. Raise UsageError if they are not those of the run."""
    specs, own = split_checks(given)
    commands = {spec.run or spec.python for spec in goal.validators}
    if new := [spec.run or spec.python for spec in specs if (spec.run or spec.python) not in commands]:
        raise UsageError(f"the run has no validator {new[0]}", "a run is resumed with its own validators; omit it")
    named, plan = {spec.name for spec in goal.validators}, loaded.state.plan
    wanted = sorted(item for item in (*plan.validators, *plan.hidden) if item not in named)
    found = sorted(validator.name for validator in own)
    if wanted != found:
        shown = [", ".join(names) or "none" for names in (wanted, found)]
        raise UsageError(
            f"the run has the callable validators {shown[0]}, and these were given: {shown[1]}",
            "pass the same callables as at its start: validators=[...]",
        )
    return own


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
    config = judge_of(goal, judge_llm)
    llm = goal_judge(Goal(objective="audit", judge=config))
    redactor = goal_redactor(goal, os.environ)
    return await judge_goal_async(
        llm, objective, redacted_events(events, redactor), config=config, redact=redactor.text
    )
