"""Resolving a goal, options and environment into the configuration of a run, with its models."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.check_environment import Choice, choose_environment, needs_environment
from goalrunner.app.external_agent import ResolvedAgent, check_installed, refuse_unsupported, resolve_agent
from goalrunner.app.goal_secrets import goal_redactor, withheld
from goalrunner.app.location import CHECKOUTS, RunLocation, location_of, workspace_of
from goalrunner.app.preflight import refuse_hopeless_validators
from goalrunner.app.run_options import RunOptions
from goalrunner.app.sandbox import NONE, Sandbox, choose_sandbox
from goalrunner.core.errors import GoalError, UsageError
from goalrunner.core.goal import AGENT_MODEL, Goal
from goalrunner.judge import check_room
from goalrunner.llm import LLM, Tape
from goalrunner.records.redaction import Redactor
from goalrunner.snapshots.objects import store_name
from goalrunner.snapshots.repositories import refuse_claimed


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


@dataclass(frozen=True)
class RunConfig:
    """A goal, options and environment, resolved once; everything that makes a run receives it."""

    goal: Goal
    options: RunOptions
    location: RunLocation
    agent: ResolvedAgent | None
    """The external agent; None for the built-in one, and for a conversation that the calling program passed."""
    models: Models
    withheld: tuple[str, ...]
    """Environment variables that no child process gets."""
    redactor: Redactor
    sandbox: Sandbox
    check: Choice | None
    """The check environment; None if the goal needs none."""

    @property
    def home(self) -> Path:
        """GOAL_HOME."""
        return self.options.home

    @property
    def workspace(self) -> Path:
        """The workspace, absolute and without links."""
        return self.location.workspace

    @property
    def sandbox_name(self) -> str:
        """The sandbox of the agent; "none" if the calling program made the agent, whose commands are in no sandbox."""
        return NONE if self.options.conversation is not None else self.sandbox.name

    def preflight(self) -> None:
        """Check agent, models and validators before anything is spent. Raise GoalError."""
        if self.agent is not None:
            policy = self.sandbox.agent_policy(self.location.home, self.agent.preset.home)
            check_installed(self.agent, self.workspace, self.options.environ, policy)
        for llm in self.models.all:
            llm.check()
        refuse_hopeless_validators(self.goal, self.options.environ)

    async def foresee(self) -> tuple[str, ...]:
        """Look up the models, that of a passed conversation as well, and return warnings. Raise GoalError."""
        own = getattr(self.options.conversation, "llm", None)
        return await foresee((*self.models.all, *([own] if isinstance(own, LLM) else [])))

    def refuse_shared_workspace(self) -> None:
        """Raise WorkspaceError if another run is active in the workspace."""
        if self.goal.deliverable == "workspace":
            refuse_claimed(self.workspace, self.home / "stores" / store_name(self.workspace) / "lock")


def resolve(goal: Goal, options: RunOptions) -> RunConfig:
    """Resolve everything that a run of the goal depends on; write nothing. Raise GoalError for what cannot work."""
    environ, own = options.environ, options.conversation
    agent = resolve_agent(goal, environ) if own is None else None
    names = withheld(goal, agent, (getattr(own, "llm", None), options.judge_llm))
    redactor = goal_redactor(goal, environ, names)
    tape = Tape(options.record, redact=redactor.text) if options.record else None
    models = _models(goal, options, tape)
    _refuse_unfit(goal, options.home, models, agent)
    check = choose_environment(goal, workspace_of(goal), options.home) if needs_environment(goal) else None
    location = location_of(goal, options.home, environ, options.goal_file)
    sandbox = choose_sandbox(goal, location)
    return RunConfig(goal, options, location, agent, models, names, redactor, sandbox, check)


def _models(goal: Goal, options: RunOptions, tape: Tape | None) -> Models:
    """Return the goal's models, or those that the calling program passed."""
    if options.conversation is None:
        models = goal_models(goal, tape)
        models = Models(agent=models.agent, judge=options.judge_llm or models.judge)
    else:
        models = Models(agent=None, judge=options.judge_llm)
    if models.judge is None and not options.validators and all(spec.hidden for spec in goal.validators):
        raise UsageError(
            "the goal has neither a validator nor a judge",
            'add validators (validator = "pytest -q") or a judge (judge = "agent")',
        )
    return models


def _refuse_unfit(goal: Goal, home: Path, models: Models, agent: ResolvedAgent | None) -> None:
    """Raise UsageError for settings that are each correct and cannot be combined."""
    _refuse_nested_home(goal, home)
    hidden = [spec.name or spec.run or spec.python or "" for spec in goal.validators if spec.hidden]
    if hidden and goal.deliverable != "workspace":
        raise UsageError(
            f'the hidden validator {hidden[0]} would never run: hidden ones need deliverable = "workspace"',
            "remove hidden = true",
        )
    refuse_unseen_work(goal, goal.agent.use, unseen=goal.agent.external and not goal.validators)
    for llm in models.all if goal.budget.cost_usd is not None else ():
        if not llm.has_price():
            raise UsageError(
                f"model {llm.model} has no known price, so a budget of ${goal.budget.cost_usd:g} cannot be kept",
                "limit tokens instead ([budget] tokens, --tokens), or use a model with a price",
            )
    if agent is not None:
        refuse_unsupported(agent)
    if models.judge is not None:
        check_room(goal)


def refuse_unseen_work(goal: Goal, agent: str, *, unseen: bool) -> None:
    """Raise UsageError if only what the runner saw counts, and it sees nothing of the agent's work."""
    if unseen and goal.judge.require == "runner" and goal.deliverable == "workspace":
        raise UsageError(
            f'[judge] require = "runner" and no validator: of what {agent} does the runner sees nothing itself',
            'add a validator whose output shows it, or set [judge] require = "any"',
        )


def _refuse_nested_home(goal: Goal, home: Path) -> None:
    """Refuse a GOAL_HOME in the workspace: what is recorded about the checks lies outside of it."""
    if not needs_environment(goal):
        return
    workspace, checkouts = workspace_of(goal), Path(os.path.realpath(home / CHECKOUTS))
    if checkouts.is_relative_to(workspace):
        what = f"{home}, where goal keeps its runs, lies in the workspace {workspace}"
    elif workspace.is_relative_to(checkouts):
        what = f"the workspace {workspace} lies in {checkouts}, where goal keeps temporary files"
    else:
        return
    raise UsageError(
        what, "export GOAL_HOME=... with a folder outside of it, or name another workspace: --workspace DIR"
    )
