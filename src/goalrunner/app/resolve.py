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
from goalrunner.app.run_options import CopyOptions, RunOptions
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
from goalrunner.core.goal_tables import Approvals, CheckPolicy
from goalrunner.core.labels import Label
from goalrunner.core.ports import Validator
from goalrunner.core.run_state import RunState
from goalrunner.llm import LLM, new_tape
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_search import find_run
from goalrunner.snapshots.store_folder import refuse_claimed, store_of
from goalrunner.system.child_environment import child_environment
from goalrunner.validators.check_files import NAMED, check_files


@dataclass(frozen=True)
class RunConfig:
    """A goal, options and environment, resolved once.

    Everything that makes a run receives it.
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
    # By part: why models, checks, sandbox or the parent's rules cannot be resolved.
    problems: Mapping[str, GoalError]
    # The place of the agent at work among `agents`; those before it have given up.
    at_work: int = 0

    @property
    def agent(self) -> ResolvedAgent | None:
        """The external agent at work.

        None if the agent is built in, or a conversation that was passed.
        """
        return self.agents[self.at_work] if self.agents else None

    @property
    def usable_agents(self) -> tuple[ResolvedAgent, ...]:
        """The external agent at work, and those that may take over from it."""
        return self.agents[self.at_work :]

    def finding_name(self, part: str, agent: ResolvedAgent) -> str:
        """Return the name of a finding about a part of an agent.

        If there are several agents, it begins with the name of the agent.
        """
        return f"{agent.name} {part}" if len(self.agents) > 1 else part

    @property
    def agent_command(self) -> str:
        """The external agent and its command, or the names of several, for people.

        Empty if there is no external agent.
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

    def outside(self, path: Path) -> Path:
        """Return the path that a person knows for one in the copy, if there is one."""
        return self.options.copy.outside(path) if self.options.copy else path

    @property
    def sandbox_name(self) -> str:
        """The sandbox of the agent.

        "none" if the calling program made the agent, whose commands are in no sandbox.
        """
        if self.options.conversation is not None:
            return NONE
        return self.sandbox.name

    @property
    def command_environ(self) -> dict[str, str]:
        """The environment of the commands that check the work."""
        return child_environment(self.sandbox.environ, withhold=self.withheld)

    @property
    def model_names(self) -> dict[str, str]:
        """The names of the models by account.

        An agent whose model is unknown has its own name.
        """
        names = {"agent": self._agent_name}
        for account, model in self.models.items():
            names[account] = model.model
        return names

    @property
    def _agent_name(self) -> str:
        if self.agents:
            return in_turn(agent.name for agent in self.agents)
        if self.callers_model is not None:
            return self.callers_model.model
        conversation = self.options.conversation
        name = getattr(conversation, "name", None)
        return str(name or type(conversation).__name__)

    @property
    def first_agent(self) -> str:
        """The name of the first external agent, else that of the agent's model."""
        return self.agents[0].name if self.agents else self.model_names["agent"]

    @property
    def self_judging(self) -> tuple[str, ...]:
        """The agents that are the judge as well.

        That is the same model, or one program with models not known to differ.
        """
        judge = programs_in(self.models).get("judge")
        if judge is None or not self.agents:
            is_same = self.first_agent == self.model_names.get("judge")
            return (self.first_agent,) if is_same else ()
        judge_model = judge.choice.model
        names: list[str] = []
        for agent in self.agents:
            # Without a name, each of the two has its default model, which may be the
            # same.
            may_share_model = not judge_model or agent.goal.agent.model in (
                "",
                judge_model,
            )
            if agent.name == judge.choice.name and may_share_model:
                names.append(agent.name)
        return tuple(names)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of what makes this run's proof weaker than it could be."""
        goal = self.goal
        labels: list[str] = []
        if self.first_agent in self.self_judging:
            labels.append(Label.SELF_JUDGED.value)
        judge = programs_in(self.models).get("judge")
        if judge is not None and judge.preset.judge.tools:
            labels.append(Label.JUDGE_HAD_TOOLS.value)
        changes_files = goal.agent.external and goal.deliverable == "workspace"
        if changes_files and not goal.validators:
            # The runner sees what an external agent does only through its reports.
            labels.append(Label.RESTS_ON_REPORTS.value)
        remote = [item.name for item in self.options.validators if is_remote(item)]
        if remote:
            labels.append(Label.REMOTE_CHECKS.about(", ".join(remote)))
        labels += self.options.labels
        if goal.deliverable == "workspace" and not self.options.takes_snapshots:
            labels.append(Label.NO_SNAPSHOTS.value)
        is_sandboxed = self.sandbox_name != NONE
        secret = self.sandbox.secret
        if hidden_readable(goal, self.workspace, secret, sandboxed=is_sandboxed):
            labels.append(Label.HIDDEN_READABLE.value)
        return tuple(labels)

    @property
    def check_policy(self) -> CheckPolicy:
        """Who reviews changed checks.

        If the goal does not say it, an independent judge does, unless the risk is high.
        """
        goal = self.goal
        if goal.approvals.checks:
            return goal.approvals.checks
        # A model that judges its own changes of checks would accept them.
        is_independent = goal.has_judge and not self.self_judging
        is_risky = goal.risk_class in ("high", "critical")
        return "judge" if is_independent and not is_risky else "person"

    @property
    def callers_model(self) -> LLM | None:
        """The model of the calling program's conversation, if it is known."""
        llm = getattr(self.options.conversation, "llm", None)
        return llm if isinstance(llm, LLM) else None

    def refuse_shared_workspace(self) -> None:
        """Raise WorkspaceError if another run is active in the workspace.

        Only snapshots are what two runs would mix.
        """
        if self.goal.deliverable == "workspace" and self.options.takes_snapshots:
            # Several copies of a workspace may be in use at the same time.
            own = self.options.copy_store
            store = own or store_of(self.workspace, self.home)
            refuse_claimed(self.workspace, store / "lock")


