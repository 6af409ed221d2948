"""Strands agents, with the names and parameters of Strands' own GoalLoop."""

from __future__ import annotations

import asyncio
import sys
import warnings
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, TypedDict, Unpack

from goalrunner import (
    JUDGE_SYSTEM_PROMPT,
    Goal,
    GoalAttempt,
    GoalOutcome,
    JudgeOutcome,
    build_judge_prompt,
)
from goalrunner.adapters.framework import framework_module
from goalrunner.adapters.strands_agent import (
    LIBRARY,
    StrandsConversation,
    reply_of,
    strands_judge,
    strands_model,
)
from goalrunner.app.library import goal_and_options, prepare_conversation
from goalrunner.app.run_options import (
    Checks,
    CriticChoice,
    RunKeywords,
    RunOptions,
    split_checks,
)
from goalrunner.app.session import HostedRun
from goalrunner.core.agent_ports import Approver
from goalrunner.core.chat_trail import trail_of
from goalrunner.core.errors import AgentError
from goalrunner.core.events import Event
from goalrunner.core.labels import Label
from goalrunner.core.messages import text_of
from goalrunner.engine.reported_chat import ReportedChat
from goalrunner.llm.outside import goal_error_of

try:
    from strands.plugins import Plugin
    from strands.vended_plugins.goal import ValidationOutcome, Validator
except ImportError:
    # Without Strands, the module can be imported; GoalLoop names the extra.
    Plugin, ValidationOutcome, Validator = object, None, None

