"""The models of a goal: those of the agent and of the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from goalrunner.core.errors import GoalError, UsageError
from goalrunner.core.goal import AGENT_MODEL, Goal
from goalrunner.llm import LLM, Tape


@dataclass(frozen=True)
class Models:
    """The models of agent and judge, with an account each; None if there is no such model."""

    agent: LLM | None
    judge: LLM | None

    @property
    def all(self) -> tuple[LLM, ...]:
        """Those that there are."""
        return tuple(llm for llm in (self.agent, self.judge) if llm is not None)


async def foresee(llms: Iterable[LLM]) -> tuple[str, ...]:
    """Look up providers, keys and models, and return warnings. Wait for LiteLLM's import. Raise GoalError."""
    found = await asyncio.gather(*(llm.foresee() for llm in llms), return_exceptions=True)
    for item in found:
        if isinstance(item, BaseException):
            raise item
    return tuple(dict.fromkeys(item for item in found if isinstance(item, str) and item))


def model_names(goal: Goal) -> tuple[str, ...]:
    """Return the models that a run of the goal asks, in LiteLLM's naming."""
    agent = "" if goal.agent.external else goal.agent.model
    judge = agent if goal.judge.model == AGENT_MODEL else goal.judge.model
    return tuple(name for name in (agent, judge) if name)


def goal_models(goal: Goal, tape: Tape | None = None) -> Models:
    """Return the models of a goal; an external agent brings its own. Raise UsageError if a recording is missing."""
    try:
        if goal.agent.external:
            return Models(agent=None, judge=judge_llm(goal, tape))
        config, judge = goal.agent, goal.judge
        agent = LLM(
            config.model,
            api_base=config.api_base,
            api_key_env=config.api_key_env,
            params=config.params,
            account="agent",
            tape=tape,
        )
        if judge.model == AGENT_MODEL and not (judge.api_base or judge.api_key_env or judge.params):
            return Models(agent=agent, judge=agent.separate("judge"))
        return Models(agent=agent, judge=judge_llm(goal, tape))
    except GoalError as error:
        if type(error) is not GoalError:
            raise
        raise UsageError(error.message, error.hint) from error  # nothing has run: the recording is to be corrected


def judge_llm(goal: Goal, tape: Tape | None = None) -> LLM | None:
    """Return the judge's own model instance; None if the goal has no judge."""
    judge = goal.judge
    if not judge.model:
        return None
    same = judge.model == AGENT_MODEL
    if same and goal.agent.external:
        raise UsageError(
            f'judge "agent" is the agent\'s own model, and {goal.agent.use} does not share its model',
            'name a model for the judge: judge = "provider/model"',
        )
    return LLM(
        goal.agent.model if same else judge.model,
        api_base=judge.api_base or (goal.agent.api_base if same else None),
        api_key_env=judge.api_key_env or (goal.agent.api_key_env if same else None),
        params=judge.params,
        account="judge",
        tape=tape,
    )
