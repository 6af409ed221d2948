"""What the log's first events say of a goal. Pure translation."""

from __future__ import annotations

from goalrunner.events import GoalCreated, GoalRecord, Plan
from goalrunner.model.goal import Goal


def goal_created(goal: Goal, run_id: str, now: str, validators: tuple[str, ...], *, has_judge: bool) -> GoalCreated:
    """The first event: the goal record, and what policy needs of the goal. `now` is ISO 8601."""
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
        validators=validators,
        has_judge=has_judge,
        minimum_score=goal.judge.minimum_score,
        deliverable=goal.deliverable,
    )
    return GoalCreated(goal=record, plan=plan)