def is_remote(validator: Validator) -> bool:
    """Return whether a validator runs on another machine, with the agent's files."""
    return bool(getattr(validator, "is_remote", False))


def hidden_readable(
    goal: Goal, workspace: Path, secret: Path | None, *, sandboxed: bool
) -> bool:
    """Return whether the agent can read what a hidden validator checks.

    That is in the goal file, or in a script that the validator names.
    """
    hidden = [spec for spec in goal.validators if spec.hidden]
    if not hidden:
        return False
    if not sandboxed or secret is None:
        return True
    roles = (role for spec in hidden for role in check_files(spec, workspace).values())
    return any(role in NAMED for role in roles)


def resolve(goal: Goal, options: RunOptions) -> RunConfig:
    """Resolve everything that a run of the goal depends on; write nothing.

    Parts that cannot be resolved are in `problems`, which `readiness` turns into
    findings. Raise UsageError for an unknown agent and an invalid [redact].
    """
    if options.copy is not None and options.copy.places:
        goal, options = _inside(goal, options, options.copy)
    environ = options.environ
    problems: dict[str, GoalError] = {}
    agents: tuple[ResolvedAgent, ...] = ()
    if options.conversation is None:
        agents = resolve_agents(goal, environ)
    callers_models = (goal.judge.instance, *options.own_models)
    # A recording of models needs it, so it is made before them.
    redactor = goal_redactor(goal, environ, withheld(goal, agents, callers_models))
    models: dict[Account, LLM] = {}
    try:
        tape = None
        if options.record:
            tape = new_tape(options.record, redact=redactor.text)
        models = goal_models(goal, options, tape)
    except GoalError as error:
        problems["models"] = error
    check = None
    try:
        if needs_environment(goal) and options.sees_files:
            check = choose_environment(
                goal, workspace_of(goal), options.home, options.copy_store
            )
    except GoalError as error:
        problems["checks"] = error
    try:
        sandbox = choose_sandbox(goal, options.home, environ, options.goal_file)
        if options.copy is not None:
            sandbox = replace(sandbox, shows=options.copy.objects)
    except GoalError as error:
        problems["sandbox"] = error
        sandbox = no_sandbox(goal, options.home, environ)
    # The models of the goal may be programs, which have keys of their own.
    withheld_names = withheld(goal, agents, (*callers_models, *models.values()))
    return RunConfig(
        goal,
        options,
        agents,
        models,
        withheld_names,
        redactor,
        sandbox,
        check,
        problems,
    )


def _inside(
    goal: Goal, options: RunOptions, copy: CopyOptions
) -> tuple[Goal, RunOptions]:
    """Return goal and options with the paths that the copy has."""
    goal_file = options.goal_file
    if goal_file is not None:
        copied_file = copy.inside(goal_file.resolve())
        # Git may ignore it; then only the workspace has it.
        goal_file = copied_file if copied_file.exists() else goal_file
    moved_goal = with_workspace(goal, copy.inside(workspace_of(goal)))
    return moved_goal, replace(options, goal_file=goal_file)


