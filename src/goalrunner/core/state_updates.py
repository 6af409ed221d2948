"""Changes of a run's state by its end and resumption, usage, steps, approvals, answers and decided rounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from goalrunner.core import events
from goalrunner.core.labels import Label
from goalrunner.core.outcome import FINAL, GoalAttempt, GoalStatus, StopReason, Usage, record_status
from goalrunner.core.run_state import KEPT, Approval, Interruption, Phase, RunState, Stall
from goalrunner.core.verdict import GoalVerdict, feedback_of, normalised, verdict_of

NOT_CHECKED = "leaks obstacle obstacles"
"""Fields of a state in which something kept the checks from running."""


def over(state: RunState, event: events.RunEnded) -> RunState:
    """Return the state of a run that has ended."""
    record, stop = record_status(event.stop_reason)
    step = None if event.status is GoalStatus.COMPLETE else state.memory.current_step
    ended = state.with_memory(stop_reason=stop, current_step=step).replace(
        goal=state.goal.model_copy(update={"status": record}),
        phase=Phase.ENDED,
        left=state.left if state.phase is Phase.ENDED else state.phase,
        status=event.status,
        stop_reason=event.stop_reason,
        message=event.message,
        signal=event.signal if event.status is GoalStatus.CANCELLED else state.signal,
    )
    return _count_usage(ended)


def resumed(state: RunState, event: events.RunResumed) -> RunState:
    """Return the state of a resumed run; a run that cannot be resumed stays as it is."""
    if state.stop_reason in FINAL:
        return state
    if state.stop_reason is StopReason.DENIED:  # the run does not end with the same denial again
        state = state.with_approvals(lambda item: item.refused, told=True)
    interruption = state.interruption or Interruption()
    changed = tuple(dict.fromkeys((*interruption.changed, *event.changed)))
    interruption = interruption.model_copy(update={"note": event.note or interruption.note, "changed": changed})
    place = _place(state, event)
    again = with_cut(state, event.in_flight).with_memory(stop_reason=None).with_budget(deadline_at=event.deadline_at)
    return again.reset(f"status stop_reason message signal ended_at stall unstable unread {NOT_CHECKED}").replace(
        goal=state.goal.model_copy(update={"status": "active"}),
        plan=event.plan,
        resumes=state.resumes + 1,
        sandbox=event.sandbox if event.sandbox == state.sandbox else "none",
        interruption=None if interruption == Interruption() else interruption,
        outside=tuple(dict.fromkeys((*state.outside, *event.changed)))[-KEPT:],
        **place,
    )


def _place(state: RunState, event: events.RunResumed) -> dict[str, object]:
    """Return the last phase whose result is still valid, and what else follows from it."""
    phase = state.left if state.phase is Phase.ENDED else state.phase
    is_judged, verdict = phase in (Phase.JUDGED, Phase.CONFIRMED), state.verdict
    if (state.obstacle and phase is Phase.VALIDATED) or (state.leaked and phase in (Phase.WORKED, Phase.VALIDATED)):
        # A person may have removed what kept the validators from running, or what changed the workspace.
        return {"phase": Phase.WORKED, "snapshot": event.snapshot or state.snapshot}
    if phase is Phase.BASELINED and state.round == 0 and (state.phase is Phase.ENDED or event.changed):
        return {"phase": Phase.READY}  # a person may have corrected what the baseline checks
    if phase is Phase.CONFIRMED and state.confirmed:
        return {"phase": Phase.JUDGED, "confirmed": "", "refuted": verdict.blocked if verdict is not None else ""}
    proof = phase in (Phase.WORKED, Phase.VALIDATED) or (is_judged and verdict is not None and verdict.complete)
    if proof and event.changed:  # the files are different now
        return {"phase": state.unchecked, "snapshot": event.snapshot}
    return {"phase": phase}


def spent(state: RunState, account: str, usage: Usage) -> RunState:
    """Return the state after a model call, or a part of an agent's turn, reported its usage."""
    last, call = state.last_call, usage
    if usage.calls or usage.known_cost_usd:
        # An agent may report tokens on one line and dollars on the next.
        if state.external and state.awaiting is None and account in last and not usage.calls:
            call = last[account] + usage
        last = {**last, account: call}
    return with_cut(state, {account: usage}).replace(last_call=last)


def with_cut(state: RunState, cut: Mapping[Any, Usage]) -> RunState:
    """Return the state with more usage by account, such as the estimate for calls that were running when a process ended."""
    more = {account: state.usage.get(account, Usage()) + usage for account, usage in cut.items()}
    return _count_usage(state.replace(usage={**state.usage, **more}, awaiting=None))


