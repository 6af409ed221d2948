"""Resolving a goal, options and environment into the configuration of a run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from goalrunner.app.external_agent import ResolvedAgent, in_turn, resolve_agents
from goalrunner.app.goal_models import goal_models, goal_redactor, programs_in, withheld
from goalrunner.app.preflight import (
    EnvironmentChoice,
    choose_environment,
    needs_environment,
)
from goalrunner.app.previous_run import load_state
from goalrunner.app.run_options import RunOptions
from goalrunner.app.sandbox import (
    NONE,
    TEMPORARY,
    Sandbox,
    choose_sandbox,
    no_sandbox,
    workspace_of,
)
from goalrunner.core.errors import GoalError, RunNotFound, UsageError
from goalrunner.core.events import Account
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import CheckPolicy
from goalrunner.core.labels import Label
from goalrunner.core.run_state import RunState
from goalrunner.llm import LLM, new_tape
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_search import find_run
from goalrunner.snapshots.store_folder import refuse_claimed, store_name
from goalrunner.system.child_environment import child_environment
from goalrunner.validators.check_files import NAMED, check_files


@dataclass(frozen=True)
class RunConfig:
    """A goal, options and environment, resolved once; everything that makes a run
    receives it.
    """

    goal: Goal
    options: RunOptions
    # The external agents, unless the calling program passed a conversation.
    agents: tuple[ResolvedAgent, ...]
    models: dict[Account, LLM]
    withheld: tuple[str, ...]  # environment variables that no child process gets
    redactor: Redactor
    sandbox: Sandbox
    # The check environment; None if the goal needs none.
    check: EnvironmentChoice | None
    # By part: what keeps models, checks or sandbox from being made.
    problems: Mapping[str, GoalError]
    # The place of the agent at work among `agents`; those before it have given up.
    at_work: int = 0

    @property
    def agent(self) -> ResolvedAgent | None:
        """The external agent at work; None if the agent is built in or a conversation
        that was passed.
        """
        return self.agents[self.at_work] if self.agents else None

    @property
    def usable_agents(self) -> tuple[ResolvedAgent, ...]:
        """The external agent at work, and those that may take over from it."""
        return self.agents[self.at_work :]

    def finding_name(self, part: str, agent: ResolvedAgent) -> str:
        """Return the name of a finding about a part of an agent, with the name of the
        agent if there are several.
        """
        return f"{agent.name} {part}" if len(self.agents) > 1 else part

    @property
    def agent_command(self) -> str:
        """The external agent and its command, or the names of several, for people;
        empty if it is none.
        """
        if len(self.agents) > 1:
            return in_turn(agent.name for agent in self.agents)
        return self.agent.words if self.agent else ""

    @property
    def home(self) -> Path:
        return self.options.home

    @property
    def workspace(self) -> Path:
        """The workspace, absolute and without links."""
        return self.sandbox.workspace

    @property
    def sandbox_name(self) -> str:
        """The sandbox of the agent; "none" if the calling program made the agent, whose
        commands are in no sandbox.
        """
        return NONE if self.options.conversation is not None else self.sandbox.name

    @property
    def command_environ(self) -> dict[str, str]:
        """The environment of the commands that check the work."""
        return child_environment(self.sandbox.environ, withhold=self.withheld)

    @property
    def model_names(self) -> dict[str, str]:
        """The names of the models by account; the agent's own name if its model is
        unknown.
        """
        own = self.options.conversation
        llm = getattr(own, "llm", None)
        name = (
            llm.model
            if isinstance(llm, LLM)
            else getattr(own, "name", None) or type(own).__name__
        )
        agent = in_turn(agent.name for agent in self.agents) or str(name)
        return {
            "agent": agent,
            **{account: model.model for account, model in self.models.items()},
        }

    @property
    def first_agent(self) -> str:
        """The name of the first external agent, else that of the agent's model."""
        return self.agents[0].name if self.agents else self.model_names["agent"]

    @property
    def self_judging(self) -> tuple[str, ...]:
        """The agents that are the judge as well: the same model, or one program with
        models not known to differ.
        """
        judge = programs_in(self.models).get("judge")
        if judge is None or not self.agents:
            return (
                (self.first_agent,)
                if self.first_agent == self.model_names.get("judge")
                else ()
            )
        same = [agent for agent in self.agents if agent.name == judge.choice.name]
        models = ("", judge.choice.model)
        return tuple(
            agent.name
            for agent in same
            if not judge.choice.model or agent.goal.agent.model in models
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of what makes this run's proof weaker than it could be."""
        goal, labels = self.goal, []
        if self.first_agent in self.self_judging:
            labels.append(Label.SELF_JUDGED.value)
        judge = programs_in(self.models).get("judge")
        if judge is not None and judge.preset.judge.tools:
            labels.append(Label.JUDGE_HAD_TOOLS.value)
        if (
            goal.agent.external
            and goal.deliverable == "workspace"
            and not goal.validators
        ):
            labels.append(Label.RESTS_ON_REPORTS.value)
        labels += self.options.labels
        if hidden_readable(
            goal,
            self.workspace,
            self.sandbox.secret,
            sandboxed=self.sandbox_name != NONE,
        ):
            labels.append(Label.HIDDEN_READABLE.value)
        return tuple(labels)

    @property
    def check_policy(self) -> CheckPolicy:
        """Who reviews changed checks, if the goal does not say it: an independent
        judge, unless the risk is high.
        """
        goal = self.goal
        is_independent = goal.has_judge and not self.self_judging
        is_risky = goal.risk_class in ("high", "critical")
        return goal.approvals.checks or (
            "judge" if is_independent and not is_risky else "person"
        )

    @property
    def callers_model(self) -> LLM | None:
        """The model of the calling program's conversation, if it is known."""
        llm = getattr(self.options.conversation, "llm", None)
        return llm if isinstance(llm, LLM) else None

    def refuse_shared_workspace(self) -> None:
        """Raise WorkspaceError if another run is active in the workspace."""
        if self.goal.deliverable == "workspace":
            store = self.home / "stores" / store_name(self.workspace)
            if self.options.copy is not None:
                store = self.options.copy.store
            refuse_claimed(self.workspace, store / "lock")


def hidden_readable(
    goal: Goal, workspace: Path, secret: Path | None, *, sandboxed: bool
) -> bool:
    """Return whether the agent can read the goal file, or a script that a hidden
    validator names.
    """
    hidden = [spec for spec in goal.validators if spec.hidden]
    roles = (role for spec in hidden for role in check_files(spec, workspace).values())
    unseen = (
        sandboxed and secret is not None and not any(role in NAMED for role in roles)
    )
    return bool(hidden) and not unseen


def resolve(goal: Goal, options: RunOptions) -> RunConfig:
    """Resolve everything that a run of the goal depends on; write nothing.

    What cannot work is in `problems`; `readiness` tells all of them. Raise UsageError
    for an unknown agent and an invalid [redact].
    """
    environ, own = options.environ, options.conversation
    problems: dict[str, GoalError] = {}
    agents = resolve_agents(goal, environ) if own is None else ()
    names = withheld(goal, agents, (goal.judge.instance, *options.own_models))
    redactor = goal_redactor(goal, environ, names)
    models: dict[Account, LLM] = {}
    try:
        tape = (
            new_tape(options.record, redact=redactor.text) if options.record else None
        )
        models = goal_models(goal, options, tape)
    except GoalError as error:
        problems["models"] = error
    check = None
    try:
        check = (
            choose_environment(goal, workspace_of(goal), options.home)
            if needs_environment(goal)
            else None
        )
    except GoalError as error:
        problems["checks"] = error
    try:
        sandbox = choose_sandbox(goal, options.home, environ, options.goal_file)
    except GoalError as error:
        problems["sandbox"] = error
        sandbox = no_sandbox(goal, options.home, environ)
    names = withheld(
        goal, agents, (goal.judge.instance, *options.own_models, *models.values())
    )
    return RunConfig(
        goal, options, agents, models, names, redactor, sandbox, check, problems
    )


def resolve_new(goal: Goal, options: RunOptions) -> RunConfig:
    """Resolve the goal of a new run, with what it takes over from its parent run; raise
    as `resolve` does.
    """
    try:
        return resolve(within_parent(goal, options.home), options)
    except UsageError as error:
        config = resolve(goal, options)
        return replace(config, problems={**config.problems, "parent": error})


def refuse_unseen_work(goal: Goal, agent: str, *, unseen: bool) -> None:
    """Raise UsageError if only observations of the runner count, and it cannot observe
    the agent's work.
    """
    if unseen and goal.judge.require == "runner" and goal.deliverable == "workspace":
        raise UsageError(
            '[judge] require = "runner" needs a validator: the runner cannot observe '
            f"what {agent} does",
            'add a validator whose output shows it, or set [judge] require = "any"',
        )


def refuse_nested_home(workspace: Path, home: Path) -> None:
    """Raise UsageError if GOAL_HOME is in the workspace, or the workspace is in its
    folder of temporary files.
    """
    temporary = Path(os.path.realpath(home / TEMPORARY))
    if temporary.is_relative_to(workspace):
        what = f"{home}, where goal keeps its runs, lies in the workspace {workspace}"
    elif workspace.is_relative_to(temporary):
        what = (
            f"the workspace {workspace} lies in {temporary}, where goal keeps "
            "temporary files"
        )
    else:
        return
    raise UsageError(
        what,
        "export GOAL_HOME=... with a folder outside of it, or name another workspace: "
        "--workspace DIR",
    )


def within_parent(goal: Goal, home: Path) -> Goal:
    """Return a goal with the constraints and approvals of its parent run, and with its
    protection in the same workspace.

    Raise UsageError if there is no such run, or if `editable` names what the parent
    does not let its agent change. (Source: sub-goals of the Goals-and-State document.)
    """
    if not goal.parent:
        return goal
    try:
        folder = find_run(home, goal.parent)
    except RunNotFound as error:
        raise RunNotFound(f"parent: {error.message}", error.hint) from None
    state = load_state(folder)
    mine, theirs = goal.approvals, state.plan.approvals
    approvals = {
        "require": _joined(theirs.require, mine.require),
        "commands": _joined(theirs.commands, mine.commands),
        "on_deny": "stop" if "stop" in (mine.on_deny, theirs.on_deny) else "continue",
        "labels": _joined(theirs.labels, mine.labels),
        "checks": _stricter(mine.checks, theirs.checks),
    }
    update = {
        "parent": folder.run_id,
        "constraints": _joined(state.goal.constraints, goal.constraints),
        "approvals": mine.model_copy(update=approvals),
        "workspace": goal.workspace.model_copy(update=_protection(goal, state)),
    }
    return goal.model_copy(update=update)


def _stricter(
    mine: CheckPolicy | None, theirs: CheckPolicy | None
) -> CheckPolicy | None:
    """Return the stricter of two policies.

    A judge of the parent run is no judge of the sub-goal.
    """
    by_strictness = (None, "judge", "person", "refuse")
    return max(mine, None if theirs == "judge" else theirs, key=by_strictness.index)


def _protection(goal: Goal, parent: RunState) -> dict[str, tuple[str, ...]]:
    own, plan = goal.workspace, parent.plan
    if str(workspace_of(goal)) != parent.workspace or not (
        plan.protects or plan.editable
    ):
        return {}
    if plan.protects and not own.editable:
        return {"protect": _joined(plan.protects, own.protect)}
    if plan.editable and not own.protect and set(own.editable) <= set(plan.editable):
        return {"editable": own.editable or plan.editable}
    theirs = (
        f"protect = {list(plan.protects)}"
        if plan.protects
        else f"editable = {list(plan.editable)}"
    )
    raise UsageError(
        f"[workspace] protect or editable does not fit {theirs} of the parent run "
        f"{parent.goal.run_id}",
        "remove it, because the sub-goal has that of the parent; or name some of the "
        "parent's patterns in editable",
    )


def _joined(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for part in parts for item in part))
