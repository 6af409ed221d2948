"""What a proof is: the look at a state that every `complete` rests on. Pure."""

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
    judged = state.phase is Phase.JUDGED and verdict.source == "judge" and verdict.score >= plan.minimum_score
    return judged and bool(criteria) and all(item.satisfied and item.evidence for item in criteria)
