"""Changes of a run's state by results of validators, verdicts, approvals and answers, and the detection of stalls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goalrunner.core import events, progress
from goalrunner.core.errors import some
from goalrunner.core.events import Standing
from goalrunner.core.outcome import GoalAttempt, StopReason
from goalrunner.core.ports import CheckRun
from goalrunner.core.progress import labelled, with_approvals, with_budget, with_evidence, with_fields, with_memory
from goalrunner.core.run_state import KEPT, Approval, Baseline, Interruption, Phase, RunState, Stall
from goalrunner.core.verdict import GoalVerdict, ValidatorResult, feedback_of, normalised, verdict_of

UNGUARDED = "unguarded approval"
"""Label of a run with an approval that the agent could have given itself."""

UNASKED_LABEL = "unasked actions"
"""Label of a run whose agent acted without a required approval."""

REPORTED_LABEL = "rests on reports"
"""Label of a run without validators whose evidence the agent itself reported."""


def stalled(state: RunState, verdict: GoalVerdict) -> Stall:
    """Compare the round with the two kinds of rounds before it: same content, same results, same things missing.

    The response belongs to the content if it is the deliverable or a callable checks it, because no snapshot shows it.
    Rounds that alternate between two states count like rounds that stay the same.
    """
    content = (state.content or (state.snapshot.id if state.snapshot else ""), state.response or state.said)
    if verdict.complete or not any(content):
        return Stall()
    checks = tuple((item.name, item.passed, item.reason, item.exit_code) for item in state.validators)
    missing: object = normalised(verdict.missing)
    if verdict.source == "judge" and verdict.criteria:  # the judge's words vary, the criteria do not
        missing = tuple((item.criterion, item.satisfied) for item in verdict.criteria)
    key, last = repr((content, checks, missing)), state.stall
    rounds = last.rounds + 1 if key in (last.key, last.before) else 1
    return Stall(key=key, before=last.before if key == last.key else last.key, rounds=rounds)


def baselined(state: RunState, event: events.BaselineTaken) -> RunState:
    """Return the state after the baseline."""
    seen = progress.ended(with_evidence(state, [item.id for item in (*event.observations, *event.concealed)]))
    ran_on = event.snapshot or state.base
    taken = with_fields(
        progress.reset(seen, "leaked refusal changed_checks"),
        phase=Phase.BASELINED,
        baseline=Baseline(standing=event.standing, reason=event.reason, results=event.results),
        validators=event.results,
        snapshot=ran_on,
        content=ran_on.id if ran_on else "",
    )
    # A baseline that decides is iteration 1.
    decides = event.standing == "green" and not state.plan.has_judge and not state.plan.needs_round
    return decided(taken, verdict_of(event.results)) if decides else taken


def validated(state: RunState, event: events.ValidatorsFinished) -> RunState:
    """Return the state after the validators ran."""
    seen = [item.id for item in (*event.observations, *event.concealed)]
    obstacle, changed = obstacle_of(event.results), event.changed_checks
    about = state.newest_approval(kind="checks", snapshot=changed.key) if changed is not None else None
    denied = about if about is not None and about.decision == "denied" and not obstacle else None
    ran = with_fields(
        progress.ended(with_evidence(state, seen)),
        phase=Phase.VALIDATED,
        validators=event.results,
        refusal=event.refusal,
        leaked=event.leaked,
        leaks=state.leaks + bool(event.leaked),
        snapshot=event.snapshot or state.snapshot,
        protected_changes=event.protected_changes,
        differing=event.differing,
        check_labels=event.labels,
        # A person is not asked again about versions that were denied before.
        changed_checks=None if obstacle or denied else changed,
        obstacle=obstacle,
        obstacles=state.obstacles + 1 if obstacle else 0,
    )
    if obstacle or event.leaked or not ran.decided_by_validators:
        # With an obstacle the round is not decided. The agent gets no feedback about it, as it cannot remove it.
        return ran
    if changed is not None and denied is not None:
        return _not_accepted(ran, changed, denied)
    # A person may still accept the agent's versions of the checks: the round is then counted as passed.
    return decided(ran, verdict_of(event.results, event.refusal, event.protected_changes))


def obstacle_of(results: Sequence[ValidatorResult]) -> str:
    """Return why validators cannot run here, one line each; empty if all can."""
    return "\n".join(f"validator {item.name} cannot run here: {item.summary}" for item in results if item.cannot_run)


def baseline_standing(results: Sequence[ValidatorResult], ran: CheckRun, leaked: Sequence[str]) -> tuple[Standing, str]:
    """Return the status of the validators before any work is done, and why they cannot run."""
    if obstacle := obstacle_of(results):
        return "cannot_run", obstacle
    if leaked:
        return "differs", f"the workspace changed while it was checked: {some(leaked)}"
    if ran.refusal:
        return "differs", f"{ran.refusal}\n{ran.hint}".strip()
    return ("green" if results and all(result.passed for result in results) else "red"), ""


def checks_decided(state: RunState, event: events.ApprovalRecorded) -> RunState:
    """Return the state after a decision on changed checks."""
    about, changed = state.newest_approval(id=event.approval_id), state.changed_checks
    if changed is None or about is None or about.kind != "checks" or about.snapshot != changed.key:
        return state
    if about.decision != "approved":
        return _not_accepted(state, changed, about)
    if state.plan.has_judge:
        # The judge needs the accepted results as observations: the validators run with these versions.
        place = "left" if state.phase is Phase.ENDED else "phase"
        return with_fields(state, changed_checks=None, **{place: Phase.WORKED})
    labels = (*state.check_labels, f"checks changed: {', '.join(changed.paths)}")
    accepted = with_fields(state, validators=changed.results, changed_checks=None, check_labels=labels)
    return decided(accepted, verdict_of(changed.results)) if accepted.decided_by_validators else accepted


def _not_accepted(state: RunState, changed: events.ChangedChecks, approval: Approval) -> RunState:
    """Return the state in which the agent's versions of the checks were refused: the round fails."""
    reason = f" ({approval.reason})" if approval.reason else ""
    verdict = verdict_of(state.validators, f"Your changes to {', '.join(changed.paths)} were not accepted{reason}.")
    return decided(with_fields(state, changed_checks=None), verdict)


