"""The goal of a GoalLoop: what its run checks, and what its retries say."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from goalrunner import Goal
from goalrunner.adapters.strands_agent import (
    StrandsConversation,
    strands_judge,
    strands_model,
)
from goalrunner.app.library import goal_and_options
from goalrunner.app.run_options import RunKeywords, RunOptions, split_checks
from goalrunner.core.agent_ports import Recorder
from goalrunner.core.errors import ModelError
from goalrunner.core.events import ChecksReviewed, ConfirmationRecorded, VerdictRecorded
from goalrunner.core.labels import Label
from goalrunner.core.messages import text_of
from goalrunner.core.ports import AuditRequest, ChecksReviewRequest, Judge
from goalrunner.core.verdict import GoalVerdict
from goalrunner.validators.python_validators import CallableValidator

_log = logging.getLogger(__name__)

FAILED = "Validator error: "
"""What the feedback of a check begins with that raised an error, as in Strands."""


@dataclass(frozen=True)
class LoopSettings:
    """The parameters of a GoalLoop."""

    name: str
    goal: str | Callable[..., Any] | Goal
    judge: Any
    """A model for the judge; None is the agent's `aux_model`."""
    judge_prompt: str | None
    """The system prompt of the judge; None is the built-in one."""
    limits: RunKeywords
    timeout: float
    """Seconds, checked between attempts; inf if a Goal has its own limits."""
    preserve_context: bool
    template: Callable[[str | None], Any] | None
    checks: tuple[Any, ...]
    """Checks beside the goal."""
    options: RunKeywords


class LoopGoal:
    """The goal of a GoalLoop for one agent."""

    def __init__(self, settings: LoopSettings, agent: Any) -> None:
        self._settings = settings
        self._agent = agent
        self.feedback: str | None = None
        """The feedback of a callable in its own words, for the current attempt."""
        self.escaped: BaseException | None = None
        """An error of the program that its call of the agent raises."""
        self.retry_input: Any = None
        """The last value of the template; None: the message is the prompt."""

    @property
    def decides_alone(self) -> bool:
        """Whether a callable goal is the only check."""
        settings = self._settings
        return callable(settings.goal) and not settings.checks

    def resolved(
        self, prompt: str, conversation: StrandsConversation
    ) -> tuple[Goal, RunOptions]:
        """Return the goal of an invocation, and the options of its run.

        `prompt` is the input of the invocation as text; empty if there is none.
        """
        settings, goal = self._settings, self._settings.goal
        checks = tuple(map(self._as_validator, settings.checks))
        if not isinstance(goal, str | Goal):
            checks = (self._goal_validator(goal), *checks)
        keywords: RunKeywords = {
            "validators": checks,
            **settings.limits,
            **settings.options,
        }
        if prompt.strip():
            keywords["prompt"] = prompt
        if settings.template is not None:
            keywords["resume_prompt"] = self._retry
        if not settings.preserve_context:
            keywords["preserve_context"] = False
        objective = goal if isinstance(goal, Goal) else self._goal(goal, checks)
        resolved, options = goal_and_options(
            objective, self._judge(), keywords, conversation
        )
        # Callables run in this process, where the agent runs too.
        labels: tuple[str, ...] = ()
        if options.validators and resolved.deliverable == "response":
            labels = (Label.NOT_ISOLATED.value,)
        if isinstance(goal, str):
            options = replace(options, adapt_judge=LoopJudge)
        return resolved, replace(options, needs_round=True, labels=labels)

    def _judge(self) -> Any:
        """Return the judge; by default, a text is judged by the auxiliary model."""
        judge = strands_judge(self._settings.judge)
        if not isinstance(self._settings.goal, str):
            return judge
        return judge or strands_model(self._agent.aux_model).separate("judge")

    def _goal(self, goal: str | Callable[..., Any], checks: tuple[Any, ...]) -> Goal:
        """Return a goal of a text or a callable as a Goal."""
        has_commands = bool(split_checks(checks)[0])
        names_folder = self._settings.options.get("workspace") is not None
        text = f"{_name(goal)}(response, agent) passes."
        config = {}
        if isinstance(goal, str):
            text = goal
            config = {"system_prompt": self._settings.judge_prompt}
        return Goal(
            objective=text,
            deliverable="workspace" if has_commands or names_folder else "response",
            # Equal feedback in every round is no reason to stop before max_attempts.
            stall_rounds=None,
            judge=config,
        )

    def _as_validator(self, check: Any) -> Any:
        """Return a check that is a function as a validator; any other one unchanged."""
        is_function = callable(check) and not hasattr(check, "validate")
        return self._bound(check) if is_function else check

    def _goal_validator(self, goal: Callable[..., Any]) -> CallableValidator:
        # The time limit of the loop is the only one, and ends no check, as in Strands.
        return CallableValidator(self._bound(goal), timeout=None)

    def _bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a callable as a validator.

        It gets the agent's last message and the agent itself, and is called in the
        thread of the agent's event loop, as by Strands.
        """

        async def check(response: Any, _: object) -> Any:
            for message in reversed(self._agent.messages):
                if message["role"] == "assistant":
                    response = message
                    break
            try:
                value = function(response, self._agent)
                returned = await value if inspect.isawaitable(value) else value
                answer = _answer_of(returned)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                _warn(f"{self._settings.name}: {_name(function)}", error)
                # Without the traceback: it has paths of this machine.
                answer = {"passed": False, "feedback": f"{FAILED}{error}"}
            except BaseException as error:
                self.escaped = error
                answer = {"passed": False}
            self.feedback = answer.get("feedback")
            return answer

        # The name of the validator in reports.
        check.__name__ = _name(function)
        return check

    def _retry(self, feedback: str | None) -> str:
        """Return the retry message as text.

        The agent is resumed with the value of the template, which may be blocks.
        """
        template = self._settings.template
        assert template is not None, "only a template makes this message"
        if self.decides_alone:
            feedback = self.feedback.strip() if self.feedback else None
        try:
            self.retry_input = template(feedback)
        except BaseException as error:
            self.escaped = error
            raise
        return text_of(self.retry_input)


class LoopJudge:
    """A judge of a text whose failures are failed attempts, as in Strands.

    No verdict ends the loop but one that is complete: no person answers questions.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def audit(self, request: AuditRequest, recorder: Recorder) -> VerdictRecorded:
        try:
            recorded = await self._judge.audit(request, recorder)
        except ModelError as error:
            # The error of the framework, without the words of this package.
            cause = error.__cause__ or error
            _warn("the judge", cause)
            verdict = _failed(f"{FAILED}{cause}")
            return VerdictRecorded(round=request.round, verdict=verdict)
        if recorded.verdict.source == "fallback":
            verdict = _failed("The judge gave no verdict that can be read.")
        else:
            goes_on = {"blocked": "", "questions": ()}
            verdict = recorded.verdict.model_copy(update=goes_on)
        return recorded.model_copy(update={"verdict": verdict})

    async def confirm(
        self, request: AuditRequest, claim: str, recorder: Recorder
    ) -> ConfirmationRecorded:
        return await self._judge.confirm(request, claim, recorder)

    async def review(
        self, request: ChecksReviewRequest, recorder: Recorder
    ) -> ChecksReviewed:
        return await self._judge.review(request, recorder)


