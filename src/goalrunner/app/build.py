"""Starting a run: its folder, its log with the first events, and its driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from goalrunner import __version__
from goalrunner.app.check_environment import check_lines, describe_checks
from goalrunner.app.external_agent import external_notes
from goalrunner.app.goal_secrets import secret_notes
from goalrunner.app.preflight import warnings_before
from goalrunner.app.previous_run import chat_of, goal_hash, refuse_continuing
from goalrunner.app.resolve import RunConfig, resolve
from goalrunner.app.resources import RunResources, goal_validators, open_resources
from goalrunner.app.run_options import RunOptions
from goalrunner.app.sandbox import NONE
from goalrunner.core.agent_ports import Resumable
from goalrunner.core.approval_state import REPORTED_LABEL
from goalrunner.core.events import GoalCreated, GoalRecord, Plan, RunStarted
from goalrunner.core.goal import Goal
from goalrunner.core.ports import Message
from goalrunner.engine.run import Run
from goalrunner.engine.validation import is_hidden
from goalrunner.goalfile import dump_goal
from goalrunner.llm import LLM
from goalrunner.records.run_folder import RunFolder, RunIds
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.validators.script_text import named_paths

SELF_JUDGED = "self-judged"
HIDDEN_READABLE = "hidden checks readable"

_LABEL_NOTES = {
    SELF_JUDGED: "self-judged: agent and judge are the same model, as separate instances",
    REPORTED_LABEL: "no validator: the only evidence is what the agent reports about its own work",
    HIDDEN_READABLE: "hidden checks readable: the agent can read what the hidden validators check",
}


def check(goal: Goal, options: RunOptions) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Check a goal as a run does before its baseline, without asking a model or running a validator.

    Return an external agent and its command in words (empty for the built-in one), and lines about the checks: label and
    text. Raise GoalError.
    """
    config = resolve(goal, options)
    config.preflight()
    warned = asyncio.run(config.foresee())
    goal_validators(config, ProcessLauncher())
    lines: list[tuple[str, str]] = []
    if config.check is not None:
        lines += describe_checks(goal, config.check, config.workspace, options.environ, options.goal_file)
    agent = config.agent
    notes = external_notes(agent, options.environ) if agent else ()
    secrets = secret_notes(dump_goal(goal, config.redactor.text), goal, options.goal_file, options.environ)
    lines += [("warning", note) for note in (*notes, *secrets, *warned)]
    return (agent.words if agent else "", tuple(lines))


@dataclass(frozen=True)
class PreparedRun:
    """A run that can be driven, and its folder; `close` closes its files."""

    run: Run
    folder: RunFolder
    close: Callable[[], None]

    def write_outcome(self) -> dict[str, Any]:
        """Write outcome.json from the present state, and return its content."""
        outcome = self.run.outcome(str(self.folder.path)).model_dump(mode="json")
        self.folder.write_json(self.folder.outcome, outcome)
        return outcome


def prepare_run(goal: Goal, options: RunOptions) -> PreparedRun:
    """Resolve a goal, make the run's folder and resources, and write the first events. Raise GoalError."""
    config = resolve(goal, options)
    earlier: tuple[Message, ...] = ()
    if options.continues is not None:
        refuse_continuing(goal, has_own_agent=options.conversation is not None)
        earlier = chat_of(options.continues)
    config.refuse_shared_workspace()
    frozen = dump_goal(goal, config.redactor.text)
    folder = RunFolder.create(config.home, RunIds(config.home).run_id(config.redactor.text(goal.objective)))
    folder.write_text(folder.goal_file, frozen)
    resources = open_resources(config, folder)
    try:
        run = resources.run()

        def take_over() -> None:
            if earlier and isinstance(run.conversation, Resumable):
                run.conversation.adopt_history(earlier, run.recorder)

        now = resources.parts.clock.now()
        secrets = secret_notes(frozen, goal, options.goal_file, options.environ)
        run.start(
            _goal_created(resources, folder.run_id, now), _run_started(resources, folder, now, secrets), take_over
        )
    except BaseException:
        resources.close()
        raise
    return PreparedRun(run=run, folder=folder, close=resources.close)