__all__ = [
    "JUDGE_SYSTEM_PROMPT",
    "GoalAttempt",
    "GoalLoop",
    "GoalResult",
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


@dataclass
class JudgeConfig:
    """The judge of a text goal."""

    model: Any = None
    """A Strands model, an LLM or a model's name; None is the agent's `aux_model`."""
    system_prompt: str | None = None


class LoopKeywords(TypedDict, total=False):
    """Keywords of `run_goal` that are not among the parameters of Strands' GoalLoop."""

    workspace: Path | str | None
    home: Path | str | None
    records: str
    critic: CriticChoice
    tokens: float | None
    cost_usd: float | None
    on_event: Callable[[Event], None] | None
    on_text: Callable[[str], None] | None
    approver: Approver | None


@dataclass
class GoalResult:
    """The result of a run; `outcome` is the complete one."""

    passed: bool
    stop_reason: str
    """ "satisfied", "max_attempts", "timeout", or another stop reason of an outcome."""
    attempts: list[GoalAttempt] = field(default_factory=list)
    outcome: GoalOutcome | None = field(default=None, repr=False)


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
        """Create the plugin. `options` are further keywords of `run_goal`."""
        framework_module("strands.plugins", "strands")
        if not isinstance(goal, str | Goal) and not callable(goal):
            raise TypeError(
                "goal must be a text, a callable (response, agent), or a Goal"
            )
        # Written like this, NaN is refused too.
        if not max_attempts >= 1:
            raise ValueError(f"max_attempts must be at least 1, not {max_attempts}")
        if not timeout > 0:
            raise ValueError(f"timeout must be positive, not {timeout}")
        if max_attempts == inf and timeout == inf and not isinstance(goal, Goal):
            warnings.warn(
                f"{name} has no max_attempts and no timeout: only success ends it",
                stacklevel=2,
            )
        self._name = name
        self.goal = goal
        # Strands' own JudgeConfig has the same fields.
        is_config = isinstance(judge, JudgeConfig) or hasattr(judge, "system_prompt")
        self.judge = judge if is_config else JudgeConfig(judge)
        has_own_limits = isinstance(goal, Goal)
        self.limits: RunKeywords = {}
        if max_attempts != inf or not has_own_limits:
            self.limits["max_iterations"] = max_attempts
        if timeout != inf or not has_own_limits:
            self.limits["timeout"] = timeout
        self.preserve_context = preserve_context
        self.template = resume_prompt_template
        if self.template is None and not isinstance(goal, Goal):
            self.template = default_resume_prompt
        # Raises for an invalid check, before the agent is invoked.
        split_checks(validators)
        if isinstance(validators, list | tuple):
            self.checks = tuple(validators)
        else:
            self.checks = (validators,)
        self.options = options
        # A result lives as long as its agent.
        self._results: weakref.WeakKeyDictionary[Any, GoalResult] = (
            weakref.WeakKeyDictionary()
        )
        super().__init__()

    @property
    def name(self) -> str:
        """The name of the plugin."""
        return self._name

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
        _AgentLoop(self, agent, self._results)


class _AgentLoop:
    """The hooks of one agent with a GoalLoop."""

    def __init__(
        self,
        loop: GoalLoop,
        agent: Any,
        results: weakref.WeakKeyDictionary[Any, GoalResult],
    ) -> None:
        self._loop = loop
        self._agent = agent
        self._results = results
        self._conversation = StrandsConversation(agent)
        # The run of the current invocation.
        self._host: HostedRun | None = None
        # The recording of the current turn.
        self._turn = ExitStack()
        # What a retry starts from, without `preserve_context`.
        self._snapshot: object = None
        # Whether the plugin itself has resumed the agent.
        self._resumed = False
        # The value of the template for the next turn; None: the prompt as text.
        self._input: Any = None
        self._chat = ReportedChat(self._conversation.name)
        hooks = framework_module("strands.hooks", "strands")
        agent.add_hook(self._before, hooks.BeforeInvocationEvent)
        agent.add_hook(self._after, hooks.AfterInvocationEvent)
        if not loop.preserve_context:
            agent.add_hook(self._before_model, hooks.BeforeModelCallEvent)

    async def _before(self, event: Any) -> None:
        """Begin a run, unless the plugin itself resumed the agent."""
        if self._resumed:
            self._resumed = False
            return
        self._results.pop(self._agent, None)
        prompt = ""
        for message in event.messages or ():
            if message["role"] == "user":
                prompt = text_of(message["content"])
        goal, options = self._resolved(prompt)
        # The plugin has warned already.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            prepared = prepare_conversation(goal, options, self._conversation)
        self._host = HostedRun(prepared)
        self._snapshot = None
        first = await self._host.next()
        if isinstance(first, str):
            self._chat.record_user_texts(
                trail_of(self._agent.messages).said, prepared.run.recorder
            )
            self._record(self._host)
        else:
            self._finish(first)
            # The run has ended before its first round.
            event.cancel = first.message

    def _record(self, host: HostedRun) -> None:
        self._turn.enter_context(
            self._conversation.recording(host.prepared.run.recorder, keeps_budget=False)
        )

    def _before_model(self, _: Any) -> None:
        """Take the snapshot for retries: the messages with the original input."""
        # Before the first call only: later ones have its answer in the chat.
        self._snapshot = self._snapshot or self._conversation.checkpoint()

    async def _after(self, event: Any) -> None:
        """Check the turn; resume the agent with the next prompt, or keep the result."""
        host = self._host
        if host is None:
            return
        self._turn.close()
        # The event has no field for the exception that ended the invocation.
        step = await self._checked(host, event.result, sys.exc_info()[1])
        if not isinstance(step, str):
            self._finish(step)
            return
        if self._snapshot is not None:
            self._conversation.restore(self._snapshot)
        self._record(host)
        # A later user message that is not this prompt is from a person.
        self._chat.note_prompts(step)
        event.resume = step if self._input is None else self._input
        self._input = None
        self._resumed = True

    async def _checked(
        self, host: HostedRun, result: Any, error: BaseException | None
    ) -> str | GoalOutcome:
        """Return the next prompt, or the outcome if the run has ended."""
        is_cancelled = isinstance(error, asyncio.CancelledError)
        if result is not None:
            is_cancelled = is_cancelled or result.stop_reason == "cancelled"
        if is_cancelled:
            return await host.cancel("the agent was cancelled")
        if result is None:
            cause = error or RuntimeError("the agent gave no result")
            return await host.next(goal_error_of(cause))
        try:
            return await host.next(reply_of(result))
        except AgentError as stopped:
            return await host.next(stopped)

    def _finish(self, outcome: GoalOutcome) -> None:
        self._host = None
        attempts = []
        for attempt in outcome.attempts:
            feedback = self._own_words(attempt.feedback)
            attempts.append(attempt.model_copy(update={"feedback": feedback}))
        # Strands calls the limit by another name.
        reason = str(outcome.stop_reason).replace("max_iterations", "max_attempts")
        self._results[self._agent] = GoalResult(
            outcome.passed, reason, attempts, outcome
        )

    def _own_words(self, feedback: str | None) -> str | None:
        """Return the feedback of a callable goal as the callable gave it."""
        goal = self._loop.goal
        if feedback is None or isinstance(goal, str | Goal) or self._loop.checks:
            return feedback
        # The runner puts the name of the validator before its feedback.
        words = feedback.removeprefix(f"validator {_name(goal)}")
        words = words.removeprefix(": ").strip()
        return None if words in ("", "not passed") else words

    def _resolved(self, prompt: str) -> tuple[Goal, RunOptions]:
        """Return the goal of an invocation, and the options of its run.

        `prompt` is the input of the invocation.
        """
        loop, goal = self._loop, self._loop.goal
        checks = tuple(map(self._as_validator, loop.checks))
        judge = strands_judge(loop.judge.model)
        if isinstance(goal, str):
            judge = judge or strands_model(self._agent.aux_model).separate("judge")
        elif not isinstance(goal, Goal):
            checks = (self._bound(goal), *checks)
        keywords: RunKeywords = {
            "validators": checks,
            "prompt": prompt,
            **loop.limits,
            **loop.options,
        }
        if loop.template is not None:
            keywords["resume_prompt"] = self._retry
        if not loop.preserve_context:
            keywords["preserve_context"] = False
        objective = goal if isinstance(goal, Goal) else self._goal(goal, checks)
        resolved, options = goal_and_options(
            objective, judge, keywords, self._conversation
        )
        # Callables run in this process, where the agent runs too.
        labels: tuple[str, ...] = ()
        if options.validators and resolved.deliverable == "response":
            labels = (Label.NOT_ISOLATED.value,)
        return resolved, replace(options, needs_round=True, labels=labels)

    def _goal(self, goal: str | Callable[..., Any], checks: tuple[Any, ...]) -> Goal:
        """Return a goal of a text or a callable as a Goal."""
        has_commands = bool(split_checks(checks)[0])
        in_workspace = has_commands or self._loop.options.get("workspace") is not None
        text = f"{_name(goal)}(response, agent) passes."
        config = {}
        if isinstance(goal, str):
            text = goal
            config = {"system_prompt": self._loop.judge.system_prompt}
        return Goal(
            objective=text,
            deliverable="workspace" if in_workspace else "response",
            # Equal feedback in every round is no reason to stop before max_attempts.
            stall_rounds=None,
            judge=config,
        )

    def _as_validator(self, check: Any) -> Any:
        """Return a check that is a function as a validator; any other one unchanged."""
        is_function = callable(check) and not hasattr(check, "validate")
        return self._bound(check) if is_function else check

    def _bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a callable as a validator.

        It gets the agent's last message and the agent itself.
        """

        def check(response: Any, _: object) -> Any:
            for message in reversed(self._agent.messages):
                if message["role"] == "assistant":
                    return function(message, self._agent)
            return function(response, self._agent)

        # The name of the validator in reports.
        check.__name__ = _name(function)
        return check

    def _retry(self, feedback: str | None) -> str:
        """Return the retry message as text.

        The agent is resumed with the value of the template, which may be blocks.
        """
        template = self._loop.template or default_resume_prompt
        self._input = template(self._own_words(feedback))
        return text_of(self._input)


def _name(function: object) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return name if name != "<lambda>" else "validator"
