"""The options of a run, and the keywords of `run_goal` as a goal and options."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from pydantic import ValidationError

from goalrunner.core.agent_ports import Conversation
from goalrunner.core.check_ports import Validator
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Event, Record
from goalrunner.core.goal import AGENT_MODEL, Goal, JudgeConfig, ValidatorSpec
from goalrunner.core.ports import Approver, Observer
from goalrunner.engine.prompts import ResumePrompt
from goalrunner.llm import LLM
from goalrunner.records.run_folder import RunFolder, goal_home
from goalrunner.validators import CallableValidator


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run is given beside its goal, by the command line or by a calling program."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    home: Path = field(default_factory=lambda: goal_home(os.environ))
    """GOAL_HOME: where the run's folder is made."""
    observers: Sequence[Observer] = ()
    approver: Approver | None = None
    """Asked where something waits for a person."""
    goal_file: Path | None = None
    """Where the goal was read from; it is always protected."""
    record: Path | None = None
    """Where the models' replies are recorded, for `scripted/<file>`."""
    continues: RunFolder | None = None
    """A run whose conversation goes on in this one."""
    conversation: Conversation | None = None
    """The agent; None: it is made from the goal. The same holds for `judge_llm`."""
    judge_llm: LLM | None = None
    validators: tuple[Validator, ...] = ()
    """Run in this process, beside those of the goal."""
    resume_prompt: ResumePrompt | None = None
    prompt: str | None = None
    """The first user message, if the objective is only its quality bar."""
    needs_round: bool = False
    """Whether the agent works even if the baseline is green."""

    @property
    def handed(self) -> tuple[str, ...]:
        """The parts that the calling program passed, by name; only that program can make them again."""
        given = {
            "conversation": self.conversation,
            "judge": self.judge_llm,
            "validators": self.validators,
            "resume_prompt": callable(self.resume_prompt),
        }
        return tuple(name for name, value in given.items() if value)


Check = str | ValidatorSpec | Validator | Callable[..., Any]
"""A shell command, a specification, a Validator, or a callable `(response, agent)` that says whether it passed."""

Checks = Check | Iterable[Check]
"""One check, or any number of them."""

_HINT = "give shell commands, ValidatorSpecs, Validators, or callables (response, agent): validators=[...]"


def split_checks(given: Checks) -> tuple[tuple[ValidatorSpec, ...], tuple[Validator, ...]]:
    """Return those that run in processes of their own, shell commands first, and those that run in this process.

    Raise UsageError for anything that is no check.
    """
    single = isinstance(given, str | ValidatorSpec) or callable(given) or _is_validator(given)
    if not single and (isinstance(given, bytes | Mapping) or not isinstance(given, Iterable)):
        raise UsageError(f"validators is {_kind(given)}, not a validator or a list of validators", _HINT)
    commands: list[ValidatorSpec] = []
    specs: list[ValidatorSpec] = []
    own: list[Any] = []
    for check in (given,) if single else given:  # type: ignore[union-attr]
        match check:
            case str() if not check.strip():
                raise UsageError("a validator is an empty command", _HINT)
            case str():
                commands.append(ValidatorSpec(name=check, run=check))
            case ValidatorSpec():
                specs.append(check)
            case _ if _is_validator(check):
                own.append(check)
            case _ if callable(check):
                own.append(CallableValidator(check))
            case _:
                raise UsageError(f"a validator is {_kind(check)}, not a validator", _HINT)
    return (*commands, *specs), tuple(own)


def _is_validator(value: object) -> bool:
    return hasattr(value, "validate") and hasattr(value, "name") and not isinstance(value, type)


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


class Unset(Enum):
    """The value of a keyword that was not given: the Goal's field, or its default, is used."""

    UNSET = "unset"

    def __repr__(self) -> str:
        """Return the word for signatures."""
        return "UNSET"


UNSET = Unset.UNSET

JudgeChoice = LLM | JudgeConfig | str | None
"""A model instance, its configuration, its name, or no judge."""


class RunKeywords(TypedDict, total=False):
    """The keywords of `arun_goal`, `run_goal` and `GoalController`."""

    max_iterations: float | Unset | None
    timeout: float | Unset | None
    validators: Checks
    preserve_context: bool | Unset
    resume_prompt: ResumePrompt | None
    prompt: str | None
    workspace: Path | str | None
    on_event: Callable[[Event], None] | None
    home: Path | str | None
    approver: Approver | None