def _count_usage(state: RunState) -> RunState:
    """Return the state with the current usage in its budget."""
    total = state.spent()
    cents = None if total.cost_usd is None else round(total.cost_usd * 100, 6)
    return state.with_budget(token_estimate=total.known_tokens, cost_cents=cents)


_RUNNERS = re.compile(r"baseline|(?:round|critique|validate|audit|confirm|prove)-.*")


def is_runners(step: str) -> bool:
    """Return whether a step is one of the runner's own steps; an agent's plan must not contain these."""
    return _RUNNERS.fullmatch(step) is not None


def begun(state: RunState, step: str | None) -> RunState:
    """Return the state after a step of the runner started. A step that was open before was interrupted.

    A step of the agent's plan is pending again: the end of a turn does not prove that it is done.
    """
    current, pending = state.memory.current_step, state.memory.pending_steps
    if current is not None and not is_runners(current):
        pending = (current, *pending)
    return state.with_memory(current_step=step, pending_steps=pending).replace(seen="" if step else state.seen)


def ended(state: RunState, evidence: str = "") -> RunState:
    """Return the state after the current step is done, with its evidence: an observation, or the event itself."""
    current = state.memory.current_step
    if current is None:
        return state
    step = current if is_runners(current) else f"round-{state.round}"
    return _completed(begun(state, None), {step: evidence or state.seen or f"e{state.memory.version + 1}"})


def _completed(state: RunState, steps: dict[str, str]) -> RunState:
    """Return the state with completed steps and their evidence; the newest are kept."""
    before = (step for step in state.memory.completed_steps if step not in steps)
    done = (*before, *steps)[-KEPT:]
    evidence = {**state.memory.step_evidence, **steps}
    return state.with_memory(completed_steps=done, step_evidence={step: evidence[step] for step in done})


def planned(state: RunState, event: events.PlanProposed) -> RunState:
    """Return the state with the agent's plan, which replaces the one before it except for completed steps."""
    done = _completed(state, event.completed)
    current = event.current or done.memory.current_step
    if current in event.completed:
        current = f"round-{state.round}" if state.round else None
    left = (step for step in event.pending if step != current and step not in event.completed)
    runners = (step for step in done.memory.pending_steps if is_runners(step))
    pending = tuple(dict.fromkeys((*left, *runners)))
    return done.with_memory(current_step=current, pending_steps=pending, proposed_stop=event.stop_reason)


def decided(state: RunState, verdict: GoalVerdict) -> RunState:
    """Count the round, with this verdict; it is not complete if a person refused the completion of this snapshot."""
    refused = state.completion
    if verdict.complete and refused is not None and refused.refused:
        verdict = verdict.model_copy(update={"complete": False, "missing": _refusal(refused)})
    feedback = feedback_of(verdict, state.validators)
    now = count_round(state, passed=verdict.complete, feedback=feedback, score=verdict.score)
    return now.replace(verdict=verdict, stall=_stalled(now, verdict))


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
    counted = state.replace(iterations=number, counted=state.round, attempts=attempts)
    return counted.with_budget(iteration_count=number)


def _stalled(state: RunState, verdict: GoalVerdict) -> Stall:
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


def approval_requested(state: RunState, event: events.ApprovalRequested, at: str) -> RunState:
    """Return the state with an approval request of the time `at` (ISO 8601). It replaces an older one for the same action."""
    key = "kind" if event.kind in ("complete", "checks") else "tool_call_id"
    state = withdrawn(state, lambda item: getattr(item, key) == getattr(event, key))
    same = {name: getattr(event, name) for name in Approval.model_fields.keys() & type(event).model_fields.keys()}
    approval = Approval(id=event.approval_id, requested_at=at, **same)
    return state.replace(approvals=(*state.approvals, approval)[-KEPT:], requested=state.requested + 1)


def withdrawn(state: RunState, about: Callable[[Approval], bool]) -> RunState:
    """Return the state with the waiting approvals for which `about` is true withdrawn."""
    return state.with_approvals(lambda item: item.decision is None and about(item), decision="withdrawn")