def decided(state: RunState, verdict: GoalVerdict) -> RunState:
    """Count the round, with this verdict; it is not complete if a person refused the completion of this snapshot."""
    refused = state.completion
    if verdict.complete and refused is not None and refused.refused:
        verdict = verdict.model_copy(update={"complete": False, "missing": refusal(refused)})
    feedback = feedback_of(verdict, state.validators)
    now = count_round(state, passed=verdict.complete, feedback=feedback, score=verdict.score)
    return with_fields(now, verdict=verdict, stall=stalled(now, verdict))


def count_round(state: RunState, *, passed: bool, feedback: str | None = None, score: float = 0.0) -> RunState:
    """Count the round once, however often it is checked: an iteration is a turn of the agent that was checked.

    A baseline counts only if it decides the run.
    """
    if state.round == 0 and not passed:
        return state
    again = state.counted == state.round
    number = state.iterations if again else state.iterations + 1
    attempt = GoalAttempt(attempt=number, passed=passed, feedback=feedback, score=score)
    attempts = (*(state.attempts[:-1] if again else state.attempts), attempt)[-KEPT:]
    counted = with_fields(state, iterations=number, counted=state.round, attempts=attempts)
    return with_budget(counted, iteration_count=number)


def approval_requested(state: RunState, event: events.ApprovalRequested, at: str) -> RunState:
    """Return the state with an approval request of the time `at` (ISO 8601). It replaces an older one for the same action."""
    if event.kind in ("complete", "checks"):
        state = withdrawn(state, lambda item: item.kind == event.kind)
    else:
        state = withdrawn(state, lambda item: item.tool_call_id == event.tool_call_id)
    same = {
        name: getattr(event, name) for name in Approval.model_fields if name in events.ApprovalRequested.model_fields
    }
    approval = Approval(id=event.approval_id, requested_at=at, **same)
    return with_fields(state, approvals=(*state.approvals, approval)[-KEPT:], requested=state.requested + 1)


