"""Changes of a state: its fields, usage by account, steps of the runner and of the agent's plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from goalrunner.core import events
from goalrunner.core.observation import Observation
from goalrunner.core.outcome import GoalStatus, StopReason, Usage
from goalrunner.core.run_state import KEPT, Approval, Interruption, MemoryStop, Phase, RunState
from goalrunner.core.verdict import GoalVerdict


def with_fields(state: RunState, **changes: Any) -> RunState:
    """Return the state with other fields."""
    return state.model_copy(update=changes)


def reset(state: RunState, fields: str) -> RunState:
    """Return the state in which these fields, a list of words, have their defaults."""
    return with_fields(state, **{name: RunState.model_fields[name].default for name in fields.split()})


def with_memory(state: RunState, **changes: Any) -> RunState:
    """Return the state with other fields of its working memory."""
    return with_fields(state, memory=state.memory.model_copy(update=changes))


def with_budget(state: RunState, **changes: Any) -> RunState:
    """Return the state with other fields of its budget."""
    return with_memory(state, budget_state=state.memory.budget_state.model_copy(update=changes))


def with_evidence(state: RunState, ids: Sequence[str], *, counted: bool = True) -> RunState:
    """Return the state with more references to evidence; `counted` where they are new observations."""
    noted = with_memory(state, evidence_refs=(*state.memory.evidence_refs, *ids)[-KEPT:])
    number = state.observations + (len(ids) if counted else 0)
    return with_fields(noted, observations=number, seen=ids[-1] if ids else state.seen)


def with_approvals(state: RunState, which: Callable[[Approval], bool], **changes: object) -> RunState:
    """Return the state with other fields of some approvals."""
    changed = tuple(item.model_copy(update=changes) if which(item) else item for item in state.approvals)
    return with_fields(state, approvals=changed) if changed != state.approvals else state


def labelled(state: RunState, label: str) -> RunState:
    """Return the state with a label, once."""
    return with_fields(state, labels=tuple(dict.fromkeys((*state.labels, label))))


def spent(state: RunState, account: str, usage: Usage) -> RunState:
    """Return the state after a model call, or a part of an agent's turn, reported its usage."""
    last, call = state.last_call, usage
    if usage.calls or usage.known_cost_usd:
        # An agent may report tokens on one line and dollars on the next.
        if state.external and state.awaiting is None and account in last and not usage.calls:
            call = last[account] + usage
        last = {**last, account: call}
    return with_fields(with_cut(state, {account: usage}), last_call=last)


def with_cut(state: RunState, cut: Mapping[Any, Usage]) -> RunState:
    """Return the state with more usage by account, such as the estimate for calls that were running when a process ended."""
    more = {account: state.usage.get(account, Usage()) + usage for account, usage in cut.items()}
    return count_usage(with_fields(state, usage={**state.usage, **more}, awaiting=None))


def accounts_of(state: RunState, *, over: bool | None = None) -> dict[str, Usage]:
    """Return the usage by account for display.

    An external agent reports its usage at the end of its turn, so that of an interrupted turn is unknown. `over` tells
    whether the run has stopped; None: as its status says.
    """
    over = state.status is not GoalStatus.RUNNING if over is None else over
    if not (over and state.external and state.awaiting == "agent"):
        return dict(state.usage)
    return {**state.usage, "agent": state.usage.get("agent", Usage()) + Usage.unknown()}


def total_of(state: RunState, *, over: bool | None = None) -> Usage:
    """Return the sum of `accounts_of`."""
    return sum(accounts_of(state, over=over).values(), Usage())


def count_usage(state: RunState) -> RunState:
    """Return the state with the current usage in its budget."""
    total = total_of(state)
    cents = None if total.cost_usd is None else round(total.cost_usd * 100, 6)
    return with_budget(state, token_estimate=total.known_tokens, cost_cents=cents)


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
    return with_fields(with_memory(state, current_step=step, pending_steps=pending), seen="" if step else state.seen)


def ended(state: RunState, evidence: str = "") -> RunState:
    """Return the state after the current step is done, with its evidence: an observation, or the event itself."""
    current = state.memory.current_step
    if current is None:
        return state
    step = current if is_runners(current) else f"round-{state.round}"
    return completed(begun(state, None), {step: evidence or state.seen or f"e{state.memory.version + 1}"})