_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(RunKeywords.__annotations__),
    **dict.fromkeys(("max_iterations", "timeout", "preserve_context"), UNSET),
    "validators": (),
}

F = TypeVar("F", bound=Callable[..., Any])


def shows_options(function: F) -> F:
    """Show the keywords with their defaults in the signature of a function, for `help()`."""
    own = inspect.signature(function)
    named = [item for item in own.parameters.values() if item.kind is not item.VAR_KEYWORD]
    known = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation.__forward_arg__)
        for (name, default), annotation in zip(_DEFAULTS.items(), RunKeywords.__annotations__.values(), strict=True)
    ]
    function.__signature__ = own.replace(parameters=[*named, *known])  # type: ignore[attr-defined]
    return function


def goal_and_options(
    function: str, objective: str | Goal, judge: JudgeChoice, keywords: RunKeywords, conversation: object = None
) -> tuple[Goal, RunOptions]:
    """Return the goal with the keywords put into it, and the options of the run, for a call of `function`.

    The model of the `conversation` can judge, and the run works in its folder. Raise TypeError for an unknown keyword, and
    UsageError for a value that cannot be, and for a workspace that is not the conversation's.
    """
    if unknown := sorted(keywords.keys() - _DEFAULTS.keys()):
        raise TypeError(f"{function}() got an unexpected keyword argument '{unknown[0]}'")
    given = {**_DEFAULTS, **keywords}
    specs, validators = split_checks(given["validators"])
    try:
        goal = _goal(objective, judge, given, conversation, specs, has_checks=bool(specs or validators))
    except ValidationError as error:
        raise refusal(error, "arun_goal") from None
    if goal.workspace.path:
        existing_folder(goal.workspace.path)
    template = given["resume_prompt"]
    check_template(template if isinstance(template, str) else goal.resume_prompt)
    return goal, RunOptions(
        home=Path(given["home"] or goal_home(os.environ)),
        observers=() if given["on_event"] is None else (EventCallback(given["on_event"]),),
        approver=given["approver"],
        judge_llm=judge if isinstance(judge, LLM) else None,
        validators=validators,
        resume_prompt=template,
        prompt=given["prompt"],
    )


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
    has_model = isinstance(getattr(conversation, "llm", None), LLM)
    changes: dict[str, Any] = {
        name: None if given[name] == math.inf else given[name]
        for name in ("max_iterations", "timeout", "preserve_context")
        if given[name] is not UNSET
    }
    changes["judge"] = _judge_config(goal, judge, default=has_model and not (has_checks or goal.validators))
    changes["validators"] = (*goal.validators, *specs)
    named = given["workspace"] if given["workspace"] is not None else goal.workspace.path or None
    chosen = Path(named).resolve() if named is not None else None
    own = getattr(conversation, "workspace", None)
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
    match judge:
        case LLM():
            return goal.judge.model_copy(update={"model": judge.model})
        case str() if judge.strip():
            return goal.judge.model_copy(update={"model": judge})
        case str():
            raise UsageError(
                "the judge's model has no name", 'name one, or "agent" for the agent\'s own; None for no judge'
            )
        case JudgeConfig():
            config, wanted = judge, True
        case None:
            config, wanted = goal.judge, default or goal.judge != JudgeConfig()
        case _:
            raise no_judge(judge)
    return config if config.model or not wanted else config.model_copy(update={"model": AGENT_MODEL})


def no_judge(value: object) -> UsageError:
    """Return the error for a value that is no judge."""
    return UsageError(f"a {type(value).__name__} is not a judge", "give an LLM, a model's name, or a JudgeConfig")


class EventCallback:
    """An observer that passes the events to a function."""

    def __init__(self, function: Callable[[Event], None]) -> None:
        self._function = function

    def on_record(self, record: Record) -> None:
        """Pass the event on."""
        self._function(record.event)


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
        wrong = "is no folder" if folder.exists() else "does not exist"
        raise UsageError(f"the workspace {folder} {wrong}", "create the folder, or name another")
    return folder


def check_template(template: str | None) -> None:
    """Raise UsageError for a placeholder in the template of the retry message that has no value."""
    try:
        (template or "").format(feedback="", iteration="", missing="", objective="")
    except (KeyError, IndexError, ValueError) as error:
        raise UsageError(
            f"resume_prompt is not valid: {error}",
            "it may say {feedback} {iteration} {missing} {objective}; write {{ for {",
        ) from None
