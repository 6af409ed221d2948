"""Strands agents, with the names and parameters of Strands' own GoalLoop."""

from __future__ import annotations

import inspect
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, cast

from goalrunner import Goal, GoalOutcome, GoalVerdict
from goalrunner.adapters.framework import framework_module
from goalrunner.adapters.strands_agent import (
    LIBRARY,
    StrandsConversation,
    strands_judge,
)
from goalrunner.adapters.strands_goal import LoopSettings
from goalrunner.adapters.strands_loop import AgentLoop, Attempt
from goalrunner.app.run_options import (
    Checks,
    CriticChoice,
    RunKeywords,
    judge_of,
    options_of,
)
from goalrunner.core.agent_ports import Approver
from goalrunner.core.errors import unexpected_keyword
from goalrunner.core.events import Event

try:
    from strands.plugins import Plugin
    from strands.vended_plugins.goal import (
        JUDGE_SYSTEM_PROMPT,
        GoalAttempt,
        JudgeOutcome,
        ValidationOutcome,
        Validator,
        build_judge_prompt,
    )
except ImportError:
    # Without Strands, the module can be imported; GoalLoop names the extra.
    Plugin, GoalAttempt, ValidationOutcome, Validator = object, None, None, None
    JUDGE_SYSTEM_PROMPT, JudgeOutcome, build_judge_prompt = "", None, None

__all__ = [
    "JUDGE_SYSTEM_PROMPT",
    "GoalAttempt",
    "GoalLoop",
    "GoalResult",
    "GoalStopReason",
    "JudgeConfig",
    "JudgeOutcome",
    "StrandsConversation",
    "ValidationOutcome",
    "Validator",
    "aresume",
    "arun_goal",
    "build_judge_prompt",
    "resume",
    "run_goal",
]

run_goal = LIBRARY.run_goal
arun_goal = LIBRARY.arun_goal
resume = LIBRARY.resume
aresume = LIBRARY.aresume

GoalStopReason = Literal[
    "satisfied",
    "max_attempts",
    "timeout",
    "budget_exhausted",
    "approval_required",
    "denied",
    "question_open",
    "impossible",
    "stalled",
    "evidence_unstable",
    "cancelled",
    "interrupted",
    "authentication",
    "model_not_found",
    "agent_failed",
    "judge_failed",
    "validator_missing",
    "environment_failed",
    "workspace_failed",
    "baseline_green",
    "internal_error",
]
"""Why a run ended: the reasons of Strands, and those of an outcome."""


@dataclass
class JudgeConfig:
    """The judge of a text goal.

    With the system prompt of Strands, the built-in rules of the judge hold, because its
    citations are checked.

    >>> from goalrunner.adapters.strands import JudgeConfig
    >>> JudgeConfig(system_prompt="Accept only short answers.").model is None
    True
    """

    model: Any = None
    """A Strands model, an LLM or a model's name; None is the agent's `aux_model`."""
    system_prompt: str | None = JUDGE_SYSTEM_PROMPT


class LoopKeywords(TypedDict, total=False):
    """Keywords of `run_goal` that are not among the parameters of Strands' GoalLoop."""

    workspace: Path | str | None
    home: Path | str | None
    records: str
    critic: CriticChoice
    tokens: float | None
    cost_usd: float | None
    on_event: Callable[[Event], None] | None
    approver: Approver | None


@dataclass
class GoalResult:
    """The result of a run, equal to that of Strands; `outcome` is the complete one.

    >>> result = loop.last_result(agent)  # doctest: +SKIP
    >>> result.passed, result.stop_reason  # doctest: +SKIP
    (True, 'satisfied')
    """

    passed: bool
    stop_reason: GoalStopReason
    """ "satisfied", "max_attempts", "timeout", or another stop reason of an outcome."""
    attempts: list[GoalAttempt] = field(default_factory=list)
    outcome: GoalOutcome | None = field(default=None, repr=False, compare=False)
    """The whole outcome of a run; its `verdict` is never None."""