def _failed(missing: str) -> GoalVerdict:
    return GoalVerdict(score=0.0, complete=False, missing=missing)


def _answer_of(returned: Any) -> dict[str, Any]:
    """Return what a validator returned as a dict. Raise TypeError if it is no result.

    Strands takes any value of `passed` by its truth.
    """
    if isinstance(returned, bool):
        return {"passed": returned}
    fields = ("passed", "feedback", "evidence")
    if isinstance(returned, dict):
        answer = {name: returned.get(name) for name in fields}
    elif hasattr(returned, "passed") and not isinstance(returned, type):
        answer = {name: getattr(returned, name, None) for name in fields}
    else:
        raise TypeError(
            f"the validator returned {type(returned).__name__}; it must return a bool, "
            "{'passed': bool, 'feedback': str} or a ValidationOutcome"
        )
    passed, feedback = answer["passed"], answer["feedback"]
    # "false" is true as well.
    if isinstance(passed, str):
        raise TypeError(f"'passed' must be a bool, not the text {passed!r:.40}")
    if not isinstance(feedback, str | None):
        raise TypeError(f"'feedback' must be a text or None, not {feedback!r:.40}")
    return {**answer, "passed": bool(passed)}


def _warn(who: str, error: BaseException) -> None:
    """Log an error that is a failed attempt; the traceback only at DEBUG."""
    traceback = error if _log.isEnabledFor(logging.DEBUG) else None
    _log.warning("%s raised an error: %s", who, error, exc_info=traceback)


def _name(function: object) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return name if name != "<lambda>" else "validator"