def completed(state: RunState, steps: dict[str, str]) -> RunState:
    """Return the state with completed steps and their evidence; the newest are kept."""
    before = (step for step in state.memory.completed_steps if step not in steps)
    done = (*before, *steps)[-KEPT:]
    evidence = {**state.memory.step_evidence, **steps}
    return with_memory(state, completed_steps=done, step_evidence={step: evidence[step] for step in done})


def remaining(state: RunState) -> tuple[str, ...]:
    """Return the pending steps: those of the agent's plan, then the runner's. None are left after completion."""
    memory = state.memory
    if state.phase is Phase.ENDED:
        return () if memory.stop_reason == "success" else memory.pending_steps
    planned = (step for step in memory.pending_steps if not is_runners(step))
    return tuple(dict.fromkeys(step for step in (*planned, *_upcoming(state)) if step != memory.current_step))


def _upcoming(state: RunState) -> list[str]:
    """Return the runner's next steps until the goal is proven or the next round starts."""
    number, plan = state.round, state.plan
    again = [f"round-{number + 1}"]
    audit = [f"audit-{number}"] if plan.has_judge else []
    match state.phase:
        case Phase.READY:
            return [*(["baseline"] if plan.takes_baseline else []), *again]
        case Phase.BASELINED:
            is_green = state.baseline is not None and state.baseline.standing == "green"
            return audit if is_green and not plan.needs_round else again
        case Phase.WORKING | Phase.WORKED:
            critique = [f"critique-{number}"] if plan.critic and state.critique is None else []
            return [*critique, *([f"validate-{number}"] if plan.validators else []), *audit]
        case Phase.VALIDATED if not state.decided_by_validators:
            return audit
        case Phase.VALIDATED | Phase.JUDGED:
            return [] if state.verdict is not None and state.verdict.complete else again
        case _:
            return again if state.phase is Phase.CONFIRMED and not state.confirmed else []


def audit_evidence(state: RunState, verdict: GoalVerdict) -> str:
    """Return the evidence of an audit: the first observation that it cites, else the newest one."""
    known = {f"o{number}" for number in range(1, state.observations + 1)}
    return next((name for name in verdict.cited if name in known), "".join(state.memory.evidence_refs[-1:]))


Find = Callable[[str], Observation | None]
"""Return the observation of that id, or None."""


def settle_plan(plan: events.PlanProposed, find: Find) -> tuple[events.PlanProposed, str]:
    """Return the accepted part of an agent's plan, and the reply for the agent.

    The reply contains none of the agent's words, because it becomes an observation that a judge may quote.
    """
    refusals = {step: why for step, shown in plan.completed.items() if (why := _refusal(step, shown, find))}
    numbers = {step: number for number, step in enumerate(plan.completed, start=1)}
    lines = [f"- completed step {numbers[step]} is not accepted: {why}" for step, why in refusals.items()]
    if any(map(is_runners, (*plan.pending, plan.current))):
        lines.append("- names such as round-1 and audit-1 are the runner's own steps; they are left out")
    accepted = {
        "current": "" if is_runners(plan.current) else plan.current,
        "pending": tuple(step for step in plan.pending if not is_runners(step)),
        "completed": {step: shown for step, shown in plan.completed.items() if step not in refusals},
        "refused": tuple(refusals),
    }
    settled = plan.model_copy(update=accepted)
    head = f"The plan is kept: {len(settled.completed)} completed, {len(settled.pending)} pending."
    return settled, "\n".join([head, *lines]) + "\n"


def _refusal(step: str, shown: str, find: Find) -> str:
    if is_runners(step):
        return "its name is one of the runner's own"
    if (observation := find(shown)) is None:
        return f"there is no result {shown}"
    return "" if observation.shows else f"{shown} shows nothing that was done"


