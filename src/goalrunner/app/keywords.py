"""The keywords of `run_goal` and `GoalController`, the forms in which a caller gives a judge, a critic and checks."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import EllipsisType
from typing import Any, Protocol, TypedDict, TypeVar, cast

from pydantic import ValidationError

from goalrunner.app.run_options import Checks, RunOptions, split_checks
from goalrunner.core.agent_ports import Approver, Message, Observer
from goalrunner.core.critique import CriticConfig
from goalrunner.core.errors import UsageError, kind_of
from goalrunner.core.events import Event, Record
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AGENT_MODEL, JudgeConfig, ValidatorSpec
from goalrunner.core.ports import Critic
from goalrunner.engine.prompts import ResumePrompt
from goalrunner.engine.turns import accepts
from goalrunner.llm import LLM, CustomModel, as_model
from goalrunner.records.run_folder import goal_home


class MinimalConversation(Protocol):
    """The least that a conversation has; `Conversation` is all that it can have."""

    @property
    def messages(self) -> Sequence[Message]:
        """The chat so far, oldest first."""

    @property
    def send(self) -> Callable[..., Any]:
        """Called with a prompt and a recorder, or with the prompt alone; returns the answer, or an awaitable of it."""


class Completing(Protocol):
    """A model of the calling program."""

    def complete(self, messages: Sequence[Message], /) -> str | Awaitable[str]:
        """Return the answer to system and user messages."""


JudgeChoice = LLM | JudgeConfig | str | Completing | Callable[[Sequence[Message]], str | Awaitable[str]] | None
"""A model instance, its configuration, its name, a function or object that answers messages, or no judge."""

CriticChoice = Critic | LLM | CriticConfig | str | None
"""A callable `(response, agent)`, a model instance, a configuration, a model's name, or no critic but that of the Goal."""


class CommonKeywords(TypedDict, total=False):
    """The keywords of a new run and of one that goes on."""

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
    function: str, objective: str | Goal, judge: JudgeChoice, keywords: RunKeywords, conversation: object = None
) -> tuple[Goal, RunOptions]:
    """Return the goal with the keywords put into it, and the options of the run, for a call of `function`.

    The model of the `conversation` can judge, and the run works in its folder. Raise TypeError for an unknown keyword, and
    UsageError for a value that cannot be, and for a workspace that is not the conversation's.
    """
    given, options = given_options(function, _DEFAULTS, keywords)
    judge = one_judge(judge, given["judge"])
    specs, validators = split_checks(given["validators"])
    try:
        goal = _goal(objective, judge, given, conversation, specs, has_checks=bool(specs or validators))
    except ValidationError as error:
        raise refusal(error, "arun_goal") from None
    own = own_judge(judge if judge is not None or not isinstance(objective, Goal) else objective.judge)
    if isinstance(own, CustomModel) and "tokens" in {*goal.budget.limited} - {*goal.budget.unenforced}:
        raise UsageError(
            f"the tokens of the judge {own.model} are unknown, so a budget of tokens cannot be enforced",
            'remove the budget, or set allow_unenforced = ["tokens"] to count only what is known',
        )
    if goal.workspace.path:
        existing_folder(goal.workspace.path)
    template = given["resume_prompt"] if isinstance(given["resume_prompt"], str) else goal.resume_prompt
    try:
        (template or "").format(feedback="", iteration="", missing="", objective="")
    except (KeyError, IndexError, ValueError) as error:
        hint = "it may say {feedback} {iteration} {missing} {objective}; write {{ for {"
        raise UsageError(f"resume_prompt is not valid: {error}", hint) from None
    return goal, replace(options, judge_llm=own, critic=own_critic(given["critic"]), validators=validators)


