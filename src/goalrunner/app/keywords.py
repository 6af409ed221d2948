"""The keywords of `run_goal`, `resume` and `GoalController`, put into a goal and the options of its run."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any, Protocol, TypedDict, TypeVar

from pydantic import ValidationError

from goalrunner.app.run_options import Checks, CriticChoice, JudgeChoice, RunOptions, judge_of, own_critic, split_checks
from goalrunner.core.agent_ports import Approver, Message, Observer
from goalrunner.core.errors import UsageError, kind_of
from goalrunner.core.events import Event, Record
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import CriticConfig
from goalrunner.core.ports import Critic
from goalrunner.engine.prompts import ResumePrompt
from goalrunner.engine.turns import WANTED, accepts
from goalrunner.llm import LLM, is_custom
from goalrunner.records.run_folder import goal_home


class MinimalConversation(Protocol):
    """The members that every conversation has; `Conversation` also has the optional ones."""

    @property
    def messages(self) -> Sequence[Message]:
        """The chat so far, oldest first."""

    @property
    def send(self) -> Callable[..., Any]:
        """Called with a prompt and a recorder, or with the prompt alone; returns the answer, or an awaitable of it."""


class CommonKeywords(TypedDict, total=False):
    """The keywords of a new run and of a resumed one."""

    judge: JudgeChoice
    validators: Checks
    resume_prompt: ResumePrompt | None
    prompt: str | None
    on_event: Callable[[Event], None] | None
    on_text: Callable[[str], None] | None
    home: Path | str | None
    approver: Approver | None


class RunKeywords(CommonKeywords, total=False):
    """The keywords of `arun_goal`, `run_goal` and `GoalController`; `...` is the value of the Goal, or its default."""

    max_iterations: float | EllipsisType | None
    timeout: float | str | EllipsisType | None
    critic: CriticChoice
    preserve_context: bool | EllipsisType
    workspace: Path | str | None


class ResumeKeywords(CommonKeywords, total=False):
    """The keywords of `resume` and `aresume`: new limits, a note, and the parts that only a program can make."""

    max_iterations: float | None
    timeout: float | None
    tokens: float | None
    cost_usd: float | None
    note: str
    critic: Critic | LLM | None


_OWN_DEFAULT = ("max_iterations", "timeout", "preserve_context")
_DEFAULTS = {**dict.fromkeys(RunKeywords.__annotations__), **dict.fromkeys(_OWN_DEFAULT, ...), "validators": ()}

F = TypeVar("F", bound=Callable[..., Any])


def shows_options(function: F) -> F:
    """Show the keywords with their defaults in the signature of a function, for `help()`."""
    own = inspect.signature(function)
    named = [item for item in own.parameters.values() if item.kind is not item.VAR_KEYWORD]
    known = sorted(RunKeywords.__annotations__.items(), key=lambda item: item[0] in CommonKeywords.__annotations__)
    for name, annotation in known:
        shown, kind = annotation.__forward_arg__, inspect.Parameter.KEYWORD_ONLY
        named.append(inspect.Parameter(name, kind, default=_DEFAULTS[name], annotation=shown))
    function.__signature__ = own.replace(parameters=named)  # type: ignore[attr-defined]
    return function


def goal_and_options(
    objective: str | Goal, judge: JudgeChoice, keywords: RunKeywords, conversation: object = None
) -> tuple[Goal, RunOptions]:
    """Return the goal with the keywords applied, and the options of the run.

    The defaults of judge and workspace are the model and the folder of `conversation`. Raise TypeError for an unknown
    keyword, and UsageError for an invalid value, or a workspace that is not the conversation's.
    """
    given, options = given_options(_DEFAULTS, keywords, judge)
    specs, validators = split_checks(given["validators"])
    try:
        goal = objective if isinstance(objective, Goal) else Goal(objective=objective)
        has_model = isinstance(getattr(conversation, "llm", None), LLM)
        is_checked = bool(specs or validators or goal.validators)
        config = judge_of(goal, given["judge"], default=has_model and not is_checked)
        folder = _workspace(goal, given["workspace"], conversation)
        if conversation is not None and not (isinstance(objective, Goal) or folder or specs):
            # Without a folder, the response is all that there is to judge, as in GoalLoop.
            goal = goal.model_copy(update={"deliverable": "response"})
        changes = {name: given[name] for name in _OWN_DEFAULT if given[name] is not ...}
        changes |= {"judge": config, "validators": (*goal.validators, *specs)}
        if isinstance(given["critic"], str | CriticConfig):
            changes["critic"] = given["critic"]
        if folder is not None:
            changes["workspace"] = {**goal.workspace.model_dump(), "path": str(existing_folder(folder))}
        goal = Goal.model_validate({**goal.model_dump(), **changes})
    except ValidationError as error:
        raise refusal(error, "arun_goal") from None
    if is_custom(config.model) and "tokens" in {*goal.budget.limited} - {*goal.budget.unenforced}:
        raise UsageError(
            f"the tokens of the judge {config.model} are unknown, so a budget of tokens cannot be enforced",
            'remove the budget, or set allow_unenforced = ["tokens"] to count only what is known',
        )
    return goal, replace(options, critic=own_critic(given["critic"]), validators=validators)


def _workspace(goal: Goal, named: Path | str | None, conversation: object) -> Path | None:
    """Return the folder of the conversation, else the named one or that of the goal. Raise UsageError if two differ."""
    own, chosen = getattr(conversation, "workspace", None), named or goal.workspace.path or None
    if not isinstance(own, str | Path):
        return Path(chosen) if chosen is not None else None
    if chosen is not None and Path(chosen).resolve() != Path(own).resolve():
        raise UsageError(
            f"the conversation works in {own}, and the run would check {Path(chosen).resolve()}",
            "omit workspace, or create the conversation with the same one",
        )
    return Path(own)


_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "on_event": (callable, "a function"),
    "on_text": (callable, "a function"),
    "resume_prompt": (
        lambda value: isinstance(value, str) or (callable(value) and accepts(value, 1)),
        "a text, or a function of one argument, the feedback",
    ),
    "prompt": (lambda value: isinstance(value, str) and bool(value.strip()), "a text that is not empty"),
    "approver": (
        lambda value: hasattr(value, "approve") and hasattr(value, "answer"),
        "an object with the methods approve and answer",
    ),
    "home": (lambda value: isinstance(value, str | Path), "a path"),
}
"""By keyword: a check of a value that is not None, and a description of valid values."""


def given_options(
    defaults: Mapping[str, Any], keywords: Mapping[str, Any], judge: JudgeChoice
) -> tuple[dict[str, Any], RunOptions]:
    """Return all keywords of a call, and the run options among them. Raise TypeError and UsageError.

    `judge` is the positional argument `judge_llm`, another name of the keyword `judge`.
    """
    if unknown := sorted(keywords.keys() - defaults.keys()):
        raise TypeError(f"got an unexpected keyword argument '{unknown[0]}'")
    given = {**defaults, **keywords}
    for name, (fits, form) in _FORMS.items():
        if given[name] is not None and not fits(given[name]):
            raise UsageError(f"{name} must be {form}, not {kind_of(given[name])}", "see the docstring of arun_goal")
    if isinstance(given["resume_prompt"], str):
        try:
            given["resume_prompt"].format(feedback="", iteration="", missing="", objective="")
        except (KeyError, IndexError, ValueError) as error:
            hint = "it may say {feedback} {iteration} {missing} {objective}; write {{ for {"
            raise UsageError(f"resume_prompt is not valid: {error}", hint) from None
    if judge is not None and given["judge"] is not None:
        raise UsageError("judge and judge_llm are two names of one argument", "give one of them")
    given["judge"] = given["judge"] if judge is None else judge
    observers: list[Observer] = [Callback(given["on_event"])] if given["on_event"] else []
    observers += [Callback(on_text=given["on_text"])] if given["on_text"] else []
    return given, RunOptions(
        home=Path(given["home"] or goal_home(os.environ)),
        observers=observers,
        approver=given["approver"],
        resume_prompt=given["resume_prompt"],
        prompt=given["prompt"],
    )


class Callback:
    """An observer that passes the events, or the agent's streamed text, to a function."""

    def __init__(
        self, on_event: Callable[[Event], None] | None = None, on_text: Callable[[str], None] | None = None
    ) -> None:
        self._on_event = on_event
        if on_text is not None:
            self.on_text = on_text

    def on_record(self, record: Record) -> None:
        if self._on_event is not None:
            self._on_event(record.event)


