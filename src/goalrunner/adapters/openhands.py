"""Goals over OpenHands conversations, with the names of the SDK's own goal package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, Unpack

import goalrunner
from goalrunner import Goal, GoalVerdict, Usage
from goalrunner.adapters.library import Library
from goalrunner.adapters.openhands_agent import (
    OpenHandsConversation,
    chat_of,
    openhands_judge,
)
from goalrunner.adapters.openhands_steps import (
    GoalContinue,
    GoalDone,
    GoalOutcome,
    GoalStatus,
    GoalStatusName,
    GoalStep,
    GoalStopReason,
    openhands_outcome,
    openhands_step,
)
from goalrunner.adapters.openhands_workspace import (
    local_folder,
    with_remote_checks,
    workspace_of,
)
from goalrunner.app.library import interrupting
from goalrunner.app.previous_run import Reference
from goalrunner.app.run_options import RunKeywords
from goalrunner.core.errors import ModelError, UsageError
from goalrunner.core.labels import Label

__all__ = [
    "GoalContinue",
    "GoalController",
    "GoalDone",
    "GoalOutcome",
    "GoalStatus",
    "GoalStatusName",
    "GoalStep",
    "GoalStopReason",
    "GoalVerdict",
    "OpenHandsConversation",
    "ajudge_goal",
    "aresume",
    "arun_goal",
    "judge_goal",
    "resume",
    "run_goal",
]

_T = TypeVar("_T")
_MAX_ITERATIONS = 10
"""OpenHands' own limit of rounds."""
_FAILURES = (
    GoalStopReason.AGENT_FAILED,
    GoalStopReason.AUTHENTICATION,
    GoalStopReason.JUDGE_FAILED,
    GoalStopReason.MODEL_NOT_FOUND,
)
"""Ends of a run that an error of the SDK may have caused."""