def approval_recorded(state: RunState, event: events.ApprovalRecorded, at: str) -> RunState:
    """Return the state after a decision. Only the first decision on an approval counts.

    A denial stops the working memory. (Source: apply_event of Goals and State.)
    """
    about = next((item for item in state.approvals if item.id == event.approval_id), None)
    refs = (*state.memory.approval_refs, event.approval_id)[-KEPT:]
    # Without the agent's versions of the checks, the round is red and the run goes on.
    goes_on = state.plan.approvals.on_deny != "stop" or (about is not None and about.kind == "checks")
    stop = "blocked" if event.decision != "approved" and not goes_on else None
    state = with_memory(state, approval_refs=refs, stop_reason=stop)
    if about is None or about.decision is not None:
        return state
    given = {name: getattr(event, name) for name in ("decision", "by", "reason", "guarded")}
    decided = about.model_copy(update={**given, "decided_at": at})
    if event.decision == "approved" and not event.guarded:
        state = labelled(state, UNGUARDED)
    by = f" by {decided.by}" if decided.by else ""
    decision = "has expired" if decided.decision == "expired" else f"was {decided.decision}{by}"
    approvals = tuple(decided if item.id == decided.id else item for item in state.approvals)
    state = _with_message(with_fields(state, approvals=approvals), f"{decided.id} {decision}")
    if decided.kind == "complete" and decided.refused:
        return _refused(state, decided)
    if decided.kind == "complete" and event.changed and event.snapshot is not None:
        # The workspace changed after the approval: it is checked, and approved, again.
        return with_fields(state, phase=state.unchecked, snapshot=event.snapshot)
    return state


def withdrawn(state: RunState, about: Callable[[Approval], bool]) -> RunState:
    """Return the state with the waiting approvals for which `about` is true withdrawn."""
    return with_approvals(state, lambda item: item.decision is None and about(item), decision="withdrawn")


def refusal(approval: Approval) -> str:
    """Return the feedback about a refused completion."""
    decision = f"{approval.decision}: {approval.reason}" if approval.reason else str(approval.decision)
    return f"the owner did not accept the result ({decision})"


def _with_message(state: RunState, decision: str) -> RunState:
    """Return the state with a message about a decision and what still waits, if the run ended waiting for a person."""
    if state.stop_reason not in (StopReason.APPROVAL_REQUIRED, StopReason.QUESTION_OPEN):
        return state
    run = state.goal.run_id
    left = [f"{item.id} still waits for a person: goal approve {run} {item.id}" for item in state.waiting]
    left += [f'still open: {question}\ngoal answer {run} "..."' for question in state.memory.open_questions]
    return with_fields(state, message="\n".join([decision, *(left or [f"goal resume {run} goes on"])]))


def _refused(state: RunState, approval: Approval) -> RunState:
    """Return the state after a refused completion: the round failed, and the person's reason is the feedback."""
    failed, feedback = {"complete": False, "missing": refusal(approval)}, refusal(approval)
    if state.verdict is None:
        return state
    state = with_fields(state, verdict=state.verdict.model_copy(update=failed))
    attempts = [item.model_copy(update={"passed": False, "feedback": feedback}) for item in state.attempts[-1:]]
    return with_fields(state, attempts=(*state.attempts[:-1], *attempts))


def asked(state: RunState, questions: tuple[str, ...]) -> RunState:
    """Return the state with more open questions, each once."""
    return with_memory(state, open_questions=tuple(dict.fromkeys((*state.memory.open_questions, *questions))))


def answered(state: RunState, event: events.QuestionAnswered) -> RunState:
    """Return the state with the question closed; the answer is part of the next prompt."""
    left = tuple(question for question in state.memory.open_questions if question != event.question)
    closed = with_memory(state, open_questions=left)
    closed = with_evidence(closed, [event.evidence_ref], counted=event.observation is not None)
    closed = _with_message(
        closed, f"the question was answered by {event.by}" if event.by else "the question was answered"
    )
    if event.observation is None:  # a tool result contained the answer
        return closed
    interruption = state.interruption or Interruption()
    answers = (*interruption.answers, (event.question, event.answer))
    return with_fields(closed, interruption=interruption.model_copy(update={"answers": answers}))