def _goal_created(resources: RunResources, run_id: str, now: datetime) -> GoalCreated:
    """Return the first event: the goal record, and what policy needs of the goal."""
    config, parts = resources.config, resources.parts
    goal, options, has_judge = config.goal, config.options, parts.judge is not None
    names = tuple(validator.name for validator in parts.validators if not is_hidden(validator))
    hidden = tuple(validator.name for validator in parts.validators if is_hidden(validator))
    commands = [spec for spec in goal.validators if spec.run is not None]
    visible = sum(not spec.hidden for spec in commands)
    # Only commands can be run before there is a response; a callable checks one.
    takes_baseline = goal.deliverable == "workspace" and visible > 0
    checks_response = len(commands) < len(parts.validators)
    record = GoalRecord(
        goal_id=run_id,
        run_id=run_id,
        owner=goal.owner,
        description=goal.objective,
        success_criteria=goal.success_criteria,
        constraints=goal.constraints,
        risk_class=goal.risk_class,
        created_at=now.isoformat(),
        updated_at=now.isoformat(),
    )
    plan = Plan(
        max_iterations=goal.max_iterations,
        timeout=goal.timeout,
        tokens=goal.budget.tokens,
        cost_usd=goal.budget.cost_usd,
        unenforced=goal.budget.unenforced if config.agent or options.conversation is not None else (),
        validators=names,
        has_judge=has_judge,
        minimum_score=goal.judge.minimum_score,
        require=goal.judge.require,
        takes_baseline=takes_baseline,
        wants_red=goal.baseline == "red",
        needs_round=options.needs_round or checks_response,
        hidden=hidden if parts.checker is not None else (),
        protects=goal.workspace.protect,
        editable=goal.workspace.editable,
        checks_response=checks_response,
        stall_rounds=goal.stall_rounds,
        deliverable=goal.deliverable,
        approvals=goal.approvals,
    )
    return GoalCreated(goal=record, plan=plan)


def _run_started(resources: RunResources, folder: RunFolder, now: datetime, secrets: tuple[str, ...]) -> RunStarted:
    config = resources.config
    goal, options, agent, own = config.goal, config.options, config.agent, config.options.conversation
    models = _model_names(config)
    labels = labels_of(config, models)
    return RunStarted(
        workspace=str(config.workspace),
        models=models,
        agent_command=agent.words if agent else "",
        version=__version__,
        labels=labels,
        check_environment=config.check.kind if config.check else "",
        checks=check_lines(goal, config.check) if config.check else "",
        notes=(
            *(_LABEL_NOTES[label] for label in labels),
            *warnings_before(goal, options.environ),
            *(external_notes(agent, options.environ) if agent else ()),
            *config.sandbox.notes(has_own_agent=own is not None),
            *resources.notes,
            *secrets,
        ),
        sandbox=config.sandbox_name,
        deadline_at=deadline_at(now, goal.timeout),
        handed=options.handed,
        goal_file=str(options.goal_file.resolve()) if options.goal_file else "",
        goal_sha256=goal_hash(folder),
        continues=options.continues.run_id if options.continues else "",
    )


def labels_of(config: RunConfig, models: dict[str, str]) -> tuple[str, ...]:
    """Return the labels of what makes this run's proof weaker than it could be."""
    goal, labels = config.goal, []
    if models.get("judge") and models.get("judge") == models.get("agent"):
        labels.append(SELF_JUDGED)
    if goal.agent.external and goal.deliverable == "workspace" and not goal.validators:
        labels.append(REPORTED_LABEL)
    sandboxed = config.sandbox_name != NONE
    return (*labels, *hidden_labels(goal, config.workspace, config.location.secret, sandboxed=sandboxed))


def hidden_labels(goal: Goal, workspace: Path, secret: Path | None, *, sandboxed: bool) -> tuple[str, ...]:
    """Return the label if the agent can read the goal file, or a script that a hidden validator names."""
    hidden = [spec for spec in goal.validators if spec.hidden]
    if not hidden or (sandboxed and secret is not None and not any(named_paths(spec, workspace) for spec in hidden)):
        return ()
    return (HIDDEN_READABLE,)


def _model_names(config: RunConfig) -> dict[str, str]:
    roles = (("agent", config.models.agent), ("judge", config.models.judge))
    names = {role: llm.model for role, llm in roles if llm is not None}
    if "agent" not in names:
        own = config.options.conversation
        llm = getattr(own, "llm", None)
        name = llm.model if isinstance(llm, LLM) else getattr(own, "name", None) or type(own).__name__
        names["agent"] = config.agent.name if config.agent else str(name)
    return names


def deadline_at(now: datetime, seconds: float | None) -> str | None:
    """Return when a limit that has `seconds` left ends, if the run does not wait for a person; ISO 8601."""
    return None if seconds is None else (now + timedelta(seconds=seconds)).isoformat()