def planned(state: RunState, event: events.PlanProposed) -> RunState:
    """Return the state with the agent's plan, which replaces the one before it except for completed steps."""
    done = completed(state, event.completed)
    current = event.current or done.memory.current_step
    if current in event.completed:
        current = f"round-{state.round}" if state.round else None
    left = (step for step in event.pending if step != current and step not in event.completed)
    runners = (step for step in done.memory.pending_steps if is_runners(step))
    pending = tuple(dict.fromkeys((*left, *runners)))
    return with_memory(done, current_step=current, pending_steps=pending, proposed_stop=event.stop_reason)


RecordStatus = Literal["active", "blocked", "waiting_for_approval", "completed", "cancelled", "failed"]

_RECORDS: dict[GoalStatus, tuple[RecordStatus, MemoryStop]] = {
    GoalStatus.COMPLETE: ("completed", "success"),
    # A person lifts a limit: the goal is blocked until then, not failed.
    GoalStatus.CAPPED: ("blocked", "budget_exhausted"),
    GoalStatus.BLOCKED: ("blocked", "blocked"),
    GoalStatus.CANCELLED: ("cancelled", "cancelled"),
    GoalStatus.FAILED: ("failed", "failed"),
}
FINAL = frozenset({StopReason.SATISFIED, StopReason.CANCELLED})
"""Stop reasons after which a run cannot be resumed."""
NOT_CHECKED = "leaks obstacle obstacles"
"""Fields of a state in which something kept the checks from running."""


def record_status(reason: StopReason) -> tuple[RecordStatus, MemoryStop]:
    """Return the status of the goal record and the stop reason of the working memory for the end of a run."""
    if reason is StopReason.APPROVAL_REQUIRED:
        return "waiting_for_approval", "approval_required"
    return _RECORDS[reason.status]


def over(state: RunState, event: events.RunEnded) -> RunState:
    """Return the state of a run that has ended."""
    record, stop = record_status(event.stop_reason)
    step = None if event.status is GoalStatus.COMPLETE else state.memory.current_step
    ended = with_fields(
        with_memory(state, stop_reason=stop, current_step=step),
        goal=state.goal.model_copy(update={"status": record}),
        phase=Phase.ENDED,
        left=state.left if state.phase is Phase.ENDED else state.phase,
        status=event.status,
        stop_reason=event.stop_reason,
        message=event.message,
        signal=event.signal if event.status is GoalStatus.CANCELLED else state.signal,
    )
    return count_usage(ended)


def resumed(state: RunState, event: events.RunResumed) -> RunState:
    """Return the state of a resumed run; a run that cannot be resumed stays as it is."""
    if state.stop_reason in FINAL:
        return state
    if state.stop_reason is StopReason.DENIED:  # the run does not end with the same denial again
        state = with_approvals(state, lambda item: item.refused, told=True)
    interruption = state.interruption or Interruption()
    changed = tuple(dict.fromkeys((*interruption.changed, *event.changed)))
    interruption = interruption.model_copy(update={"note": event.note or interruption.note, "changed": changed})
    place = _place(state, event)
    state = with_budget(with_memory(with_cut(state, event.in_flight), stop_reason=None), deadline_at=event.deadline_at)
    return with_fields(
        reset(state, f"status stop_reason message signal ended_at stall unstable unread {NOT_CHECKED}"),
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
    decided, verdict = phase in (Phase.JUDGED, Phase.CONFIRMED), state.verdict
    if (state.obstacle and phase is Phase.VALIDATED) or (state.leaked and phase in (Phase.WORKED, Phase.VALIDATED)):
        # A person may have removed what kept the validators from running, or what changed the workspace.
        return {"phase": Phase.WORKED, "snapshot": event.snapshot or state.snapshot}
    if phase is Phase.BASELINED and state.round == 0 and (state.phase is Phase.ENDED or event.changed):
        return {"phase": Phase.READY}  # a person may have corrected what the baseline checks
    if phase is Phase.CONFIRMED and state.confirmed:
        return {"phase": Phase.JUDGED, "confirmed": "", "refuted": verdict.blocked if verdict is not None else ""}
    proof = phase in (Phase.WORKED, Phase.VALIDATED) or (decided and verdict is not None and verdict.complete)
    if proof and event.changed:  # the files are different now
        return {"phase": state.unchecked, "snapshot": event.snapshot}
    return {"phase": phase}