def default_resume_prompt(feedback: str | None) -> str:
    """Return the user message before a retry.

    It is for goals that are a text or a callable.
    """
    if not feedback:
        return (
            "That does not meet the goal yet. Write a new answer that does, "
            "instead of repeating or editing this one."
        )
    return (
        f"That does not meet the goal yet. This is missing:\n\n{feedback}\n\n"
        "Write a new answer that meets all of it."
    )


# Agents that have a GoalLoop. Each has only one, because only one plugin can resume an
# agent.
_loops: weakref.WeakSet[Any] = weakref.WeakSet()


class GoalLoop(Plugin):  # type: ignore[misc]
    """Runs a goal around each invocation of the agent.

    The first seven parameters are those of Strands' GoalLoop. `goal` is a text that a
    judge checks, a callable `(response, agent)`, or a `goalrunner.Goal`. `validators`
    are further checks: shell commands and ValidatorSpecs run in the check environment
    of `workspace`, callables run in this process and add the label "not isolated". Each
    run is recorded under `home` (default: GOAL_HOME).

    >>> from goalrunner.adapters.strands import GoalLoop
    >>> from strands import Agent  # doctest: +SKIP
    >>> loop = GoalLoop("Explain it in 50 words.", max_attempts=3)  # doctest: +SKIP
    >>> Agent(plugins=[loop])("What is a rainbow?")  # doctest: +SKIP
    """

    def __init__(
        self,
        goal: str | Callable[..., Any] | Goal,
        *,
        judge: Any = None,
        max_attempts: float = inf,
        timeout: float = inf,
        name: str = "strands:goal-loop",
        preserve_context: bool = True,
        resume_prompt_template: Callable[[str | None], Any] | None = None,
        validators: Checks = (),
        **options: Unpack[LoopKeywords],
    ) -> None:
        """Create the plugin. `options` are further keywords of `run_goal`.

        `timeout` is in seconds; it is checked between attempts. Raise ValueError for a
        goal that is None or empty and for limits that are not positive, TypeError for
        other values and for unknown keywords, UsageError for an invalid check.
        """
        framework_module("strands.plugins", "strands")
        _refuse_unknown_options(options)
        _refuse_invalid_goal(goal)
        # Written like this, NaN is refused too.
        if not max_attempts >= 1:
            raise ValueError(f"max_attempts must be at least 1, not {max_attempts}")
        if not timeout > 0:
            raise ValueError(f"timeout must be positive, not {timeout}")
        is_text_or_callable = not isinstance(goal, Goal)
        if max_attempts == inf and timeout == inf and is_text_or_callable:
            warnings.warn(
                f"{name} has no max_attempts and no timeout: only success ends it",
                stacklevel=2,
            )
        model, judge_prompt = _judge_of(judge)
        checks, run_options = _checks_of(validators), dict[str, Any](options)
        # Raises for an invalid value, before the agent is invoked.
        options_of(cast(RunKeywords, {**run_options, "validators": checks}))
        self._settings = LoopSettings(
            name=name,
            goal=goal,
            judge=model,
            judge_prompt=judge_prompt,
            limits=_limits_of(goal, max_attempts, timeout),
            timeout=timeout if is_text_or_callable else inf,
            preserve_context=preserve_context,
            template=_template_of(goal, resume_prompt_template),
            checks=checks,
            options=cast(RunKeywords, run_options),
        )
        # A result lives as long as its agent.
        self._results: weakref.WeakKeyDictionary[Any, GoalResult] = (
            weakref.WeakKeyDictionary()
        )
        super().__init__()

    @property
    def name(self) -> str:
        """The name of the plugin."""
        return self._settings.name

    def last_result(self, agent: Any) -> GoalResult | None:
        """Return the result of the last run on this agent; None before its end."""
        return self._results.get(agent)

    def init_agent(self, agent: Any) -> None:
        """Add the hooks. Raise RuntimeError if the agent has a GoalLoop already."""
        if agent in _loops:
            raise RuntimeError(
                f"{self.name}: the agent has a GoalLoop already; "
                "give one GoalLoop several validators"
            )
        _loops.add(agent)
        results = self._results

        def begun() -> None:
            results.pop(agent, None)

        def finished(outcome: GoalOutcome, attempts: Sequence[Attempt]) -> None:
            results[agent] = _result_of(outcome, attempts)

        AgentLoop(self._settings, agent, begun, finished)


