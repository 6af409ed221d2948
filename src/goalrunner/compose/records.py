"""What the log's first events say of a goal. Pure translation."""

from __future__ import annotations

from goalrunner.events import GoalCreated, GoalRecord, Plan
from goalrunner.model.goal import Goal
from goalrunner.model.preset import BudgetName


def goal_created(
    goal: Goal,
    run_id: str,
    now: str,
    validators: tuple[str, ...],
    hidden: tuple[str, ...] = (),
    *,
    has_judge: bool,
    baseline: bool,
    unenforced: tuple[BudgetName, ...] = (),
) -> GoalCreated:
    """The first event: the goal record, and what policy needs of the goal. `now` is ISO 8601.

    `baseline` False leaves it out whatever the goal says; `unenforced` are budgets that count what is known alone.
    """
    takes_baseline = baseline and _takes_baseline(goal, validators)
    record = GoalRecord(
        goal_id=run_id,
        run_id=run_id,
        owner=goal.owner,
        description=goal.objective,
        success_criteria=goal.success_criteria,
        constraints=goal.constraints,
        risk_class=goal.risk_class,
        created_at=now,
        updated_at=now,
    )
    plan = Plan(
        max_iterations=goal.max_iterations,
        timeout=goal.timeout,
        tokens=goal.budget.tokens,
        cost_usd=goal.budget.cost_usd,
        unenforced=unenforced,
        validators=validators,
        has_judge=has_judge,
        minimum_score=goal.judge.minimum_score,
        require=goal.judge.require,
        takes_baseline=takes_baseline,
        wants_red=goal.baseline == "red",
        hidden=hidden,
        protects=goal.workspace.protect,
        editable=goal.workspace.editable,
        # A callable alone checks the response, which no snapshot shows: equal snapshots are then no sign of a stall.
        stall_rounds=goal.stall_rounds if has_judge or _takes_baseline(goal, validators) else None,
        deliverable=goal.deliverable,
        approvals=goal.approvals,
    )
    return GoalCreated(goal=record, plan=plan)


def _takes_baseline(goal: Goal, validators: tuple[str, ...]) -> bool:
    """Commands alone can be run before there is a response; a callable checks one."""
    commands = sum(spec.run is not None and not spec.hidden for spec in goal.validators)
    return goal.deliverable == "workspace" and 0 < commands == len(validators)
