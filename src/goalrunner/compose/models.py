"""The models that a goal names: the agent's and the judge's, never one instance. Owns how they are made and refused."""

from __future__ import annotations

from dataclasses import dataclass

from goalrunner.errors import UsageError
from goalrunner.llm import LLM, Tape
from goalrunner.model.goal import AGENT_MODEL, Goal


@dataclass(frozen=True)
class Models:
    """Two models with an account each; None where nobody is asked."""

    agent: LLM | None
    judge: LLM | None

    def names(self) -> dict[str, str]:
        """By account, for people and for the record."""
        pairs = {"agent": self.agent, "judge": self.judge}
        return {account: llm.model for account, llm in pairs.items() if llm is not None}

    def check(self) -> None:
        """See what can be seen without asking, so that no round is spent on a judge without a key. Raises GoalError."""
        for llm in (self.agent, self.judge):
            if llm is not None:
                llm.check()

    async def foresee(self) -> None:
        """The same for what only LiteLLM knows: an unknown provider, a missing key. Waits for its import. Raises GoalError."""
        for llm in (self.agent, self.judge):
            if llm is not None:
                await llm.foresee()


def model_names(goal: Goal) -> tuple[str, ...]:
    """The models that a goal's run asks, in LiteLLM's naming."""
    agent = "" if goal.agent.external else goal.agent.model
    judge = agent if goal.judge.model == AGENT_MODEL else goal.judge.model
    return tuple(name for name in (agent, judge) if name)


def goal_models(goal: Goal, tape: Tape | None = None) -> Models:
    """The models of a goal; an external agent brings its own. Raises GoalError where a recording or a named key is missing."""
    if goal.agent.external:
        return Models(agent=None, judge=judge_llm(goal, tape))
    agent = LLM(
        goal.agent.model,
        api_base=goal.agent.api_base,
        api_key_env=goal.agent.api_key_env,
        params=goal.agent.params,
        account="agent",
        tape=tape,
    )
    judge = goal.judge
    if judge.model == AGENT_MODEL and not (judge.api_base or judge.api_key_env or judge.params):
        return Models(agent=agent, judge=agent.separate("judge"))
    return Models(agent=agent, judge=judge_llm(goal, tape))


def judge_llm(goal: Goal, tape: Tape | None = None) -> LLM | None:
    """The judge's own model instance; None where the goal has no judge."""
    judge = goal.judge
    if not judge.model:
        return None
    same = judge.model == AGENT_MODEL
    if same and goal.agent.external:
        raise UsageError(
            f'judge "agent" is the agent\'s own model, and {goal.agent.use} lends nobody its own',
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


def refuse_unknown_prices(goal: Goal, models: Models) -> None:
    """A dollar budget can only be kept where every model has a price. Raises UsageError naming the one that has none."""
    if goal.budget.cost_usd is None:
        return
    for llm in (models.agent, models.judge):
        if llm is not None and not llm.has_price():
            raise UsageError(
                f"model {llm.model} has no known price, so a budget of ${goal.budget.cost_usd:g} cannot be kept",
                "limit tokens instead ([budget] tokens, --tokens), or use a model with a price",
            )
