"""`apply(state, record)`: the only way a state changes. Pure; applying a record twice changes nothing."""

from __future__ import annotations

from typing import Any, assert_never

from goalrunner import events
from goalrunner.errors import RecordError
from goalrunner.events import Record
from goalrunner.model.outcome import GoalAttempt, GoalStatus, StopReason
from goalrunner.model.usage import Usage
from goalrunner.model.verdict import GoalVerdict, verdict_of
from goalrunner.state.run_state import (
    KEPT,
    AuditFailures,
    Baseline,
    BudgetState,
    Phase,
    Proof,
    RunState,
    Stall,
    WorkingMemory,
)
from goalrunner.state.stops import memory_stop, record_status


def apply(state: RunState | None, record: Record) -> RunState:
    """The state after `record`. The first record must be goal_created; raises RecordError for a gap or a stray start."""
    event = record.event
    if state is None:
        if not isinstance(event, events.GoalCreated):
            raise RecordError(f"the log begins with {event.type}, not with goal_created")
        return _created(event, record)
    if record.seq <= state.memory.version:
        return state
    if record.seq != state.memory.version + 1:
        raise RecordError(f"event {record.seq} follows event {state.memory.version}: events between them are missing")
    changed = _changed(state, event)
    memory = changed.memory.model_copy(update={"version": record.seq})
    goal = changed.goal.model_copy(update={"updated_at": record.at})
    return changed.model_copy(update={"memory": memory, "goal": goal, "elapsed": record.elapsed})


def _created(event: events.GoalCreated, record: Record) -> RunState:
    goal = event.goal
    memory = WorkingMemory(run_id=goal.run_id, goal_id=goal.goal_id, constraints=goal.constraints, version=record.seq)
    return RunState(goal=goal, memory=memory, plan=event.plan, criteria=goal.success_criteria, elapsed=record.elapsed)


def _changed(state: RunState, event: events.Event) -> RunState:  # noqa: C901  one arm per event, closed by assert_never
    match event:
        case events.GoalCreated():
            raise RecordError("a second goal_created in one log")
        case events.RunStarted():
            started = _budget(state, deadline_at=event.deadline_at)
            return _set(started, models=event.models, workspace=event.workspace, labels=event.labels)
        case events.StepStarted():
            return _begin(state, event.step_id)
        case events.RoundStarted():
            return _round_started(state, event)
        case events.MessageRecorded() | events.ToolCalled():
            return state
        case events.SnapshotTaken():
            return _set(state, base=event.snapshot) if event.moment == "start" else state
        case events.BaselineTaken():
            return _baselined(state, event)
        case events.BlockReported():
            return _set(state, block_report=event.reason)
        case events.ToolResultRecorded():
            return _tool_result(state, event)
        case events.UsageRecorded():
            return _spent(state, event.account, event.usage)
        case events.RoundFinished():
            seen = [event.response.id] if event.response else []
            return _evidence(_set(_end_step(state), phase=Phase.WORKED, snapshot=event.snapshot), seen)
        case events.ValidatorsFinished():
            return _validated(state, event)
        case events.AuditStarted():
            return _begin(state, f"audit-{event.round}")
        case events.AuditFailed():
            count = getattr(state.audit_failures, event.kind) + 1
            failures: AuditFailures = state.audit_failures.model_copy(update={event.kind: count})
            failed = _set(state, audit_failures=failures)
            # An answer that cannot be read is asked for again; a judge that cannot be reached ends the run.
            return failed if event.kind == "parse" else _count(failed, passed=False)
        case events.VerdictRecorded():
            unstable = state.unstable + 1 if event.stale_only else 0
            judged = _set(_end_step(state), phase=Phase.JUDGED, criteria=_bound(state, event), unstable=unstable)
            return _decided(judged, event.verdict)
        case events.ProofFinished():
            return _proved(state, event)
        case events.ConfirmationRecorded():
            return _confirmed(state, event)
        case events.QuestionOpened():
            return _memory(state, open_questions=(*state.memory.open_questions, event.question))
        case events.QuestionAnswered():
            left = tuple(question for question in state.memory.open_questions if question != event.question)
            return _evidence(_memory(state, open_questions=left), [event.evidence_ref], counted=False)
        case events.ApprovalRecorded():
            stop = None if event.decision == "approved" else "blocked"
            refs = _kept(state.memory.approval_refs, event.approval_id)
            return _memory(state, approval_refs=refs, stop_reason=stop)
        case events.Completed():
            return _ended(_end_step(state), GoalStatus.COMPLETE, StopReason.SATISFIED, event.result_ref)
        case events.Blocked():
            return _ended(state, GoalStatus.BLOCKED, event.stop_reason, event.reason)
        case events.Capped():
            return _ended(state, GoalStatus.CAPPED, event.stop_reason, event.reason)
        case events.Cancelled():
            ended = _ended(state, GoalStatus.CANCELLED, event.stop_reason, event.reason)
            return _set(ended, signal=event.signal)
        case events.Failed():
            return _ended(state, GoalStatus.FAILED, event.stop_reason, event.reason)
        case _:
            assert_never(event)


def _round_started(state: RunState, event: events.RoundStarted) -> RunState:
    steps = [f"validate-{event.round}"] if state.plan.validators else []
    steps += [f"audit-{event.round}"] if state.plan.has_judge else []
    begun = _memory(_begin(state, f"round-{event.round}"), pending_steps=tuple(steps))
    return _set(begun, phase=Phase.WORKING, round=event.round, validators=(), drift=(), proof=None, block_report="")


def _tool_result(state: RunState, event: events.ToolResultRecorded) -> RunState:
    refs = _kept(state.memory.tool_result_refs, event.tool_call_id)
    return _evidence(_memory(state, tool_result_refs=refs), [event.evidence_ref])


