"""A round is decided and counted, and compared with the rounds before it."""

from __future__ import annotations

from goalrunner.core.actions import with_actions
from goalrunner.core.outcome import GoalAttempt
from goalrunner.core.run_state import KEPT, Approval, RunState, Stall
from goalrunner.core.verdict import GoalVerdict, agent_feedback, normalised


def with_verdict(state: RunState, verdict: GoalVerdict) -> RunState:
    """Return the state in which this verdict decides the round, which is counted.

    It is not complete if a person refused the completion of this snapshot.
    """
    approval = state.completion
    if verdict.complete and approval is not None and approval.refused:
        missing = refusal_feedback(approval)
        verdict = verdict.model_copy(update={"complete": False, "missing": missing})
    counted = with_round_counted(
        state,
        passed=verdict.complete,
        feedback=agent_feedback(verdict, state.validators),
        score=verdict.score,
    )
    if verdict.source == "fallback":
        # An audit that could not be read says nothing about the work; the judge is
        # asked again.
        return counted.replace(verdict=verdict)
    return counted.replace(verdict=verdict, stall=_stall_after(counted, verdict))


def with_round_counted(
    state: RunState, *, passed: bool, feedback: str | None = None, score: float = 0.0
) -> RunState:
    """Return the state with the round counted once, however often it is checked.

    An iteration is a turn of the agent that was checked. A baseline counts only if it
    decides the run.
    """
    if state.round == 0 and not passed:
        return state
    number, earlier = state.iterations + 1, state.attempts
    # A check is made again after a person's decision, or a change of the workspace.
    if state.counted == state.round:
        number, earlier = state.iterations, state.attempts[:-1]
    attempt = GoalAttempt(attempt=number, passed=passed, feedback=feedback, score=score)
    counted = state.replace(
        iterations=number, counted=state.round, attempts=(*earlier, attempt)[-KEPT:]
    )
    return counted.with_budget(iteration_count=number)


def _stall_after(state: RunState, verdict: GoalVerdict) -> Stall:
    """Return how many rounds in a row ended as this one.

    Rounds end equally with the same content, the same results and the same things
    missing. Rounds that alternate between two states count like equal ones.
    """
    snapshot_id = state.snapshot.id if state.snapshot else ""
    # The response belongs to the content if it is the deliverable or a callable checks
    # it, because no snapshot shows it.
    content = (state.content or snapshot_id, state.response or state.said)
    if verdict.complete or not any(content):
        return Stall()
    results = tuple(
        (result.name, result.passed, result.reason, result.exit_code)
        for result in state.validators
    )
    missing: object = normalised(verdict.missing)
    if verdict.source == "judge" and verdict.criteria:
        # The judge's words vary from audit to audit, the criteria do not.
        missing = tuple((item.criterion, item.satisfied) for item in verdict.criteria)
    return _next_stall(state.stall, repr((content, results, missing)))


def _next_stall(last: Stall, key: str) -> Stall:
    """Return the stall after a round that ended with this key."""
    # Endings A, B, A alternate: the round has B as its other key. After A, B, B, the
    # other key is still A.
    before = last.before if key == last.key else last.key
    if key not in (last.key, last.before):
        return Stall(
            key=key, before=before, rounds=1, actions=last.doing, idle=int(last.is_idle)
        )
    return Stall(
        key=key,
        before=before,
        rounds=last.rounds + 1,
        actions=with_actions(last.actions, last.doing),
        idle=last.idle + last.is_idle,
    )


def refusal_feedback(approval: Approval) -> str:
    """Return the feedback about a completion that a person refused."""
    decision = str(approval.decision)
    if approval.reason:
        decision = f"{decision}: {approval.reason}"
    return f"the owner did not accept the result ({decision})"
