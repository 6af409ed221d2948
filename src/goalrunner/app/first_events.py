"""The two events with which the log of a run begins."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta

from goalrunner.app.critic import critic_rule
from goalrunner.app.goal_models import programs_in
from goalrunner.app.preflight import checks_line
from goalrunner.app.previous_run import file_hash
from goalrunner.app.resolve import RunConfig
from goalrunner.core import VERSION
from goalrunner.core.events import GoalCreated, GoalRecord, RunRules, RunStarted
from goalrunner.core.labels import Label
from goalrunner.engine.parts import Parts
from goalrunner.engine.validator_runs import is_hidden
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_summaries import RunPlace


def created_event(
    config: RunConfig, parts: Parts, run_id: str, now: datetime
) -> GoalCreated:
    """Return the first event: the record of the goal, and the rules of the run."""
    goal = config.goal
    record = GoalRecord(
        goal_id=run_id,
        run_id=run_id,
        description=goal.objective,
        **goal.model_dump(
            include={"parent", "owner", "success_criteria", "constraints", "risk_class"}
        ),
        created_at=now.isoformat(),
        updated_at=now.isoformat(),
    )
    return GoalCreated(goal=record, plan=_rules(config, parts))


def _rules(config: RunConfig, parts: Parts) -> RunRules:
    """Return all that the policy needs to know of the goal."""
    goal, options = config.goal, config.options
    hidden: list[str] = []
    visible: list[str] = []
    for validator in parts.validators:
        names = hidden if is_hidden(validator) else visible
        names.append(validator.name)
    commands = [spec for spec in goal.validators if spec.run is not None]
    # Only commands can be run before there is a response; a callable checks one.
    has_visible_command = any(not spec.hidden for spec in commands)
    checks_response = len(commands) < len(parts.validators)
    # Only a judge can see that the work is done already: checks that pass before it do
    # not show it.
    may_end_at_baseline = parts.judge is not None or goal.baseline == "complete"
    # External programs and conversations do not have to report their usage.
    has_program = bool(config.agents or programs_in(config.models))
    is_external = has_program or options.conversation is not None
    # One agent alone is never replaced, so the policy does not need its name.
    has_fallbacks = len(config.agents) > 1
    agents = tuple(agent.name for agent in config.agents)
    return RunRules(
        **goal.model_dump(
            include={"max_iterations", "timeout", "wait", "stall_rounds", "deliverable"}
        ),
        **goal.budget.model_dump(include={"tokens", "cost_usd"}),
        **goal.judge.model_dump(include={"minimum_score", "require"}),
        unenforced=goal.budget.unenforced if is_external else (),
        validators=tuple(visible),
        has_judge=parts.judge is not None,
        critic=critic_rule(config),
        takes_baseline=goal.deliverable == "workspace" and has_visible_command,
        wants_red=goal.baseline == "red",
        needs_round=options.needs_round or checks_response or not may_end_at_baseline,
        # Hidden validators run only in a check environment.
        hidden=tuple(hidden) if parts.checker is not None else (),
        protects=goal.workspace.protect,
        editable=goal.workspace.editable,
        checks_response=checks_response,
        agents=agents if has_fallbacks else (),
        self_judging=config.self_judging if has_fallbacks else (),
        # A resumed run keeps the policy, even if the default changes.
        approvals=goal.approvals.model_copy(update={"checks": config.check_policy}),
    )


def started_event(
    config: RunConfig,
    folder: RunFolder | None,
    now: datetime,
    notes: tuple[str, ...],
    *,
    goal_changed: bool,
) -> RunStarted:
    """Return the second event: the circumstances of the run, and notes for people.

    `folder` is the run's; None if nothing of the run is kept.
    `goal_changed`: the goal file was changed while the last run with it worked.
    """
    goal, options = config.goal, config.options
    labels = dict.fromkeys(config.labels)
    if goal_changed:
        labels[Label.GOAL_CHANGED] = None
    # A resumed run uses the same programs, even if another one is on PATH.
    programs = {
        account: program.record
        for account, program in programs_in(config.models).items()
    }
    check = config.check
    return RunStarted(
        **asdict(run_place(config)),
        models=config.model_names,
        isolated=options.copy is not None,
        clone=str(config.workspace) if options.copy and options.copy.places else "",
        agent_command=config.agent_command,
        version=VERSION,
        labels=tuple(labels),
        check_environment=check.kind if check else "",
        checks=checks_line(goal, check) if check else "",
        notes=notes,
        sandbox=config.sandbox_name,
        deadline_at=deadline_at(now, goal.timeout),
        handed=options.handed(goal),
        goal_sha256=file_hash(folder.goal_file) if folder else "",
        continues=options.continues.run_id if options.continues else "",
        programs=programs,
    )


def run_place(config: RunConfig) -> RunPlace:
    """Return where a run works, and where its goal was read from."""
    goal_file = config.options.goal_file
    return RunPlace(
        str(config.outside(config.workspace)),
        str(config.outside(goal_file.resolve())) if goal_file else "",
    )


def deadline_at(now: datetime, seconds: float | None) -> str | None:
    """Return when a limit with `seconds` left is reached, in ISO 8601.

    A run that waits for a person reaches it later.
    """
    if seconds is None:
        return None
    return (now + timedelta(seconds=seconds)).isoformat()
