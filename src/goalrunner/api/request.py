"""What a caller of the library asks for, as a goal and the parts that no goal file can hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.events import Event, Record
from goalrunner.llm import LLM
from goalrunner.model.goal import DEFAULT_MAX_ITERATIONS, Goal, JudgeConfig, ValidatorSpec
from goalrunner.ports import Validator
from goalrunner.prompts import ResumePrompt
from goalrunner.validators import CallableValidator

Check = str | ValidatorSpec | Validator | Callable[..., Any]
"""A shell command, a specification, a Validator, or a callable `(response, agent)` that says whether it passed."""

JudgeChoice = LLM | JudgeConfig | str | None
"""A model that exists, its configuration, its name, or nobody."""


@dataclass(frozen=True)
class Request:
    """The keywords of `arun_goal`; see there."""

    objective: str | Goal
    judge_llm: JudgeChoice = None
    max_iterations: float | None = DEFAULT_MAX_ITERATIONS
    timeout: float | None = None
    validators: Sequence[Check] = ()
    preserve_context: bool = True
    resume_prompt: ResumePrompt | None = None
    prompt: str | None = None
    workspace: Path | str | None = None

    def goal(self) -> Goal:
        """The goal with the keywords put into it. Raises pydantic's ValidationError for a value that cannot be."""
        goal = self.objective if isinstance(self.objective, Goal) else Goal(objective=self.objective)
        changes: dict[str, Any] = {"judge": _judge_config(goal, self.judge_llm)}
        if self.max_iterations != DEFAULT_MAX_ITERATIONS:
            changes["max_iterations"] = None if self.max_iterations in (None, math.inf) else self.max_iterations
        if self.timeout is not None:
            changes["timeout"] = None if self.timeout == math.inf else self.timeout
        if not self.preserve_context:
            changes["preserve_context"] = False
        if self.workspace is not None:
            changes["workspace"] = {"path": str(Path(self.workspace).resolve())}
        specs = [ValidatorSpec(name=check, run=check) for check in self.validators if isinstance(check, str)]
        specs += [check for check in self.validators if isinstance(check, ValidatorSpec)]
        changes["validators"] = (*goal.validators, *specs)
        return Goal.model_validate({**goal.model_dump(), **changes})

    def own_validators(self) -> tuple[Validator, ...]:
        """Those that are objects or callables, run in process."""
        own: list[Validator] = []
        for check in self.validators:
            if isinstance(check, (str, ValidatorSpec)):
                continue
            is_port = hasattr(check, "validate") and hasattr(check, "name")
            own.append(check if is_port else CallableValidator(check))  # type: ignore[arg-type]
        return tuple(own)


class EventCallback:
    """An observer that hands the bare events to a function."""

    def __init__(self, function: Callable[[Event], None]) -> None:
        self._function = function

    def on_record(self, record: Record) -> None:
        """Hand it on."""
        self._function(record.event)

    def on_text(self, delta: str) -> None:
        """Not an event."""


def _judge_config(goal: Goal, judge: JudgeChoice) -> JudgeConfig:
    match judge:
        case LLM():
            return goal.judge.model_copy(update={"model": judge.model})
        case str():
            return goal.judge.model_copy(update={"model": judge})
        case JudgeConfig():
            return judge
        case None:
            return goal.judge
