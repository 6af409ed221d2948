"""The keywords of `run_goal`, as a goal and as parts that no goal file can hold."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from pydantic import ValidationError

from goalrunner.core.check_ports import Validator
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Event, Record
from goalrunner.core.goal import AGENT_MODEL, Goal, JudgeConfig, ValidatorSpec
from goalrunner.core.ports import Approver
from goalrunner.engine.prompts import ResumePrompt
from goalrunner.llm import LLM
from goalrunner.validators import CallableValidator

Check = str | ValidatorSpec | Validator | Callable[..., Any]
"""A shell command, a specification, a Validator, or a callable `(response, agent)` that says whether it passed."""

Checks = Check | Iterable[Check]
"""One check, or any number of them."""

_HINT = "give shell commands, ValidatorSpecs, Validators, or callables (response, agent): validators=[...]"


def checks_of(given: Checks) -> tuple[Check, ...]:
    """The checks that were given; one alone is one check. Raises UsageError for what is none."""
    if _is_check(given):
        return (_checked(given),)
    if isinstance(given, bytes | Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"validators is {_kind(given)}, neither a check nor a list of them", _HINT)
    return tuple(_checked(check) for check in given)


def specs_of(checks: tuple[Check, ...]) -> tuple[ValidatorSpec, ...]:
    """Those that run in processes of their own: shell commands, then specifications."""
    commands = [ValidatorSpec(name=check, run=check) for check in checks if isinstance(check, str)]
    return (*commands, *(check for check in checks if isinstance(check, ValidatorSpec)))


def own_validators(checks: tuple[Check, ...]) -> tuple[Validator, ...]:
    """Those that are objects or callables, run in process."""
    return tuple(_validator(check) for check in checks if not isinstance(check, str | ValidatorSpec))


def _validator(check: Validator | Callable[..., Any]) -> Validator:
    return check if _is_validator(check) else CallableValidator(check)  # type: ignore[return-value,arg-type]


def _checked(check: object) -> Any:
    if not _is_check(check):
        raise UsageError(f"a validator is {_kind(check)}, which is no check", _HINT)
    if isinstance(check, str) and not check.strip():
        raise UsageError("a validator is an empty command", _HINT)
    return check


def _is_check(value: object) -> bool:
    return isinstance(value, str | ValidatorSpec) or _is_validator(value) or callable(value)


def _is_validator(value: object) -> bool:
    return hasattr(value, "validate") and hasattr(value, "name") and not isinstance(value, type)


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


class Unset(Enum):
    """The value of a keyword that was not given: the Goal's own field, or its default, counts then."""

    UNSET = "unset"

    def __repr__(self) -> str:
        """Show it in signatures as a word."""
        return "UNSET"


UNSET = Unset.UNSET

JudgeChoice = LLM | JudgeConfig | str | None
"""A model that exists, its configuration, its name, or nobody."""


F = TypeVar("F", bound=Callable[..., Any])


class RunOptions(TypedDict, total=False):
    """The keywords of `arun_goal`, `run_goal` and `GoalController`; `Request` has their defaults."""

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