def refusal(error: ValidationError, function: str) -> UsageError:
    """Return the first error of a validation as a UsageError."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "goal"
    reason = first.get("ctx", {}).get("error", first["msg"])
    return UsageError(f"{where}: {reason}", f"see the docstring of {function}")


def existing_folder(path: Path | str) -> Path:
    """Return the folder, absolute. Raise UsageError if there is none."""
    folder = Path(path).resolve()
    if not folder.is_dir():
        wrong = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError(f"the workspace {folder} {wrong}", "create the folder, or name another")
    return folder


def refuse_no_conversation(value: Any) -> None:
    """Raise UsageError if the value cannot be driven as a conversation."""
    wanted = value if isinstance(value, str) and value.strip() else "provider/model"
    hint = f'pass chat_conversation("{wanted}"), or an object like goalrunner.Conversation'
    if isinstance(value, type):
        raise UsageError(f"{value.__name__} is a class, not a conversation", hint)
    if lacks := [name for name in ("send", "messages") if not hasattr(value, name)]:
        name = f'"{value}"' if isinstance(value, str) else kind_of(value)
        raise UsageError(f"{name} is not a conversation: it has no {' and no '.join(lacks)}", hint)
    if not callable(value.send) or not (accepts(value.send, 2) or accepts(value.send, 1)):
        raise UsageError(f"{type(value).__name__}.send cannot be called with a prompt and a recorder", WANTED)
    if not isinstance(value.messages, Sequence) or isinstance(value.messages, str):
        raise UsageError(f"{type(value).__name__}.messages is {kind_of(value.messages)}, not a list", hint)


def refuse_no_checkpoint(goal: Goal, conversation: object) -> None:
    """Raise UsageError if each retry must begin with the same chat, and the conversation cannot return to it."""
    methods = [getattr(conversation, name, None) for name in ("checkpoint", "restore")]
    plain = all(callable(method) and not inspect.iscoroutinefunction(method) for method in methods)
    if not (goal.preserve_context or plain):
        raise UsageError(
            f"preserve_context=False needs {type(conversation).__name__}.checkpoint() and .restore(checkpoint)",
            "add these two plain methods, or omit preserve_context=False",
        )


def refuse_unconfined(goal: Goal) -> None:
    """Raise UsageError if the goal requires a sandbox: commands of the caller's conversation cannot run in one."""
    if goal.workspace.sandbox == "bwrap":
        raise UsageError(
            'sandbox = "bwrap" cannot be enforced: the calling program made the conversation, and its commands are in no sandbox',
            'write sandbox = "auto" to confine only the validators, or run the goal file with: goal run',
        )