def with_workspace(goal: Goal, path: Path) -> Goal:
    """Return the goal with another workspace."""
    settings = goal.workspace.model_copy(update={"path": str(path)})
    return goal.model_copy(update={"workspace": settings})


def resolve_new(goal: Goal, options: RunOptions) -> RunConfig:
    """Resolve the goal of a new run, with the rules of its parent run.

    Raise as `resolve` does.
    """
    try:
        return resolve(within_parent(goal, options.home), options)
    except UsageError as error:
        # If the error is not about the parent, this raises it again.
        config = resolve(goal, options)
        return replace(config, problems={**config.problems, "parent": error})


def refuse_unseen_work(goal: Goal, agent: str, *, unseen: bool) -> None:
    """Raise UsageError if only the runner's observations count, and it has none.

    `unseen`: the runner cannot observe what `agent` does.
    """
    if unseen and goal.judge.require == "runner" and goal.deliverable == "workspace":
        raise UsageError(
            '[judge] require = "runner" needs a validator: the runner cannot observe '
            f"what {agent} does",
            'add a validator whose output shows it, or set [judge] require = "any"',
        )


def refuse_nested_home(workspace: Path, home: Path) -> None:
    """Raise UsageError if GOAL_HOME is in the workspace, or around it.

    A workspace may be in GOAL_HOME, but not in its folder of temporary files.
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
    """Return a goal with the constraints and approvals of its parent run.

    In the same workspace, it has the parent's protection as well. Raise UsageError if
    there is no such run, or if `editable` names what the parent does not let its agent
    change. (Source: sub-goals of the Goals-and-State document.)
    """
    if not goal.parent:
        return goal
    try:
        folder = find_run(home, goal.parent)
    except RunNotFound as error:
        raise RunNotFound(f"parent: {error.message}", error.hint) from None
    parent = load_state(folder)
    update = {
        "parent": folder.run_id,
        "constraints": _joined(parent.goal.constraints, goal.constraints),
        "approvals": _joined_approvals(goal.approvals, parent.plan.approvals),
        "workspace": goal.workspace.model_copy(update=_protection(goal, parent)),
    }
    return goal.model_copy(update=update)


def _joined_approvals(goal: Approvals, parent: Approvals) -> Approvals:
    """Return the approvals of a sub-goal: what either of the two requires."""
    stops = "stop" in (goal.on_deny, parent.on_deny)
    approvals = {
        "require": _joined(parent.require, goal.require),
        "commands": _joined(parent.commands, goal.commands),
        "on_deny": "stop" if stops else "continue",
        "labels": _joined(parent.labels, goal.labels),
        "checks": _stricter(goal.checks, parent.checks),
    }
    return goal.model_copy(update=approvals)


def _stricter(
    goal: CheckPolicy | None, parent: CheckPolicy | None
) -> CheckPolicy | None:
    """Return the stricter of two policies."""
    if parent == "judge":
        # A judge of the parent run is no judge of the sub-goal.
        parent = None
    by_strictness = (None, "judge", "person", "refuse")
    return max(goal, parent, key=by_strictness.index)


def _protection(goal: Goal, parent: RunState) -> dict[str, tuple[str, ...]]:
    """Return what the sub-goal takes over of the parent's protection."""
    settings, plan = goal.workspace, parent.plan
    is_same_workspace = str(workspace_of(goal)) == parent.workspace
    if not is_same_workspace or not (plan.protects or plan.editable):
        return {}
    if plan.protects and not settings.editable:
        return {"protect": _joined(plan.protects, settings.protect)}
    # Patterns cannot be compared by what they match, so only equal ones count.
    names_some_of_it = set(settings.editable) <= set(plan.editable)
    if plan.editable and not settings.protect and names_some_of_it:
        return {"editable": settings.editable or plan.editable}
    rule = f"editable = {list(plan.editable)}"
    if plan.protects:
        rule = f"protect = {list(plan.protects)}"
    raise UsageError(
        f"[workspace] protect or editable does not fit {rule} of the parent run "
        f"{parent.goal.run_id}",
        "remove it, because the sub-goal has that of the parent; or name some of the "
        "parent's patterns in editable",
    )


def _joined(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for part in parts for item in part))