@dataclass(frozen=True)
class Request:
    """What `arun_goal` is asked for; see there."""

    objective: str | Goal
    judge_llm: JudgeChoice = None
    _: KW_ONLY
    max_iterations: float | Unset | None = UNSET
    timeout: float | Unset | None = UNSET
    validators: Checks = ()
    preserve_context: bool | Unset = UNSET
    resume_prompt: ResumePrompt | None = None
    prompt: str | None = None
    workspace: Path | str | None = None
    on_event: Callable[[Event], None] | None = None
    home: Path | str | None = None
    approver: Approver | None = None
    _checks: tuple[Check, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Raises UsageError for validators that are none. Listed here, since an iterator can be read only once."""
        object.__setattr__(self, "_checks", checks_of(self.validators))

    def goal(self, *, has_model: bool, folder: Path | None = None) -> Goal:
        """Return the goal with the keywords put into it.

        `has_model` says that the conversation's own model can judge; `folder` is where the conversation works. Raise
        UsageError for a value that cannot be, and for a workspace that is not the conversation's.
        """
        try:
            goal = self._goal(has_model=has_model, folder=folder)
        except ValidationError as error:
            raise refusal(error, "arun_goal") from None
        if goal.workspace.path:
            existing_folder(goal.workspace.path)
        check_template(self.resume_prompt if isinstance(self.resume_prompt, str) else goal.resume_prompt)
        return goal

    def _goal(self, *, has_model: bool, folder: Path | None) -> Goal:
        goal = self.objective if isinstance(self.objective, Goal) else Goal(objective=self.objective)
        checked = bool(self._checks or goal.validators)
        changes: dict[str, Any] = {"judge": _judge_config(goal, self.judge_llm, default=has_model and not checked)}
        if self.max_iterations is not UNSET:
            changes["max_iterations"] = None if self.max_iterations in (None, math.inf) else self.max_iterations
        if self.timeout is not UNSET:
            changes["timeout"] = None if self.timeout == math.inf else self.timeout
        if self.preserve_context is not UNSET:
            changes["preserve_context"] = self.preserve_context
        if (path := self._folder(goal, folder)) is not None:
            changes["workspace"] = {**goal.workspace.model_dump(), "path": str(path)}
        changes["validators"] = (*goal.validators, *specs_of(self._checks))
        return Goal.model_validate({**goal.model_dump(), **changes})

    def _folder(self, goal: Goal, folder: Path | None) -> Path | None:
        """Return the workspace: the keyword's, the goal's or the conversation's; None for the current folder."""
        named = self.workspace if self.workspace is not None else goal.workspace.path or None
        chosen = Path(named).resolve() if named is not None else None
        if folder is not None and chosen is not None and chosen != folder.resolve():
            raise UsageError(
                f"the conversation works in {folder}, and the run would check {chosen}",
                "leave out workspace, or make the conversation with the same one",
            )
        return chosen or (folder.resolve() if folder is not None else None)

    def own_validators(self) -> tuple[Validator, ...]:
        """Those that are objects or callables, run in process."""
        return own_validators(self._checks)


def request_of(function: str, objective: str | Goal, judge_llm: JudgeChoice, options: RunOptions) -> Request:
    """Return the request of a call of `function`. Raise TypeError for an unknown keyword."""
    unknown = sorted(options.keys() - RunOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument '{unknown[0]}'")
    return Request(objective, judge_llm, **options)


def shows_options(function: F) -> F:
    """Show the keywords of `RunOptions` with their defaults in the signature of a function, for `help()`."""
    own = inspect.signature(function)
    named = [item for item in own.parameters.values() if item.kind is not item.VAR_KEYWORD]
    known = [item for item in inspect.signature(Request).parameters.values() if item.kind is item.KEYWORD_ONLY]
    function.__signature__ = own.replace(parameters=[*named, *known])  # type: ignore[attr-defined]
    return function


class EventCallback:
    """An observer that hands the bare events to a function."""

    def __init__(self, function: Callable[[Event], None]) -> None:
        self._function = function

    def on_record(self, record: Record) -> None:
        """Hand it on."""
        self._function(record.event)

    def on_text(self, delta: str) -> None:
        """Not an event."""


def refusal(error: ValidationError, function: str) -> UsageError:
    """The first thing that is wrong, for people."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "goal"
    return UsageError(f"{where}: {first['msg']}", f"see the docstring of {function}")


def existing_folder(path: Path | str) -> Path:
    """The folder, absolute. Raises UsageError where there is none."""
    folder = Path(path).resolve()
    if not folder.is_dir():
        wrong = "is no folder" if folder.exists() else "does not exist"
        raise UsageError(f"the workspace {folder} {wrong}", "create the folder, or name another")
    return folder


def check_template(template: str | None) -> None:
    """Try the template of the retry message. Raises UsageError for a placeholder that nothing fills."""
    try:
        (template or "").format(feedback="", iteration="", missing="", objective="")
    except (KeyError, IndexError, ValueError) as error:
        raise UsageError(
            f"resume_prompt does not hold: {error}",
            "it may say {feedback} {iteration} {missing} {objective}; write {{ for {",
        ) from None


def _judge_config(goal: Goal, judge: JudgeChoice, *, default: bool) -> JudgeConfig:
    """Who judges. A judge that is configured and not named is the agent's own model; it never disappears in silence."""
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
            raise UsageError(f"a {type(judge).__name__} is no judge", "give an LLM, a model's name, or a JudgeConfig")
    return config if config.model or not wanted else config.model_copy(update={"model": AGENT_MODEL})
