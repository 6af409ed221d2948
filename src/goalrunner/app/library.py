"""The functions of the library that run, resume and judge a goal."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import warnings
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, Unpack, cast

from pydantic import ValidationError

from goalrunner.agents.chat import ChatConversation
from goalrunner.agents.external_agents import agent_names
from goalrunner.app.build import PreparedRun, prepare_run
from goalrunner.app.external_agent import built_in_conversation
from goalrunner.app.goal_models import (
    goal_judge,
    goal_redactor,
    redacted_events,
    withheld,
)
from goalrunner.app.previous_run import LoadedRun, Reference, load_run, run_folder
from goalrunner.app.resuming import EarlierRun, Limits
from goalrunner.app.run_options import (
    KEYWORD_DEFAULTS,
    JudgeChoice,
    RunKeywords,
    RunOptions,
    goal_tables_of,
    judge_of,
    options_of,
    refuse_processes,
    split_checks,
)
from goalrunner.app.session import drive_to_end
from goalrunner.app.stored_goal import frozen_goal
from goalrunner.core.agent_ports import Conversation, Message
from goalrunner.core.approval_rules import guarding_key
from goalrunner.core.constructors import shows_keywords, value_problems
from goalrunner.core.errors import UsageError, kind_of
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import JudgeConfig, ValidatorSpec
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.ports import Validator
from goalrunner.core.verdict import GoalVerdict
from goalrunner.engine.conversations import refuse_driven
from goalrunner.engine.turns import SEND_SIGNATURE, accepts
from goalrunner.judge.audit import judge_goal_async
from goalrunner.judge.prompt_builder import Events
from goalrunner.llm import LLM, is_custom
from goalrunner.system.child_environment import child_environment
from goalrunner.system.launcher import ProcessLauncher

T = TypeVar("T")

_KEEP = 'keep records: records="last:20"'

# Keywords that are limits of a goal, and those that are fields of its budget.
_LIMITS = ("max_iterations", "timeout", "wait")
_BUDGETS = ("tokens", "cost_usd")


class MinimalConversation(Protocol):
    """The members that every conversation has.

    `Conversation` also has the optional ones.
    """

    @property
    def messages(self) -> Sequence[Message]:
        """The chat so far, oldest first."""

    @property
    def send(self) -> Callable[..., Any]:
        """Called with a prompt and a recorder, or with the prompt alone.

        It returns the answer, or an awaitable of it.
        """


def run_blocking(work: Coroutine[Any, Any, T], name: str, instead: str) -> T:
    """Run a coroutine to its end. Raise UsageError in a running event loop."""
    loop = None
    with suppress(RuntimeError):
        loop = asyncio.get_running_loop()
    # Not in the block above: its RuntimeError would be in each traceback of the work.
    if loop is None:
        return asyncio.run(work)
    # Else Python warns that the coroutine was never awaited.
    work.close()
    raise UsageError(
        f"{name} cannot be called inside a running event loop",
        f"await {instead}(...) there",
    )


@shows_keywords(RunKeywords, KEYWORD_DEFAULTS)
def run_goal(
    conversation: MinimalConversation,
    objective: str | Goal,
    judge_llm: JudgeChoice = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Run `arun_goal`, with the same arguments, in an event loop of its own.

    Raise UsageError inside a running event loop. Raise KeyboardInterrupt after the run
    if Ctrl-C, or a KeyboardInterrupt of a validator, ended it.

    >>> from goalrunner import run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> def is_four(response):
    ...     return response["content"][0]["text"] == "4"
    >>> agent = ScriptedConversation("5", "4")  # or: chat_conversation("a/model")
    >>> outcome = run_goal(agent, "What is 2 + 2?", validators=is_four)
    >>> outcome.status.value, outcome.iterations
    ('complete', 2)
    """
    work = arun_goal(conversation, objective, judge_llm, **options)
    return interrupting(run_blocking(work, "run_goal", "arun_goal"))


