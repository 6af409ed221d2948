"""`run_goal` and `resume` over the agents of a framework."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Unpack

import goalrunner
from goalrunner import Goal
from goalrunner.app.previous_run import Reference
from goalrunner.app.run_options import JudgeChoice, RunKeywords
from goalrunner.core.outcome import GoalOutcome

# Conversations by the id of the framework's object. Two runs over one object use the
# same conversation: its hooks are added once.
_wrappers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class Library:
    """`run_goal` and `resume` over agents of a framework.

    `judge_llm` is a model of the framework, or a judge for `goalrunner`.
    """

    def __init__(
        self,
        conversation: Callable[[Any], Any],
        judge: Callable[[Any], JudgeChoice],
        max_iterations: int | None = None,
    ) -> None:
        """`conversation` and `judge` convert an agent and a model of the framework.

        `max_iterations` is the framework's own default limit, if it has one.
        """
        self._conversation = conversation
        self._judge = judge
        self._defaults: RunKeywords = {}
        if max_iterations is not None:
            self._defaults["max_iterations"] = max_iterations

    def adapted(self, options: RunKeywords) -> RunKeywords:
        """Return the keywords of a new run, with a converted `judge`."""
        return {**self._defaults, **self.adapted_judge(options)}

    def adapted_judge(self, options: RunKeywords) -> RunKeywords:
        """Return the keywords of a run that is resumed, with a converted `judge`."""
        if "judge" not in options:
            return options
        # It may be a model of the framework.
        return {**options, "judge": self._judge(options["judge"])}

    def run_goal(
        self,
        agent: Any,
        objective: str | Goal,
        judge_llm: Any = None,
        **options: Unpack[RunKeywords],
    ) -> GoalOutcome:
        """Run `goalrunner.run_goal` over an agent.

        >>> from goalrunner.adapters.strands import run_goal
        >>> run_goal(agent, "Explain rainbows.", validators=short)  # doctest: +SKIP
        """
        judge = self._judge(judge_llm)
        return goalrunner.run_goal(
            self.wrapped(agent), objective, judge, **self.adapted(options)
        )

    async def arun_goal(
        self,
        agent: Any,
        objective: str | Goal,
        judge_llm: Any = None,
        **options: Unpack[RunKeywords],
    ) -> GoalOutcome:
        """Run `run_goal` in the running event loop.

        >>> from goalrunner.adapters.strands import arun_goal
        >>> async def explained(agent, topic):
        ...     return await arun_goal(agent, f"Explain {topic}.", max_iterations=3)
        """
        judge = self._judge(judge_llm)
        return await goalrunner.arun_goal(
            self.wrapped(agent), objective, judge, **self.adapted(options)
        )

    def resume(
        self,
        run: Reference,
        agent: Any,
        judge_llm: Any = None,
        **options: Unpack[RunKeywords],
    ) -> GoalOutcome:
        """Run `goalrunner.resume` over an agent.

        It is the same agent or a new one, which gets the run's chat.

        >>> from goalrunner.adapters.strands import resume
        >>> resume("k3f9", agent, max_iterations=20)  # doctest: +SKIP
        """
        judge = self._judge(judge_llm)
        return goalrunner.resume(
            run, self.wrapped(agent), judge, **self.adapted_judge(options)
        )

    async def aresume(
        self,
        run: Reference,
        agent: Any,
        judge_llm: Any = None,
        **options: Unpack[RunKeywords],
    ) -> GoalOutcome:
        """Run `resume` in the running event loop.

        >>> from goalrunner.adapters.strands import aresume
        >>> async def go_on(agent):
        ...     return await aresume("k3f9", agent, max_iterations=20)
        """
        judge = self._judge(judge_llm)
        return await goalrunner.aresume(
            run, self.wrapped(agent), judge, **self.adapted_judge(options)
        )

    def wrapped(self, agent: object) -> Any:
        """Return the conversation over an agent: the existing one, or a new one."""
        conversation = _wrappers.get(id(agent))
        if conversation is None:
            conversation = self._conversation(agent)
            _wrappers[id(agent)] = conversation
        return conversation