def _goal(
    objective: str | Goal,
    judge: JudgeChoice,
    given: dict[str, Any],
    conversation: object,
    specs: tuple[ValidatorSpec, ...],
    *,
    has_checks: bool,
) -> Goal:
    goal = objective if isinstance(objective, Goal) else Goal(objective=objective)
    own = getattr(conversation, "workspace", None)
    has_folder = isinstance(own if given["workspace"] is None else given["workspace"], str | Path)
    if conversation is not None and not (isinstance(objective, Goal) or has_folder or specs):
        # Without a folder, the response is all that there is to judge, as in GoalLoop.
        goal = goal.model_copy(update={"deliverable": "response"})
    has_model = isinstance(getattr(conversation, "llm", None), LLM)
    changes: dict[str, Any] = {
        name: None if given[name] == math.inf else given[name] for name in _OWN_DEFAULT if given[name] is not ...
    }
    changes["judge"] = _judge_config(goal, judge, default=has_model and not (has_checks or goal.validators))
    changes["validators"] = (*goal.validators, *specs)
    if isinstance(given["critic"], str | CriticConfig):
        changes["critic"] = given["critic"]
    named = given["workspace"] if given["workspace"] is not None else goal.workspace.path or None
    chosen = Path(named).resolve() if named is not None else None
    if isinstance(own, str | Path):
        if chosen not in (None, Path(own).resolve()):
            raise UsageError(
                f"the conversation works in {own}, and the run would check {chosen}",
                "omit workspace, or create the conversation with the same one",
            )
        chosen = Path(own).resolve()
    if chosen is not None:
        changes["workspace"] = {**goal.workspace.model_dump(), "path": str(chosen)}
    return Goal.model_validate({**goal.model_dump(), **changes})


def _judge_config(goal: Goal, judge: JudgeChoice, *, default: bool) -> JudgeConfig:
    """Return the judge's configuration. If it has settings and no model, the judge is the agent's own model."""
    if isinstance(judge, JudgeConfig | None):
        config = goal.judge if judge is None else judge
        wanted = judge is not None or default or config != JudgeConfig()
        return config if config.model or not wanted else config.model_copy(update={"model": AGENT_MODEL})
    if isinstance(judge, str):
        if not judge.strip():
            hint = 'name one, or "agent" for the agent\'s own; None for no judge'
            raise UsageError("the judge's model has no name", hint)
        return goal.judge.model_copy(update={"model": judge})
    if (model := as_model(judge)) is None:
        raise no_judge(judge)
    return goal.judge.model_copy(update={"model": model.model})


def no_judge(value: object) -> UsageError:
    """Return the error for a value that is no judge."""
    hint = "give an LLM, a model's name, a JudgeConfig, or a function or object with complete(messages) -> str"
    return UsageError(f"{kind_of(value)} is not a judge", hint)


def own_judge(judge: JudgeChoice) -> LLM | None:
    """Return the judge that is itself a model; None for a name, for a configuration with a name, and for None."""
    given = judge.instance if isinstance(judge, JudgeConfig) else judge
    return None if isinstance(given, str | None) else as_model(given)


def one_judge(judge_llm: JudgeChoice, judge: JudgeChoice) -> JudgeChoice:
    """Return the judge, which may be given under both names. Raise UsageError if it is given twice."""
    if judge_llm is not None and judge is not None:
        raise UsageError("judge and judge_llm are two names of one argument", "give one of them")
    return judge if judge_llm is None else judge_llm


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


def given_options(
    function: str, defaults: Mapping[str, Any], keywords: Mapping[str, Any]
) -> tuple[dict[str, Any], RunOptions]:
    """Return all keywords of a call, and the options that are part of no goal. Raise TypeError and UsageError."""
    if unknown := sorted(keywords.keys() - defaults.keys()):
        raise TypeError(f"{function}() got an unexpected keyword argument '{unknown[0]}'")
    given = {**defaults, **keywords}
    template, prompt, approver, home = (given[name] for name in ("resume_prompt", "prompt", "approver", "home"))
    for name in ("on_event", "on_text"):
        if given[name] is not None and not callable(given[name]):
            raise UsageError(f"{name} must be a function, not {kind_of(given[name])}", f"{name}=print")
    plain = callable(template) and not inspect.iscoroutinefunction(template) and accepts(template, 1)
    if not (isinstance(template, str | None) or plain):
        raise UsageError(
            "resume_prompt must be a text, or a function of one argument, the feedback",
            'write: def resume_prompt(feedback): return f"...{feedback}"',
        )
    if not isinstance(prompt, str | None) or (prompt is not None and not prompt.strip()):
        raise UsageError("prompt must be a text that is not empty", "omit it to send the objective")
    if approver is not None and not all(callable(getattr(approver, name, None)) for name in ("approve", "answer")):
        raise UsageError("approver must have the methods approve and answer", "see goalrunner.Approver")
    if not isinstance(home, str | Path | None):
        raise UsageError(f"home must be a path, not {kind_of(home)}", "omit it to use GOAL_HOME")
    observers: list[Observer] = [Callback(given["on_event"])] if given["on_event"] else []
    observers += [Callback(on_text=given["on_text"])] if given["on_text"] else []
    return given, RunOptions(
        home=Path(home or goal_home(os.environ)),
        observers=observers,
        approver=approver,
        resume_prompt=template,
        prompt=prompt,
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
