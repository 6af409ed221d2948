"""The hooks that run a goal around each invocation of a Strands agent."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from goalrunner import Goal, GoalOutcome
from goalrunner.adapters.framework import framework_module
from goalrunner.adapters.message_formats import shown_content
from goalrunner.adapters.strands_agent import (
    StrandsConversation,
    reply_of,
    strands_judge,
    strands_model,
)
from goalrunner.app.library import goal_and_options, prepare_conversation
from goalrunner.app.run_options import RunKeywords, RunOptions, split_checks
from goalrunner.app.session import HostedRun
from goalrunner.core.errors import AgentError, GoalError
from goalrunner.core.labels import Label
from goalrunner.core.messages import text_of
from goalrunner.core.outcome import StopReason
from goalrunner.engine.reported_chat import ReportedChat
from goalrunner.judge.verdict_parser import failed_reply
from goalrunner.llm.outside import OutsideModel, goal_error_of
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


@dataclass(frozen=True)
class Attempt:
    """A turn of the agent that was checked."""

    number: int
    passed: bool
    feedback: str | None


Finished = Callable[[GoalOutcome, Sequence[Attempt]], None]
"""Called at the end of a run."""


class _TimeIsUpError(GoalError):
    """The time limit is over; it is checked between attempts."""

    stop_reason = StopReason.TIMEOUT.value


@dataclass
class _Watch:
    """The time of a run. Waiting for the answer to an interrupt does not count."""

    began: float = field(default_factory=time.monotonic)
    _stopped: float | None = None

    def stop(self) -> None:
        self._stopped = time.monotonic()

    def go_on(self) -> None:
        if self._stopped is not None:
            self.began += time.monotonic() - self._stopped
        self._stopped = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


class AgentLoop:
    """The hooks of one agent with a GoalLoop."""

    def __init__(
        self,
        settings: LoopSettings,
        agent: Any,
        begun: Callable[[], None],
        finished: Finished,
    ) -> None:
        """Add the hooks. `begun` is called at the start of each run."""
        self._settings = settings
        self._agent = agent
        self._begun = begun
        self._finished = finished
        self._conversation = StrandsConversation(agent)
        # The run of the current invocation.
        self._host: HostedRun | None = None
        # Whether that run waits for the answer to an interrupt.
        self._waits = False
        self._watch = _Watch()
        self._attempts: list[Attempt] = []
        # The feedback of a callable goal in its own words, for the current attempt.
        self._feedback: str | None = None
        # An error of the program that its call of the agent raises.
        self._escaped: BaseException | None = None
        # The recording of the current turn.
        self._turn = ExitStack()
        # What a retry starts from, without `preserve_context`.
        self._snapshot: object = None
        # The state of the invocation that the plugin itself has resumed.
        self._resumed: object = None
        # The value of the template for the next turn; None: the prompt as text.
        self._input: Any = None
        self._chat = ReportedChat(self._conversation.name)
        hooks = framework_module("strands.hooks", "strands")
        agent.add_hook(self._before, hooks.BeforeInvocationEvent)
        agent.add_hook(self._after, hooks.AfterInvocationEvent)
        if not settings.preserve_context:
            agent.add_hook(self._before_model, hooks.BeforeModelCallEvent)

    async def _before(self, event: Any) -> None:
        """Begin a run, unless the invocation goes on with one."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None and resumed is event.invocation_state:
            return
        # Agent.structured_output has no turn that could be checked.
        if event.messages is None:
            return
        if self._host is not None and self._waits:
            # The invocation brings the answer to the interrupt of this turn.
            self._waits = False
            self._watch.go_on()
            self._record(self._host)
            return
        if self._host is not None:
            # Another hook raised an error before the agent began.
            self._finish(await self._cancelled(self._host, "the agent did not begin"))
        await self._begin(event)

    async def _begin(self, event: Any) -> None:
        self._begun()
        self._attempts, self._snapshot = [], None
        goal, options = self._resolved(self._prompt_of(event.messages))
        # The plugin has warned already.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            prepared = prepare_conversation(goal, options, self._conversation)
        self._host = HostedRun(prepared)
        first = await self._host.next()
        if isinstance(first, str):
            # What was said and shown before this invocation is evidence as well.
            await self._chat.record(self._agent.messages, prepared.run.recorder)
            self._record(self._host)
            self._watch = _Watch()
        else:
            self._finish(first)
            # The run has ended before its first round.
            event.cancel = first.message

    def _prompt_of(self, messages: Sequence[Any]) -> str:
        """Return the input of an invocation as text; empty if there is none.

        Without input, the agent answers the last message of its chat.
        """
        for message in reversed([*self._agent.messages, *messages]):
            shown = shown_content(message["content"])
            if message["role"] == "user" and shown:
                return shown
        return ""

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
        # Without a recording, this is the end of something else than a turn.
        if host is None or self._waits:
            return
        self._turn.close()
        result = event.result
        if result is not None and result.stop_reason == "interrupt":
            # The turn goes on when the program answers.
            self._waits = True
            self._watch.stop()
            return
        # The event has no field for the exception that ended the invocation.
        try:
            step = await self._next_step(host, result, sys.exc_info()[1])
        except BaseException:
            # The invocation was cancelled during a check; the run has ended.
            self._finish(host.prepared.run.outcome())
            raise
        if isinstance(step, GoalOutcome):
            self._finish(step)
            self._raise_escaped()
            return
        if self._snapshot is not None:
            self._conversation.restore(self._snapshot)
        self._record(host)
        # A later user message that is not this prompt is from a person.
        self._chat.note_prompts(step)
        event.resume = step if self._input is None else self._input
        self._input = None
        self._resumed = event.invocation_state

    async def _next_step(
        self, host: HostedRun, result: Any, error: BaseException | None
    ) -> str | GoalOutcome:
        """Check the turn, and end the run if a function of the program raised."""
        try:
            step = await self._checked(host, result, error)
        except GoalError:
            if self._escaped is None:
                raise
            # The template of the retry raised it; the run has ended.
            step = host.prepared.run.outcome()
        self._note_attempts(host)
        if self._escaped is not None and isinstance(step, str):
            name = type(self._escaped).__name__
            return await self._cancelled(host, f"a validator raised {name}")
        return step

    async def _cancelled(self, host: HostedRun, reason: str) -> GoalOutcome:
        step = await host.cancel(reason)
        assert isinstance(step, GoalOutcome), "a cancelled run has ended"
        return step

    def _raise_escaped(self) -> None:
        error, self._escaped = self._escaped, None
        if error is not None:
            raise error

    async def _checked(
        self, host: HostedRun, result: Any, error: BaseException | None
    ) -> str | GoalOutcome:
        """Return the next prompt, or the outcome if the run has ended."""
        is_cancelled = isinstance(error, asyncio.CancelledError | GeneratorExit)
        if result is not None:
            is_cancelled = is_cancelled or result.stop_reason == "cancelled"
        if is_cancelled:
            return await self._cancelled(host, "the agent was cancelled")
        if result is None:
            cause = error or RuntimeError("the agent gave no result")
            return await host.next(goal_error_of(cause))
        timeout = self._settings.timeout
        if self._watch.seconds >= timeout:
            message = f"the time limit of {timeout:g} s was reached"
            return await host.next(_TimeIsUpError(message))
        self._feedback = None
        try:
            return await host.next(reply_of(result))
        except AgentError as stopped:
            return await host.next(stopped)

    def _note_attempts(self, host: HostedRun) -> None:
        """Keep the attempts that the last check has decided."""
        for attempt in host.prepared.run.state.attempts:
            if self._attempts and attempt.attempt <= self._attempts[-1].number:
                continue
            feedback = self._feedback if self._decides_alone else attempt.feedback
            self._attempts.append(Attempt(attempt.attempt, attempt.passed, feedback))

    def _finish(self, outcome: GoalOutcome) -> None:
        self._host = None
        self._finished(outcome, self._attempts)

    @property
    def _decides_alone(self) -> bool:
        """Whether a callable goal is the only check."""
        settings = self._settings
        return callable(settings.goal) and not settings.checks

    def _resolved(self, prompt: str) -> tuple[Goal, RunOptions]:
        """Return the goal of an invocation, and the options of its run.

        `prompt` is the input of the invocation.
        """
        settings, goal = self._settings, self._settings.goal
        checks = tuple(map(self._as_validator, settings.checks))
        judge = strands_judge(settings.judge)
        if isinstance(goal, str):
            judge = judge or strands_model(self._agent.aux_model).separate("judge")
            if isinstance(judge, OutsideModel):
                judge = judge.answering_errors(_failed_verdict)
        elif not isinstance(goal, Goal):
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
                self._escaped = error
                answer = {"passed": False}
            self._feedback = answer.get("feedback")
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
        if self._decides_alone:
            feedback = self._feedback.strip() if self._feedback else None
        try:
            self._input = template(feedback)
        except BaseException as error:
            self._escaped = error
            raise
        return text_of(self._input)


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


def _failed_verdict(error: Exception) -> str:
    """Return the answer in place of a judge that could not be asked."""
    _warn("the judge", error)
    return failed_reply(f"{FAILED}{error}")


def _warn(who: str, error: Exception) -> None:
    """Log an error that is a failed attempt; the traceback only at DEBUG."""
    traceback = error if _log.isEnabledFor(logging.DEBUG) else None
    _log.warning("%s raised an error: %s", who, error, exc_info=traceback)


def _name(function: object) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return name if name != "<lambda>" else "validator"
