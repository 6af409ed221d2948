"""What a proof is, and what is spent: the two looks at a state that every decision rests on. Pure."""

from __future__ import annotations

from goalrunner.state.run_state import Phase, RunState


def proven(state: RunState) -> bool:
    """Whether the runner holds the proof: every validator green in this round, and the judge's verdict where one is asked.

    Looks again at everything that a verdict must be, whoever made it: a doubt is a no.
    """
    plan, verdict = state.plan, state.verdict
    if verdict is None or not verdict.complete or not (plan.validators or plan.has_judge):
        return False
    if plan.validators and not state.validators_green:
        return False
    if not plan.has_judge:
        return verdict.source == "validators"
    criteria = verdict.criteria
    judged = (
        state.phase in (Phase.JUDGED, Phase.PROVED)
        and verdict.source == "judge"
        and verdict.score >= plan.minimum_score
    )
    return judged and bool(criteria) and all(item.satisfied and item.evidence for item in criteria)


def budget_spent(state: RunState) -> str:
    """Which budget is spent, in words; empty when none is. An unknown price never counts as free."""
    total, plan = state.total, state.plan
    if plan.tokens is not None and total.tokens >= plan.tokens:
        return f"{total.tokens:,} of {plan.tokens:,} tokens are spent"
    if plan.cost_usd is not None and total.cost_usd is None and "cost_usd" in plan.unenforced:
        known = sum(usage.cost_usd or 0.0 for usage in state.usage.values())
        return f"${known:.4f} of ${plan.cost_usd:.4f} are spent" if known >= plan.cost_usd else ""
    if plan.cost_usd is not None and total.cost_usd is None:
        return "a model call without a known price was made, so the dollar budget can no longer be kept"
    if plan.cost_usd is not None and (total.cost_usd or 0.0) >= plan.cost_usd:
        return f"${total.cost_usd:.4f} of ${plan.cost_usd:.4f} are spent"
    return ""