def _baselined(state: RunState, event: events.BaselineTaken) -> RunState:
    seen = _evidence(_end_step(state), [observation.id for observation in event.observations])
    baseline = Baseline(standing=event.standing, reason=event.reason, results=event.results)
    green = event.standing == "green"
    taken = _set(seen, phase=Phase.BASELINED, baseline=baseline, validators=event.results, snapshot=state.base)
    # A baseline that decides is iteration 1.
    return _decided(taken, verdict_of(event.results)) if green and not state.plan.has_judge else taken


def _validated(state: RunState, event: events.ValidatorsFinished) -> RunState:
    ran = _evidence(_end_step(state), [observation.id for observation in event.observations])
    ran = _set(ran, phase=Phase.VALIDATED, validators=event.results, drift=event.drift, touched=event.touched)
    return _decided(ran, verdict_of(event.results, event.drift)) if ran.decided_by_validators else ran


def _proved(state: RunState, event: events.ProofFinished) -> RunState:
    """A red proof belongs to the same iteration: its attempt did not pass after all."""
    proof = Proof(
        passed=event.passed,
        feedback=event.feedback,
        reason=event.reason,
        restored=event.restored,
        results=event.results,
    )
    seen = _evidence(_end_step(state), [observation.id for observation in event.observations])
    proved = _set(seen, phase=Phase.PROVED, proof=proof)
    if event.passed or not state.attempts or state.verdict is None:
        return proved
    attempt = state.attempts[-1].model_copy(update={"passed": False, "feedback": event.feedback or None})
    verdict = state.verdict.model_copy(update={"complete": False, "missing": event.feedback})
    return _stalled(_set(proved, attempts=(*state.attempts[:-1], attempt), verdict=verdict))


def _confirmed(state: RunState, event: events.ConfirmationRecorded) -> RunState:
    ended = _set(_end_step(state), phase=Phase.CONFIRMED)
    return _set(ended, confirmed=event.reason or event.claim) if event.confirmed else _set(ended, refuted=event.claim)


def _bound(state: RunState, event: events.VerdictRecorded) -> tuple[str, ...]:
    """The criteria that bind: the goal's own, or all that audits derived so far. A later audit may add, never drop."""
    if state.goal.success_criteria:
        return state.criteria
    derived = (item.criterion for item in event.verdict.criteria if item.criterion not in state.goal.constraints)
    return tuple(dict.fromkeys((*state.criteria, *derived)))


def _decided(state: RunState, verdict: GoalVerdict) -> RunState:
    counted = _count(state, passed=verdict.complete, feedback=verdict.missing or None, score=verdict.score)
    return _stalled(_set(counted, verdict=verdict))


def _count(state: RunState, *, passed: bool, feedback: str | None = None, score: float = 0.0) -> RunState:
    """Count the round: an iteration is a round that was checked, judge reached or not."""
    number = state.iterations + 1
    attempt = GoalAttempt(attempt=number, passed=passed, feedback=feedback, score=score)
    counted = _set(state, iterations=number, attempts=(*state.attempts[-KEPT + 1 :], attempt))
    return _budget(_memory(counted, pending_steps=()), iteration_count=number)


def _stalled(state: RunState) -> RunState:
    """Compare the round with the one before: same snapshot, same signature of the checks, same `missing`."""
    if state.verdict is None or state.verdict.complete or state.snapshot is None:
        return _set(state, stall=Stall())
    checks = tuple((item.name, item.passed, item.reason, item.exit_code) for item in state.validators)
    key = repr((state.snapshot.id, checks, state.verdict.missing))
    rounds = state.stall.rounds + 1 if key == state.stall.key else 1
    return _set(state, stall=Stall(key=key, rounds=rounds))


def _spent(state: RunState, account: str, usage: Usage) -> RunState:
    accounts = {**state.usage, account: state.usage.get(account, Usage()) + usage}
    spent = _set(state, usage=accounts)
    cost = spent.total.cost_usd
    cents = None if cost is None else round(cost * 100, 6)
    return _budget(spent, token_estimate=spent.total.tokens, cost_cents=cents)


def _ended(state: RunState, status: GoalStatus, reason: StopReason, message: str) -> RunState:
    goal = state.goal.model_copy(update={"status": record_status(status, reason)})
    ended = _memory(state, stop_reason=memory_stop(status, reason))
    return _set(ended, goal=goal, phase=Phase.ENDED, status=status, stop_reason=reason, message=message)


def _begin(state: RunState, step: str) -> RunState:
    """A step begins; the one before it is over."""
    begun = _end_step(state)
    pending = tuple(name for name in begun.memory.pending_steps if name != step)
    return _memory(begun, current_step=step, pending_steps=pending)


def _end_step(state: RunState) -> RunState:
    step = state.memory.current_step
    if step is None:
        return state
    return _memory(state, current_step=None, completed_steps=_kept(state.memory.completed_steps, step))


def _evidence(state: RunState, ids: list[str], *, counted: bool = True) -> RunState:
    refs = state.memory.evidence_refs
    for identifier in ids:
        refs = _kept(refs, identifier)
    numbered = state.observations + (len(ids) if counted else 0)
    return _set(_memory(state, evidence_refs=refs), observations=numbered)


def _kept(refs: tuple[str, ...], new: str) -> tuple[str, ...]:
    return (*refs[-KEPT + 1 :], new)


def _budget(state: RunState, **changes: Any) -> RunState:
    budget: BudgetState = state.memory.budget_state.model_copy(update=changes)
    return _memory(state, budget_state=budget)


def _memory(state: RunState, **changes: Any) -> RunState:
    return _set(state, memory=state.memory.model_copy(update=changes))


def _set(state: RunState, **changes: Any) -> RunState:
    return state.model_copy(update=changes)
