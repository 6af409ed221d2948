"""`decide(state) -> Step`: every cap, order and stop rule of the loop. Pure: no clock, no I/O, no model.

What interrupts a step in mid-flight (deadline, budget, signal, a model that cannot answer) is turned into an ending
here as well, so that no other place knows why a run may stop.
"""

from __future__ import annotations

from dataclasses import dataclass

from goalrunner.errors import AuthenticationFailed, GoalError, ModelError, ModelNotFound
from goalrunner.events import PromptKind
from goalrunner.model.outcome import GoalStatus, StopReason
from goalrunner.state.run_state import Phase, RunState


@dataclass(frozen=True)
class Brief:
    """What a prompt has to say; its words are made elsewhere."""

    kind: PromptKind
    round: int
    feedback: str | None = None
    """Red output or the judge's `missing`, verbatim; None when there is nothing to say."""


@dataclass(frozen=True)
class RunRound:
    """Let the agent work."""

    prompt: Brief


@dataclass(frozen=True)
class Validate:
    """Run every validator once."""

    round: int


@dataclass(frozen=True)
class Audit:
    """Ask the judge."""

    round: int


@dataclass(frozen=True)
class Finish:
    """End the run."""

    status: GoalStatus
    reason: StopReason
    message: str = ""
    signal: int | None = None


Step = RunRound | Validate | Audit | Finish
"""What is to be done next; closed."""


def decide(state: RunState) -> Step:
    """The next step. The same state always gives the same one."""
    match state.phase:
        case Phase.ENDED:
            return Finish(state.status, state.stop_reason or StopReason.INTERNAL_ERROR, state.message, state.signal)
        case Phase.READY:
            return _unless_spent(state, RunRound(Brief("first", 1)))
        case Phase.WORKING:
            return _unless_spent(state, RunRound(Brief("first" if state.round == 1 else "retry", state.round)))
        case Phase.WORKED if state.plan.validators:
            return Validate(state.round)
        case Phase.WORKED:
            return _unless_spent(state, Audit(state.round))
        case Phase.VALIDATED if not state.decided_by_validators:
            return _unless_spent(state, Audit(state.round))
        case Phase.VALIDATED | Phase.JUDGED:
            return _after_decision(state)


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


def budget_spent(state: RunState) -> str:
    """Which budget is spent, in words; empty when none is. An unknown price never counts as free."""
    total, plan = state.total, state.plan
    if plan.tokens is not None and total.tokens >= plan.tokens:
        return f"{total.tokens:,} of {plan.tokens:,} tokens are spent"
    if plan.cost_usd is not None and total.cost_usd is None:
        return "a model call without a known price was made, so the dollar budget can no longer be kept"
    if plan.cost_usd is not None and (total.cost_usd or 0.0) >= plan.cost_usd:
        return f"${total.cost_usd:.4f} of ${plan.cost_usd:.4f} are spent"
    return ""


def timed_out(state: RunState) -> Finish:
    """The deadline cut whatever was under way."""
    seconds = f"{state.plan.timeout:g} s" if state.plan.timeout is not None else "the time limit"
    step = f" during {state.memory.current_step}" if state.memory.current_step else ""
    return Finish(GoalStatus.CAPPED, StopReason.TIMEOUT, f"the time limit of {seconds} was reached{step}")


def out_of_budget(state: RunState) -> Finish:
    """The next model call cannot be paid for."""
    return Finish(GoalStatus.CAPPED, StopReason.BUDGET_EXHAUSTED, budget_spent(state) or "the budget is spent")


def interrupted(signal: int | None) -> Finish:
    """Ctrl-C, SIGTERM, or the caller's own cancellation."""
    return Finish(GoalStatus.CANCELLED, StopReason.INTERRUPTED, "interrupted; everything so far is saved", signal)


def failed(state: RunState, error: GoalError) -> Finish:
    """An expected failure of the agent or the judge, which trying again does not cure."""
    judging = (state.memory.current_step or "").startswith("audit-")
    match error:
        case AuthenticationFailed():
            reason = StopReason.AUTHENTICATION
        case ModelNotFound():
            reason = StopReason.MODEL_NOT_FOUND
        case ModelError() if judging:
            reason = StopReason.JUDGE_FAILED
        case ModelError():
            reason = StopReason.AGENT_FAILED
        case _:
            reason = StopReason.INTERNAL_ERROR
    return Finish(GoalStatus.FAILED, reason, str(error))


def crashed(description: str) -> Finish:
    """A defect of the runner or of an adapter."""
    return Finish(GoalStatus.FAILED, StopReason.INTERNAL_ERROR, description)


def _after_decision(state: RunState) -> Step:
    if proven(state):
        by = "verdict" if state.plan.has_judge else "validators"
        return Finish(GoalStatus.COMPLETE, StopReason.SATISFIED, f"{by} of round {state.round}")
    limit = state.plan.max_iterations
    if limit is not None and state.iterations >= limit:
        plural = "round" if limit == 1 else "rounds"
        return Finish(GoalStatus.CAPPED, StopReason.MAX_ITERATIONS, f"not complete after {limit} {plural}")
    return _unless_spent(state, RunRound(_retry(state)))


def _retry(state: RunState) -> Brief:
    verdict = state.verdict
    number = state.round + 1
    if verdict is not None and verdict.source == "fallback":
        return Brief("neutral", number)
    return Brief("retry", number, verdict.missing.strip() or None if verdict else None)


def _unless_spent(state: RunState, step: Step) -> Step:
    return out_of_budget(state) if budget_spent(state) else step