def approval_recorded(state: RunState, event: events.ApprovalRecorded, at: str) -> RunState:
    """Return the state after a decision. Only the first decision on an approval counts.

    A denial stops the working memory. (Source: apply_event of Goals and State.)
    """
    about = next((item for item in state.approvals if item.id == event.approval_id), None)
    refs = (*state.memory.approval_refs, event.approval_id)[-KEPT:]
    # Without the agent's versions of the checks, the round is red and the run goes on.
    goes_on = state.plan.approvals.on_deny != "stop" or (about is not None and about.kind == "checks")
    stop = "blocked" if event.decision != "approved" and not goes_on else None
    state = state.with_memory(approval_refs=refs, stop_reason=stop)
    if about is None or about.decision is not None:
        return state
    given = event.model_dump(include={"decision", "by", "reason", "guarded"})
    decision = about.model_copy(update={**given, "decided_at": at})
    if event.decision == "approved" and not event.guarded:
        state = state.with_label(Label.UNGUARDED)
    by = f" by {decision.by}" if decision.by else ""
    words = "has expired" if decision.decision == "expired" else f"was {decision.decision}{by}"
    approvals = tuple(decision if item.id == decision.id else item for item in state.approvals)
    state = _with_message(state.replace(approvals=approvals), f"{decision.id} {words}")
    if decision.kind == "checks":
        return _checks_decided(state, decision)
    if decision.kind == "complete" and decision.refused:
        return _refused(state, decision)
    if decision.kind == "complete" and event.changed and event.snapshot is not None:
        # The workspace changed after the approval: it is checked, and approved, again.
        return state.replace(phase=state.unchecked, snapshot=event.snapshot)
    return state


def _refused(state: RunState, approval: Approval) -> RunState:
    """Return the state after a refused completion: the round failed, and the person's reason is the feedback."""
    if state.verdict is None:
        return state
    verdict = state.verdict.model_copy(update={"complete": False, "missing": _refusal(approval)})
    last = [item.model_copy(update={"passed": False, "feedback": verdict.missing}) for item in state.attempts[-1:]]
    return state.replace(verdict=verdict, attempts=(*state.attempts[:-1], *last))


def _refusal(approval: Approval) -> str:
    """Return the feedback about a refused completion."""
    decision = f"{approval.decision}: {approval.reason}" if approval.reason else str(approval.decision)
    return f"the owner did not accept the result ({decision})"


def _checks_decided(state: RunState, approval: Approval) -> RunState:
    """Return the state after a decision on changed checks."""
    changed = state.changed_checks
    if changed is None or approval.snapshot != changed.key:
        return state
    if approval.decision != "approved":
        return not_accepted(state, changed, approval)
    if state.plan.has_judge:
        # The judge needs the accepted results as observations: the validators run with these versions.
        place = "left" if state.phase is Phase.ENDED else "phase"
        return state.replace(changed_checks=None, **{place: Phase.WORKED})
    labels = (*state.check_labels, Label.CHECKS_CHANGED.about(", ".join(changed.paths)))
    accepted = state.replace(validators=changed.results, changed_checks=None, check_labels=labels)
    return decided(accepted, verdict_of(changed.results)) if accepted.decided_by_validators else accepted


def not_accepted(state: RunState, changed: events.ChangedChecks, approval: Approval) -> RunState:
    """Return the state in which the agent's versions of the checks were refused: the round fails."""
    reason = f" ({approval.reason})" if approval.reason else ""
    verdict = verdict_of(state.validators, f"Your changes to {', '.join(changed.paths)} were not accepted{reason}.")
    return decided(state.replace(changed_checks=None), verdict)


def asked(state: RunState, questions: tuple[str, ...]) -> RunState:
    """Return the state with more open questions, each once."""
    return state.with_memory(open_questions=tuple(dict.fromkeys((*state.memory.open_questions, *questions))))


def answered(state: RunState, event: events.QuestionAnswered) -> RunState:
    """Return the state with the question closed; the answer is part of the next prompt."""
    left = tuple(question for question in state.memory.open_questions if question != event.question)
    closed = state.with_memory(open_questions=left).with_evidence(
        [event.evidence_ref], new=event.observation is not None
    )
    closed = _with_message(closed, f"the question was answered{f' by {event.by}' if event.by else ''}")
    if event.observation is None:  # a tool result contained the answer
        return closed
    interruption = state.interruption or Interruption()
    answers = (*interruption.answers, (event.question, event.answer))
    return closed.replace(interruption=interruption.model_copy(update={"answers": answers}))


def _with_message(state: RunState, decision: str) -> RunState:
    """Return the state with a message about a decision and what still waits, if the run ended waiting for a person."""
    if state.stop_reason not in (StopReason.APPROVAL_REQUIRED, StopReason.QUESTION_OPEN):
        return state
    run = state.goal.run_id
    left = [f"{item.id} still waits for a person: goal approve {run} {item.id}" for item in state.waiting]
    left += [f'still open: {question}\ngoal answer {run} "..."' for question in state.memory.open_questions]
    return state.replace(message="\n".join([decision, *(left or [f"goal resume {run} goes on"])]))
