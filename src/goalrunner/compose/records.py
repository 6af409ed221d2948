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
    needs_round: bool = False,
    unenforced: tuple[BudgetName, ...] = (),
) -> GoalCreated:
    """The first event: the goal record, and what policy needs of the goal. `now` is ISO 8601.

    `needs_round` lets the agent work even after a green baseline; `unenforced` are budgets that count what is known alone.
    """
    commands = [spec for spec in goal.validators if spec.run is not None]
    visible = sum(not spec.hidden for spec in commands)
    # Commands alone can be run before there is a response; a callable checks one.
    takes_baseline = goal.deliverable == "workspace" and visible > 0
    checks_response = len(commands) < len(validators) + len(hidden)
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
        needs_round=needs_round or checks_response,
        hidden=hidden,
        protects=goal.workspace.protect,
        editable=goal.workspace.editable,
        # A callable checks the response, which no snapshot shows: equal snapshots are then no sign of a stall.
        stall_rounds=goal.stall_rounds if has_judge or (takes_baseline and visible == len(validators)) else None,
        deliverable=goal.deliverable,
        approvals=goal.approvals,
    )
    return GoalCreated(goal=record, plan=plan)