def run_goal(
    conversation: Any,
    objective: str | Goal,
    judge_llm: Any = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Drive an OpenHands conversation until the objective is provably complete.

    `judge_llm` is an LLM of OpenHands, or a judge for `goalrunner.run_goal`, as are the
    keywords; without `max_iterations`, at most 10 rounds are checked. As in OpenHands'
    `run_goal`, an error of the conversation or of the LLM is raised as it is, after the
    end of the run was recorded; and the call blocks, also inside a running event loop.
    Raise ValueError for an empty objective and a `max_iterations` below 1.

    >>> outcome = run_goal(conversation, "make pytest pass", judge_llm)
    >>> outcome.status, outcome.verdict.score
    """
    outcome = _blocking(
        lambda: arun_goal(conversation, objective, judge_llm, **options)
    )
    interrupting(outcome)
    return outcome


async def arun_goal(
    conversation: Any,
    objective: str | Goal,
    judge_llm: Any = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Run `run_goal` in the running event loop.

    >>> from goalrunner.adapters.openhands import arun_goal
    >>> async def work(conversation, llm):
    ...     return await arun_goal(conversation, "Make the tests pass.", llm)
    """
    _refuse_invalid(objective, options)
    errors: list[Exception] = []
    library = _library(errors)
    driven = library.wrapped(conversation)
    driven.errors = errors
    goal = _goal(objective, options)
    if not driven.sees_files:
        workspace = workspace_of(conversation)
        goal, options = with_remote_checks(goal, options, workspace)
    outcome = await library.arun_goal(conversation, goal, judge_llm, **options)
    return _raising(outcome, errors)


def resume(
    run: Reference,
    conversation: Any,
    judge_llm: Any = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Continue a run of `run_goal`.

    The conversation is the same one, or a new one, which gets the run's chat. The
    keywords are those of `goalrunner.resume`. Raise as `run_goal` does.

    >>> from goalrunner.adapters.openhands import resume
    >>> resume("k3f9", conversation, llm, max_iterations=20)  # doctest: +SKIP
    """
    outcome = _blocking(lambda: aresume(run, conversation, judge_llm, **options))
    interrupting(outcome)
    return outcome


async def aresume(
    run: Reference,
    conversation: Any,
    judge_llm: Any = None,
    **options: Unpack[RunKeywords],
) -> GoalOutcome:
    """Run `resume` in the running event loop.

    >>> from goalrunner.adapters.openhands import aresume
    >>> async def go_on(conversation, llm):
    ...     return await aresume("k3f9", conversation, llm, max_iterations=20)
    """
    errors: list[Exception] = []
    library = _library(errors)
    driven = library.wrapped(conversation)
    driven.errors = errors
    if not driven.sees_files:
        options = with_remote_checks("", options, workspace_of(conversation))[1]
    outcome = await library.aresume(run, conversation, judge_llm, **options)
    return _raising(outcome, errors)


def _library(errors: list[Exception]) -> Library:
    """Return the functions of the library, whose judges add what they raise."""

    def judge(choice: Any) -> Any:
        return openhands_judge(choice, errors)

    return Library(OpenHandsConversation, judge, max_iterations=_MAX_ITERATIONS)


def _raising(outcome: goalrunner.GoalOutcome, errors: list[Exception]) -> GoalOutcome:
    """Return the outcome. Raise the error of the SDK that ended the run."""
    if errors and outcome.stop_reason in _FAILURES:
        error = errors[-1]
        error.add_note(f"goal show {outcome.run_id} shows the run that it ended")
        raise error
    return openhands_outcome(outcome)


def _blocking(start: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end, also inside a running event loop, which waits."""
    is_in_loop = False
    with suppress(RuntimeError):
        is_in_loop = asyncio.get_running_loop() is not None
    if not is_in_loop:
        return asyncio.run(start())
    runner = _ThreadRunner(start)
    # One thread: it needs an event loop of its own.
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(runner.run)
        try:
            return work.result()
        except KeyboardInterrupt:
            runner.cancel()
            raise


class _ThreadRunner(Generic[_T]):
    """Runs a coroutine in an event loop of the thread that calls `run`."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, _T]]) -> None:
        self._start = start
        self._task: asyncio.Task[Any] | None = None

    def run(self) -> _T:
        """Return the result of the coroutine, or raise its error."""
        return asyncio.run(self._main())

    async def _main(self) -> _T:
        self._task = asyncio.current_task()
        return await self._start()

    def cancel(self) -> None:
        """Cancel the coroutine, from another thread."""
        if self._task is None:
            return
        # It may have ended, and then its loop is closed.
        with suppress(RuntimeError):
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)


def judge_goal(
    judge_llm: Any, objective: str | Goal, events: Iterable[Any]
) -> GoalVerdict:
    """Ask a judge once whether the events of a conversation prove the objective.

    An error of an LLM of OpenHands is raised as it is.

    >>> judge_goal(judge_llm, "make pytest pass", conversation.state.events).complete
    """
    return _blocking(lambda: ajudge_goal(judge_llm, objective, events))


async def ajudge_goal(
    judge_llm: Any, objective: str | Goal, events: Iterable[Any]
) -> GoalVerdict:
    """Run `judge_goal` in the running event loop.

    >>> from goalrunner.adapters.openhands import ajudge_goal
    >>> async def judged(llm, objective, events):
    ...     return (await ajudge_goal(llm, objective, events)).complete
    """
    errors: list[Exception] = []
    judge = openhands_judge(judge_llm, errors)
    try:
        return await goalrunner.ajudge_goal(judge, objective, chat_of(events))
    except ModelError:
        if not errors:
            raise
    raise errors[-1]


def _refuse_invalid(objective: str | Goal, options: Mapping[str, Any]) -> None:
    """Raise ValueError for arguments that OpenHands refuses with it."""
    if isinstance(objective, str) and not objective.strip():
        raise ValueError("Goal objective must not be empty.")
    limit = options.get("max_iterations")
    if isinstance(limit, int | float) and limit < 1:
        raise ValueError(f"max_iterations must be >= 1, not {limit}.")


def _goal(objective: str | Goal, options: Mapping[str, Any]) -> str | Goal:
    """Return a goal of OpenHands, which goes on until the limit of rounds.

    A Goal of the caller, and one without such a limit, may end as stalled.
    """
    limit = options.get("max_iterations", _MAX_ITERATIONS)
    if isinstance(objective, str) and limit is not None and limit < inf:
        return Goal(objective=objective, stall_rounds=None)
    return objective


class GoalController(goalrunner.GoalController):
    """The loop for programs that run the conversation themselves.

    It takes OpenHands events. `conversation` is the one that the program runs: its
    workspace is watched. Without it, and without `workspace`, no file is watched; the
    order of the agent's calls then decides which of its results are outdated.

    `start()` returns the first user message, again if it is
    called again; `on_run_finished(conversation.state.events)` returns a step. Both
    block, also inside a running event loop; there, await `astart()` and
    `aon_run_finished(events)`. Raise ValueError for an empty objective and a
    `max_iterations` below 1. If the judge raises an error, `on_run_finished` raises it,
    and asks the judge again when it is called again.

    >>> controller = GoalController("make pytest pass", judge_llm)
    >>> conversation.send_message(controller.start())
    """

    judge_llm: Any = None
    _first = ""  # the first message, once the run has started
    _failed = False  # whether an error of the judge ended the run

    def __init__(
        self,
        objective: str | Goal,
        judge_llm: Any = None,
        *,
        conversation: Any = None,
        **options: Unpack[RunKeywords],
    ) -> None:
        _refuse_invalid(objective, options)
        goal = _goal(objective, options)
        folder: Path | None = None
        if conversation is not None:
            workspace = workspace_of(conversation)
            folder = local_folder(workspace)
            if folder is None:
                goal, options = with_remote_checks(goal, options, workspace)
            elif "workspace" not in options:
                options = {**options, "workspace": folder}
        self._errors: list[Exception] = []
        self.judge_llm = judge_llm
        adapted = _library(self._errors).adapted(options)
        judge = openhands_judge(judge_llm, self._errors)
        super().__init__(goal, judge, **adapted)
        is_known = bool(options.get("workspace") or self._goal.workspace.path)
        self._watch(known=is_known and (conversation is None or folder is not None))

    @classmethod
    def resume(
        cls,
        run: Reference,
        judge_llm: Any = None,
        *,
        conversation: Any = None,
        **options: Unpack[RunKeywords],
    ) -> Self:
        """Return a controller that continues a run.

        It works as `goalrunner.GoalController.resume` does. A run in a workspace on
        another machine needs its `conversation` again for its validators.
        """
        workspace = None if conversation is None else workspace_of(conversation)
        if workspace is not None and local_folder(workspace) is None:
            options = with_remote_checks("", options, workspace)[1]
        errors: list[Exception] = []
        adapted = _library(errors).adapted_judge(options)
        self = super().resume(run, openhands_judge(judge_llm, errors), **adapted)
        self.judge_llm, self._errors = judge_llm, errors
        assert self._earlier is not None, "it was loaded"
        self._watch(known=Label.NO_SNAPSHOTS not in self._earlier.loaded.state.labels)
        return self

    def _watch(self, *, known: bool) -> None:
        """Watch the folder of the goal, or no file if that of the agent is not known.

        Raise UsageError for commands, which need a folder.
        """
        self._agent.sees_files = known
        if self._goal.validators and not known:
            raise UsageError(
                "the folder in which the validators run is not known",
                "pass conversation=..., or workspace=...",
            )

    @property
    def iteration(self) -> int:
        """How many rounds were checked; an audit that failed does not count."""
        return super().iteration - self._failed

    def start(self) -> str:
        """Run `astart`, also inside a running event loop."""
        return _blocking(self.astart)

    async def astart(self) -> str:
        """Return the first user message, which begins with the objective."""
        if not self._first:
            self._first = await super().astart()
        return self._first

    def on_run_finished(
        self, events: Sequence[Any], *, usage: Usage | None = None
    ) -> GoalContinue | GoalDone:
        """Run `aon_run_finished`, also inside a running event loop."""
        step = _blocking(lambda: self.aon_run_finished(events, usage=usage))
        if isinstance(step, GoalDone):
            interrupting(step.outcome)
        return step

    async def aon_run_finished(
        self, events: Sequence[Any], *, usage: Usage | None = None
    ) -> GoalContinue | GoalDone:
        """Check the last run of the conversation, whose events these are.

        Raise the error of an LLM of OpenHands that judges.
        """
        # OpenHands' controller need not be started.
        await self.astart()
        chat = chat_of(events)
        if self._failed:
            self._failed = False
            step = await self._acheck_again(chat)
        else:
            step = await super().aon_run_finished(chat, usage=usage)
        if isinstance(step, goalrunner.GoalDone):
            self._raise_failure(step.outcome)
        return openhands_step(step)

    def _raise_failure(self, outcome: goalrunner.GoalOutcome) -> None:
        self._failed = bool(self._errors) and outcome.stop_reason in _FAILURES
        if self._failed:
            raise self._errors[-1]