def _refuse_unknown_options(options: Mapping[str, object]) -> None:
    valid_options = LoopKeywords.__annotations__
    parameters = inspect.signature(GoalLoop.__init__).parameters
    for name in options:
        if name not in valid_options:
            valid_names = (*parameters, *valid_options)
            raise unexpected_keyword(name, valid_names, "GoalLoop")


def _refuse_invalid_goal(goal: object) -> None:
    if goal is None:
        raise ValueError("goal is required: a text, a callable, or a Goal")
    if isinstance(goal, str) and not goal.strip():
        raise ValueError("goal is empty: write what a good answer is")
    if not isinstance(goal, str | Goal) and not callable(goal):
        raise TypeError(
            "goal must be a text, a callable (response, agent), or a Goal, not "
            f"{goal!r:.60}"
        )


def _limits_of(goal: object, max_attempts: float, timeout: float) -> RunKeywords:
    """Return the limits of a run. Those of a Goal hold where the loop has none."""
    limits: RunKeywords = {}
    if max_attempts != inf:
        limits["max_iterations"] = ceil(max_attempts)
    if isinstance(goal, Goal):
        if timeout != inf:
            limits["timeout"] = timeout
        return limits
    limits.setdefault("max_iterations", inf)
    # Like Strands, the loop checks its time limit between attempts, so that no check
    # is cut.
    limits["timeout"] = inf
    return limits


def _template_of(
    goal: object, template: Callable[[str | None], Any] | None
) -> Callable[[str | None], Any] | None:
    """Return the template of retries; None is that of a Goal.

    Raise TypeError if it is no function.
    """
    if template is None:
        return None if isinstance(goal, Goal) else default_resume_prompt
    if not callable(template):
        raise TypeError(
            "resume_prompt_template must be a function of one argument, the feedback, "
            f"not {template!r:.60}"
        )
    return template


def _judge_of(judge: Any) -> tuple[Any, str | None]:
    """Return the model and the system prompt of a judge, which may be a model alone."""
    # Strands' own JudgeConfig has the same fields.
    model, prompt = judge, None
    if hasattr(judge, "system_prompt"):
        model, prompt = judge.model, judge.system_prompt
    # Raises UsageError for a value that is no judge.
    judge_of(Goal(objective="judge"), strands_judge(model))
    return model, None if prompt == JUDGE_SYSTEM_PROMPT else prompt


def _checks_of(validators: Checks) -> tuple[Any, ...]:
    checks: Any = validators
    if not isinstance(validators, list | tuple):
        checks = (validators,)
    return tuple(checks)


def _result_of(outcome: GoalOutcome, attempts: Sequence[Attempt]) -> GoalResult:
    listed = []
    for attempt in attempts:
        passed = bool(attempt.passed)
        listed.append(GoalAttempt(attempt.number, passed, attempt.feedback))
    # Strands calls the limit by another name.
    reason: Any = str(outcome.stop_reason).replace("max_iterations", "max_attempts")
    if outcome.verdict is None:
        # No round was checked, because the agent failed or was cancelled.
        verdict = GoalVerdict(
            score=0.0,
            complete=False,
            missing=outcome.message or reason,
            source="fallback",
        )
        outcome = outcome.model_copy(update={"verdict": verdict})
    return GoalResult(outcome.passed, reason, listed, outcome)