@shows_keywords(RunKeywords, KEYWORD_DEFAULTS)
async def arun_goal(
    conversation: MinimalConversation,
    objective: str | Goal,
    judge_llm: JudgeChoice = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Drive the conversation until the objective is provably complete or a limit stops
    it.

    All turns are added to `conversation`. `objective` is a text, or a Goal; a keyword
    overrides only its own field of the Goal. Without `workspace`, the run works in the
    conversation's folder. `judge_llm` audits each round: an LLM, a model's name, or a
    JudgeConfig. "agent", or a JudgeConfig without a model, is a separate instance of
    the conversation's own model. None is the same if there are no validators; else the
    validators alone decide. `validators` is one check or any number of them. A
    validator that raises KeyboardInterrupt ends the run as cancelled. `max_iterations`
    None or inf lifts the cap; `timeout` is in seconds. A run waits for a usage limit to
    reset only if `wait`, the longest sum of its waits, is given here or in the Goal.
    `prompt` is the first user message if it differs from the objective. `on_event` is
    called with each event once it is on disk. The run's folder is made under `home`
    (default: GOAL_HOME). `records="none"` keeps nothing of the run and writes no file;
    with "last:20", only the 20 newest of such runs are kept. Raise UsageError,
    ConversationBusy and RecordError; failures of models end in the outcome. (Sources:
    OpenHands' run_goal, Strands' GoalLoop.)

    >>> import asyncio
    >>> from goalrunner import arun_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> run = arun_goal(ScriptedConversation("4"), "Add.", validators=lambda: True)
    >>> asyncio.run(run).passed
    True
    """
    refuse_no_conversation(conversation)
    goal, run_options = goal_and_options(objective, judge_llm, options, conversation)
    key = guarding_key(goal.approvals, goal.risk_class)
    if key and not getattr(conversation, "supports_approvals", False):
        raise UsageError(
            f"{type(conversation).__name__} does not set supports_approvals, so {key} "
            "cannot be enforced",
            "call `await recorder.permit(...)` before each action and set "
            "supports_approvals = True on the class,\n"
            "or use chat_conversation, or remove the setting",
        )
    return await drive_to_end(
        prepare_conversation(goal, run_options, cast(Conversation, conversation))
    )


def prepare_conversation(
    goal: Goal, options: RunOptions, conversation: Conversation
) -> PreparedRun:
    """Prepare a run that drives the caller's conversation."""
    # Two runs of one conversation would mix their chats.
    refuse_driven(conversation)
    refuse_unconfined(goal)
    refuse_no_checkpoint(goal, conversation)
    refuse_endless_turns(goal, conversation)
    if goal.unlimited:
        warnings.warn(
            "this run has no limit: no max_iterations, no timeout, no budget",
            RuntimeWarning,
            # The line of the caller of `arun_goal`.
            stacklevel=4,
        )
    return prepare_run(goal, replace(options, conversation=conversation))


def resume(
    run: Reference,
    conversation: MinimalConversation,
    judge_llm: JudgeChoice = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Run `aresume`, with the same arguments, in an event loop of its own.

    Raise UsageError inside a running event loop.

    >>> from goalrunner import resume, run_goal
    >>> from goalrunner.testing import ScriptedConversation
    >>> def is_four(response):
    ...     return response["content"][0]["text"] == "4"
    >>> agent = ScriptedConversation("5")
    >>> run = run_goal(agent, "Add.", validators=is_four, max_iterations=1)
    >>> agent = ScriptedConversation("4")
    >>> resume(run, agent, validators=is_four, max_iterations=3).iterations
    2
    """
    return interrupting(
        run_blocking(
            aresume(run, conversation, judge_llm, **options), "resume", "aresume"
        )
    )


async def aresume(
    run: Reference,
    conversation: MinimalConversation,
    judge_llm: JudgeChoice = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Continue a run of `run_goal`, and drive it to its end.

    `run` is its outcome, its folder, or its id.

    The goal is the one that was recorded; `max_iterations`, `timeout`, `wait`, `tokens`
    and `cost_usd` replace its limits (inf: no limit), and `note` is a message to the
    agent. The conversation gets the recorded chat through its method `load`, if it has
    one. Parts that only a program can make are given again: validators, a
    `resume_prompt` and other parts that are callables, and a judge that is a function.
    For a run that is complete, return its outcome again. Raise UsageError if a part is
    missing, or if the run cannot be resumed.

    >>> import asyncio
    >>> from goalrunner import aresume
    >>> agent = MyAgent()  # doctest: +SKIP
    >>> asyncio.run(aresume("k3f9", agent, max_iterations=20))  # doctest: +SKIP
    """
    refuse_no_conversation(conversation)
    refuse_driven(cast(Conversation, conversation))
    earlier = load_earlier(run, conversation, judge_llm, options)
    return earlier.completed() or await drive_to_end(await earlier.resume())


def load_earlier(
    run: Reference, conversation: Any, judge_llm: JudgeChoice, keywords: RunKeywords
) -> EarlierRun:
    """Return the run with the keywords of a call.

    Raise UsageError if one of them does not fit it.
    """
    options, specs = options_of(keywords)
    for name in ("workspace", "preserve_context", "records"):
        if name in keywords:
            raise UsageError(
                f"{name} of a run is fixed when it begins",
                "omit it, or start a new run",
            )
    folder = run_folder(run, options.home)
    loaded = load_run(folder)
    # The caller brings the agent, so the goal needs none.
    goal = frozen_goal(folder, os.environ, loaded.goal_file, runnable=False)
    refuse_no_checkpoint(goal, conversation)
    refuse_endless_turns(goal, conversation)
    judge = judge_of(goal, _one_judge(judge_llm, keywords))
    goal = goal.model_copy(update={"judge": judge})
    # A function has no name by which it could be found again.
    if is_custom(goal.judge.model) and goal.judge.instance is None:
        raise UsageError(
            f"the judge of this run, {goal.judge.model}, was made by the program that "
            "started it",
            "pass it again: judge=...",
        )
    _refuse_other_validators(goal, loaded, specs, options.validators)
    options = replace(options, conversation=conversation)
    return EarlierRun(
        folder, loaded, options, _new_limits(keywords), goal, keywords.get("note", "")
    )


def _new_limits(keywords: RunKeywords) -> Limits:
    """Return the limits among the keywords by their names in `RunRules`.

    Raise UsageError for an invalid one.
    """
    # A goal has the checks of limits, and their conversion to numbers.
    plain = Goal(objective="limits")
    try:
        goal = Goal.model_validate(
            {"objective": plain.objective, **_goal_fields(plain, keywords)}
        )
    except ValidationError as error:
        raise value_refusal(error, "resume") from None
    limits = {name: getattr(goal, name) for name in _LIMITS if name in keywords}
    for name in _BUDGETS:
        if name in keywords:
            limits[name] = getattr(goal.budget, name)
    return limits


def _refuse_other_validators(
    goal: Goal,
    loaded: LoadedRun,
    specs: Sequence[ValidatorSpec],
    callables: Sequence[Validator],
) -> None:
    """Raise UsageError if a call has other validators than those the run began with."""
    commands = {spec.run or spec.python for spec in goal.validators}
    for spec in specs:
        command = spec.run or spec.python
        if command not in commands:
            raise UsageError(
                f"the run has no validator {command}",
                "a run is resumed with its own validators; omit it",
            )
    # Validators that are not in the goal file were callables of the program.
    in_goal = {spec.name for spec in goal.validators}
    plan = loaded.state.plan
    recorded = (*plan.validators, *plan.hidden)
    needed = sorted(name for name in recorded if name not in in_goal)
    passed = sorted(validator.name for validator in callables)
    if needed != passed:
        raise UsageError(
            f"the run has the callable validators {', '.join(needed) or 'none'}, and "
            f"these were given: {', '.join(passed) or 'none'}",
            "pass the same callables as at its start: validators=[...]",
        )


def chat_conversation(
    model: str | LLM, *, workspace: Path | str = ".", **agent: Any
) -> ChatConversation:
    """Return the built-in agent in a folder.

    `agent` holds fields of AgentConfig: max_steps, system_prompt, params, env, ...
    Raise UsageError for a model without a name, a missing folder, and invalid fields.

    >>> from goalrunner import chat_conversation
    >>> agent = chat_conversation("openai/gpt-5-mini", workspace=".", max_steps=30)
    >>> agent.max_steps
    30
    """
    llm = model if isinstance(model, LLM) else None
    name = llm.model if llm else model
    if not isinstance(name, str) or not name.strip():
        raise UsageError(
            "the agent's model has no name",
            'name it as LiteLLM does: chat_conversation("provider/model")',
        )
    folder = existing_folder(workspace)
    try:
        goal = Goal.model_validate(
            {"objective": "chat", "agent": {"model": name, **agent}}
        )
    except ValidationError as error:
        raise value_refusal(error, "chat_conversation") from None
    config = goal.agent
    llm = llm or LLM(
        name,
        api_base=config.api_base,
        api_key_env=config.api_key_env,
        params=config.params,
    )
    # Commands of the agent do not get the key of its model.
    keys = withheld(goal, llms=[llm])
    env = child_environment(os.environ, extra=config.env, withhold=keys)
    return built_in_conversation(goal, llm, folder, ProcessLauncher(), env)


def interrupting(outcome: GoalOutcome) -> GoalOutcome:
    """Return the outcome.

    Raise KeyboardInterrupt if SIGINT ended the run, so that the caller's program ends
    as well.
    """
    if outcome.signal == signal.SIGINT:
        raise KeyboardInterrupt
    return outcome


def judge_goal(
    judge_llm: JudgeChoice, objective: str | Goal, events: Events
) -> GoalVerdict:
    """Run `ajudge_goal` in an event loop of its own.

    Raise UsageError inside a running event loop.

    >>> import json
    >>> from goalrunner import judge_goal
    >>> def judge(messages):  # or the name of a model: "openai/gpt-5-mini"
    ...     answer = {"criteria": [], "score": 0.2, "complete": False}
    ...     return json.dumps({**answer, "missing": "The answer says nothing."})
    >>> chat = [{"role": "assistant", "content": "..."}]
    >>> judge_goal(judge, "Explain rainbows.", chat).missing
    'The answer says nothing.'
    """
    return run_blocking(
        ajudge_goal(judge_llm, objective, events), "judge_goal", "ajudge_goal"
    )


async def ajudge_goal(
    judge_llm: JudgeChoice, objective: str | Goal, events: Events
) -> GoalVerdict:
    """Ask a judge once whether the objective is provably complete; its citations are
    checked.

    `events` is a Trail (`read_transcript(path)`), or chat messages in OpenAI's shape. A
    reply that cannot be read ends in a verdict with source "fallback": score 0, not
    complete. Raise ModelError when the judge cannot be asked, UsageError for an empty
    objective. Secrets are replaced in the events before the judge sees them. (Source:
    OpenHands' judge_goal.)

    >>> import asyncio
    >>> from goalrunner import ajudge_goal, read_transcript
    >>> events = read_transcript("session.jsonl")  # doctest: +SKIP
    >>> asyncio.run(ajudge_goal("openai/gpt-5", "Fix it.", events))  # doctest: +SKIP
    """
    # Only the settings of the judge and of [redact] count.
    goal = objective if isinstance(objective, Goal) else Goal(objective="audit")
    config = judge_of(goal, judge_llm)
    judged = Goal(objective="audit", judge=config)
    if not judged.has_judge:
        raise UsageError(
            "no judge is given",
            'pass a model or a function: judge_goal("openai/gpt-5-mini", ...)',
        )
    llm = goal_judge(judged)
    redactor = goal_redactor(goal, os.environ)
    return await judge_goal_async(
        llm,
        objective,
        redacted_events(events, redactor),
        config=config,
        redact=redactor.text,
    )


def goal_and_options(
    objective: str | Goal,
    judge_llm: JudgeChoice,
    keywords: RunKeywords,
    conversation: object = None,
) -> tuple[Goal, RunOptions]:
    """Return the goal with the keywords applied, and the options of the run.

    The defaults of judge and workspace are the model and the folder of `conversation`.
    Raise TypeError for an unknown keyword, and UsageError for an invalid value, or a
    workspace that is not the conversation's.
    """
    options, specs = options_of(keywords)
    if keywords.get("note"):
        raise UsageError(
            "note is for a run that is resumed",
            "pass it to resume, or write it into the objective",
        )
    judge = _one_judge(judge_llm, keywords)
    try:
        goal = objective
        if not isinstance(goal, Goal):
            # The constructor writes an error for people, who would see its value lost.
            goal = Goal.model_validate({"objective": objective})
        _, callables = split_checks(goal.callables)
        options = replace(options, validators=(*callables, *options.validators))
        has_model = isinstance(getattr(conversation, "llm", None), LLM)
        is_checked = bool(specs or options.validators or goal.validators)
        config = judge_of(goal, judge, default=has_model and not is_checked)
        folder = _workspace(goal, keywords.get("workspace"), conversation)
        is_elsewhere = not getattr(conversation, "sees_files", True)
        has_files = isinstance(objective, Goal) or folder or specs or is_elsewhere
        if conversation is not None and not has_files:
            # The response is all that there is to judge, as in GoalLoop.
            goal = goal.model_copy(update={"deliverable": "response"})
        changes: dict[str, Any] = {
            "judge": config,
            "validators": (*goal.validators, *specs),
            **goal_tables_of(keywords),
        }
        if folder is not None:
            path = str(existing_folder(folder))
            changes["workspace"] = {**goal.workspace.model_dump(), "path": path}
        changes |= _goal_fields(goal, keywords)
        # Unlike `model_copy`, this checks the new values.
        goal = Goal.model_validate({**goal.model_dump(), **changes})
    except ValidationError as error:
        raise value_refusal(error, "run_goal") from None
    _refuse_uncounted_judge(goal, config)
    if options.in_memory:
        refuse_unkept(goal, options)
    return goal, options


def _refuse_uncounted_judge(goal: Goal, judge: JudgeConfig) -> None:
    """Raise UsageError for a budget of tokens if those of the judge are unknown."""
    enforced = {*goal.budget.limited} - {*goal.budget.unenforced}
    if is_custom(judge.model) and "tokens" in enforced:
        raise UsageError(
            f"the tokens of the judge {judge.model} are unknown, so a budget of tokens "
            "cannot be enforced",
            'remove the budget, or set allow_unenforced = ["tokens"] to count only '
            "what is known",
        )


def _one_judge(judge_llm: JudgeChoice, keywords: RunKeywords) -> JudgeChoice:
    """Return the judge of a call; `judge_llm` is another name of the keyword `judge`.

    Raise UsageError for both.
    """
    judge = keywords.get("judge")
    if judge_llm is None:
        return judge
    if judge is not None:
        raise UsageError(
            "judge and judge_llm are two names of one argument", "give one of them"
        )
    return judge_llm


def _goal_fields(goal: Goal, keywords: RunKeywords) -> dict[str, Any]:
    """Return the keywords that are fields of the goal, limits among them."""
    values: Mapping[str, Any] = keywords
    names = (*_LIMITS, "preserve_context")
    changes = {name: values[name] for name in names if name in values}
    budget = {name: values[name] for name in _BUDGETS if name in values}
    if budget:
        changes["budget"] = {**goal.budget.model_dump(), **budget}
    return changes


def _workspace(
    goal: Goal, keyword: Path | str | None, conversation: object
) -> Path | None:
    """Return the folder of the conversation, else that of the keyword or the goal.

    Raise UsageError if two differ.
    """
    folder = getattr(conversation, "workspace", None)
    chosen = keyword or goal.workspace.path or None
    if not isinstance(folder, str | Path):
        return Path(chosen) if chosen is not None else None
    if chosen is not None and Path(chosen).resolve() != Path(folder).resolve():
        raise UsageError(
            f"the conversation works in {folder}, and the run would check "
            f"{Path(chosen).resolve()}",
            "omit workspace, or create the conversation with the same one",
        )
    return Path(folder)


def value_refusal(error: ValidationError, function: str) -> UsageError:
    """Return the first error of a validation as a UsageError."""
    # One error at a time: later ones are often its consequence.
    place, reason = next(value_problems(error, Goal))
    # The keywords of a budget are no table of their own.
    names = place[1:] if place[:1] == ("budget",) else place
    where = ".".join(map(str, names)) or "goal"
    hint = f"help(goalrunner.{function}) describes the arguments"
    return UsageError(f"{where}: {reason}", hint)


def existing_folder(path: Path | str) -> Path:
    """Return the folder, absolute. Raise UsageError if there is none."""
    folder = Path(path).resolve()
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(
            f"the workspace {folder} {problem}", "create the folder, or name another"
        )
    return folder


def refuse_no_conversation(value: Any) -> None:
    """Raise UsageError if the value cannot be driven as a conversation."""
    # A text is probably the name of a model.
    model = value if isinstance(value, str) and value.strip() else "provider/model"
    hint = (
        f'pass chat_conversation("{model}"), or an object like goalrunner.Conversation'
    )
    if isinstance(value, str) and value in agent_names():
        hint = (
            f'write agent = "{value}" in a goal file, and run it with '
            'run_goal_file("goal.toml")'
        )
    # A class has the methods as well, so the next checks would accept it.
    if isinstance(value, type):
        raise UsageError(f"{value.__name__} is a class, not a conversation", hint)
    missing = [name for name in ("send", "messages") if not hasattr(value, name)]
    if missing:
        name = f'"{value}"' if isinstance(value, str) else kind_of(value)
        raise UsageError(
            f"{name} is not a conversation: it has no {' and no '.join(missing)}", hint
        )
    name = type(value).__name__
    takes_prompt = accepts(value.send, 2) or accepts(value.send, 1)
    # `send(prompt)` of a simple conversation does not take a recorder.
    if not callable(value.send) or not takes_prompt:
        raise UsageError(
            f"{name}.send cannot be called with a prompt and a recorder", SEND_SIGNATURE
        )
    if not isinstance(value.messages, Sequence) or isinstance(value.messages, str):
        raise UsageError(
            f"{name}.messages is {kind_of(value.messages)}, not a list", hint
        )


def refuse_no_checkpoint(goal: Goal, conversation: object) -> None:
    """Raise UsageError if the conversation cannot return to an earlier chat.

    It has to, if each retry must begin with the same chat.
    """
    if goal.preserve_context:
        return
    for name in ("checkpoint", "restore"):
        method = getattr(conversation, name, None)
        # An asynchronous method would return before it has done its work.
        if not callable(method) or inspect.iscoroutinefunction(method):
            raise UsageError(
                f"preserve_context=False needs {type(conversation).__name__}"
                ".checkpoint() and .restore(checkpoint)",
                "add these two plain methods, or omit preserve_context=False",
            )


def refuse_endless_turns(goal: Goal, conversation: Any) -> None:
    """Raise UsageError if a turn of the conversation cannot be ended at its limit."""
    if goal.agent.turn_timeout is None:
        return
    if not inspect.iscoroutinefunction(conversation.send):
        raise UsageError(
            f"turn_timeout cannot be enforced: {type(conversation).__name__}.send is "
            "not async, so nothing can end it",
            "write async def send(...), or remove turn_timeout; timeout limits the "
            "whole run",
        )


def refuse_unkept(goal: Goal, options: RunOptions) -> None:
    """Raise UsageError for what needs the records of a run.

    That is a check in a process of its own, and a person who decides later.
    """
    refuse_processes(goal.validators)
    if goal.scoring is not None:
        raise UsageError(
            f'the critic {goal.critic.command} cannot run with records="none": it runs '
            "in a process of its own, whose output has to be kept",
            f"pass a function: critic=...; or {_KEEP}",
        )
    approvals = goal.approvals
    is_risky = goal.risk_class in ("high", "critical")
    may_ask = is_risky or approvals.require or approvals.commands
    if may_ask and options.approver is None:
        raise UsageError(
            'records="none" keeps nothing that a person could decide about later, and '
            "the goal has approvals",
            f"pass approver=...; or {_KEEP}",
        )


def refuse_unconfined(goal: Goal) -> None:
    """Raise UsageError if the goal requires a sandbox.

    Commands of the caller's conversation cannot run in one.
    """
    if goal.workspace.sandbox == "bwrap":
        raise UsageError(
            'sandbox = "bwrap" cannot be enforced: the calling program made the '
            "conversation, and its commands are in no sandbox",
            'write sandbox = "auto" to confine only the validators, or run the goal '
            "file with: goal run",
        )
