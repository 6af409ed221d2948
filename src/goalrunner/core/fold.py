"""`apply(state, record)`: the only way a state changes. Pure; applying a record twice changes nothing."""

from __future__ import annotations

from collections import Counter
from typing import Literal, assert_never

from goalrunner.core import events, progress
from goalrunner.core.critique import Critique
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Account, Record
from goalrunner.core.observation import UNASKED
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.core.progress import (
    count_usage,
    kept,
    labelled,
    planned,
    resumed,
    spent,
    with_budget,
    with_evidence,
    with_fields,
    with_memory,
)
from goalrunner.core.run_state import AuditFailures, MemoryStop, Phase, RunState, WorkingMemory
from goalrunner.core.state_updates import (
    REPORTED_LABEL,
    UNASKED_LABEL,
    answered,
    approval_recorded,
    approval_requested,
    asked,
    baselined,
    begun,
    checks_decided,
    count_round,
    decided,
    outdated,
    validated,
    withdrawn,
)

RecordStatus = Literal["active", "blocked", "waiting_for_approval", "completed", "cancelled", "failed"]

_RECORDS: dict[GoalStatus, tuple[RecordStatus, MemoryStop]] = {
    GoalStatus.COMPLETE: ("completed", "success"),
    # A person lifts a limit: the goal is blocked until then, not failed.
    GoalStatus.CAPPED: ("blocked", "budget_exhausted"),
    GoalStatus.BLOCKED: ("blocked", "blocked"),
    GoalStatus.CANCELLED: ("cancelled", "cancelled"),
    GoalStatus.FAILED: ("failed", "failed"),
}


def record_status(reason: StopReason) -> tuple[RecordStatus, MemoryStop]:
    """Return the status of the goal record and the stop reason of the working memory for the end of a run."""
    if reason is StopReason.APPROVAL_REQUIRED:
        return "waiting_for_approval", "approval_required"
    return _RECORDS[reason.status]


def _ended(state: RunState, event: events.RunEnded) -> RunState:
    record, stop = record_status(event.stop_reason)
    memory = with_memory(state, stop_reason=stop)
    if event.status is GoalStatus.COMPLETE:
        memory = with_memory(memory, current_step=None)
    return count_usage(
        with_fields(
            memory,
            goal=state.goal.model_copy(update={"status": record}),
            phase=Phase.ENDED,
            left=state.left if state.phase is Phase.ENDED else state.phase,
            status=event.status,
            stop_reason=event.stop_reason,
            message=event.message,
            signal=event.signal if event.status is GoalStatus.CANCELLED else state.signal,
        )
    )


def apply(state: RunState | None, record: Record) -> RunState:
    """Return the state after `record`. Raise RecordError for a missing event or a misplaced start."""
    event = record.event
    if state is None:
        if not isinstance(event, events.GoalCreated):
            raise RecordError(f"the log begins with {event.type}, not with goal_created")
        return _created(event, record)
    if record.seq <= state.memory.version:
        return state
    if record.seq != state.memory.version + 1:
        raise RecordError(f"event {record.seq} follows event {state.memory.version}: events between them are missing")
    if isinstance(event, events.MemoryPromoted):
        # It may come long after the end, of which it changes nothing: not even when that was.
        return with_memory(state, version=record.seq)
    changed = _changed(state, record)
    if changed.phase is Phase.ENDED and state.phase is not Phase.ENDED:
        changed = with_fields(changed, ended_at=record.at)
    moved: dict[str, object] = {"version": record.seq}
    if changed is not state:
        moved["pending_steps"] = progress.remaining(changed)
    seen = (getattr(event, "observation", None), *getattr(event, "observations", ()))
    if names := {name: item.id for item in seen if item is not None for name in item.names}:
        older = [(name, ref) for name, ref in changed.memory.evidence_names.items() if name not in names]
        moved["evidence_names"] = dict([*older, *names.items()][-_MOST_NAMES:])
    memory = changed.memory.model_copy(update=moved)
    goal = changed.goal.model_copy(update={"updated_at": record.at})
    return changed.model_copy(update={"memory": memory, "goal": goal, "elapsed": record.elapsed})


def _created(event: events.GoalCreated, record: Record) -> RunState:
    goal = event.goal
    memory = WorkingMemory(run_id=goal.run_id, goal_id=goal.goal_id, constraints=goal.constraints, version=record.seq)
    state = RunState(goal=goal, memory=memory, plan=event.plan, elapsed=record.elapsed)
    return with_memory(state, pending_steps=progress.remaining(state))


_MOST_NAMES = 100
_OF_THE_START = (
    "models", "workspace", "sandbox", "check_environment", "agent_command", "goal_file", "handed", "notes", "labels",
)  # fmt: skip
"""Fields of `RunStarted` that the state has as well."""


def _changed(state: RunState, record: Record) -> RunState:  # noqa: C901  one arm per event, closed by assert_never
    event = record.event
    match event:
        case events.GoalCreated():
            raise RecordError("a second goal_created in one log")
        case events.RunStarted():
            started = with_budget(state, deadline_at=event.deadline_at)
            about = {name: getattr(event, name) for name in _OF_THE_START}
            return with_fields(started, external=bool(event.agent_command), **about)
        case events.RunResumed():
            return resumed(state, event)
        case events.StepStarted():
            return progress.begun(state, event.step_id)
        case events.RoundStarted():
            return _round_started(state, event)
        case events.MessageRecorded():
            return _heard(state, event)
        case events.ToolCalled():
            return with_fields(begun(state, event.tool_call_id), calling=event.tool_call_id, awaiting=_in_flight(state))
        case events.SnapshotTaken():
            return with_fields(state, base=event.snapshot) if event.moment == "start" else state
        case events.StartKept():
            return with_fields(state, kept=event.files)
        case events.BaselineTaken():
            return baselined(state, event)
        case events.BlockReported():
            return with_fields(state, block_report=event.reason)
        case events.ToolResultRecorded():
            return _tool_result(state, event)
        case events.UsageRecorded():
            return spent(state, event.account, event.usage)
        case events.RoundFinished():
            return _round_finished(state, event)
        case events.CritiqueStarted() | events.CritiqueFinished() | events.RefinementStarted():
            return _criticized(state, event)
        case events.ValidatorsFinished():
            return validated(state, event)
        case events.AuditStarted():
            return with_fields(progress.begun(state, f"audit-{event.round}"), awaiting="judge")
        case events.AuditFailed():
            return _audit_failed(state, event)
        case events.VerdictRecorded():
            return _judged(state, event)
        case events.WorkspaceChanged():
            return outdated(state, event)
        case events.ConfirmationRecorded():
            return _confirmed(state, event)
        case events.QuestionOpened():
            return asked(state, (event.question,))
        case events.QuestionAnswered():
            return answered(state, event)
        case events.ApprovalRequested():
            return with_fields(approval_requested(state, event, record.at), awaiting=_in_flight(state))
        case events.ApprovalRecorded():
            return checks_decided(approval_recorded(state, event, record.at), event)
        case events.PlanProposed():
            return planned(state, event)
        case events.SecretsReplaced():
            return with_fields(state, redacted=dict(Counter(state.redacted) + Counter(event.counts)))
        case events.MemoryPromoted() | events.SessionOpened() | events.AgentRan() | events.NoteAdded():
            return state
        case events.RunEnded():
            return _ended(state, event)
        case _:
            assert_never(event)


def _criticized(
    state: RunState, event: events.CritiqueStarted | events.CritiqueFinished | events.RefinementStarted
) -> RunState:
    match event:
        case events.CritiqueStarted():
            asked_model = "critic" if "critic" in state.models else None
            return with_fields(progress.begun(state, f"critique-{event.round}"), awaiting=asked_model)
        case events.CritiqueFinished():
            said = Critique(score=event.score, feedback=event.feedback, problem=event.problem)
            return with_fields(progress.ended(state), critique=said, awaiting=None)
        case events.RefinementStarted():
            working = with_fields(progress.begun(state, f"round-{event.round}"), refinements=event.number)
            return _working(with_fields(working, phase=Phase.WORKING, block_report=""))


def _audit_failed(state: RunState, event: events.AuditFailed) -> RunState:
    count = getattr(state.audit_failures, event.kind) + 1
    failures: AuditFailures = state.audit_failures.model_copy(update={event.kind: count, "detail": event.detail})
    failed = with_fields(state, audit_failures=failures)
    # An answer that cannot be read is asked for again; a judge that cannot be reached ends the run.
    return failed if event.kind == "parse" else count_round(failed, passed=False)


def _judged(state: RunState, event: events.VerdictRecorded) -> RunState:
    unstable = state.unstable + 1 if event.stale_only else 0
    unread = state.unread + 1 if event.verdict.source == "fallback" else 0
    done = progress.ended(state, progress.audit_evidence(state, event.verdict))
    judged = with_fields(asked(done, event.verdict.questions), phase=Phase.JUDGED, goal=_bound(state, event))
    judged = with_fields(judged, unstable=unstable, unread=unread, leaked=(), awaiting=None)
    return decided(judged, event.verdict)


def _round_started(state: RunState, event: events.RoundStarted) -> RunState:
    working = withdrawn(with_memory(progress.begun(state, f"round-{event.round}"), proposed_stop=""), lambda _: True)
    working = with_fields(working, phase=Phase.WORKING, round=event.round, validators=(), refusal="", block_report="")
    working = with_fields(working, leaked=(), leaks=0, obstacle="", obstacles=0, check_labels=(), changed_checks=None)
    return _working(with_fields(working, critique=None, refinements=0))


def _working(state: RunState) -> RunState:
    """Return the state in which a prompt is about to go to the agent."""
    return with_fields(state, prompted=False, calling=None, awaiting=None)


def _round_finished(state: RunState, event: events.RoundFinished) -> RunState:
    output = event.response.output if event.response else None
    seen = with_evidence(state, [event.response.id] if event.response else [])
    # Approvals of its tool calls are void after a turn.
    over = withdrawn(progress.ended(seen), lambda item: item.kind not in ("complete", "checks"))
    over = with_fields(over, phase=Phase.WORKED, snapshot=event.snapshot, said=event.said, round_ended=True)
    over = with_fields(over, critique=None, changes=event.total)
    # What checks write between two rounds, into `outputs` above all, is no change of the agent's.
    content = state.content if event.idle and state.content else event.snapshot.id if event.snapshot else ""
    return with_fields(
        over, response=output.sha256 if output else "", lingering=event.left, content=content, awaiting=None
    )


def _in_flight(state: RunState) -> Account | None:
    """Whose call a crash would cut while a tool runs, or a person is waited for: the built-in agent's model is not being
    asked then, but an external agent says what a turn used when it is over."""
    return state.awaiting if state.external else None


def _heard(state: RunState, event: events.MessageRecorded) -> RunState:
    """After a prompt or a tool's answer the agent's model is asked."""
    match event.role:
        case "user" if state.phase is Phase.WORKING:
            return with_fields(state, prompted=True, awaiting="agent", interruption=None)
        case "tool" if state.phase is Phase.WORKING and state.calling is None:
            return with_fields(state, awaiting="agent")
        case _:
            return state


def _tool_result(state: RunState, event: events.ToolResultRecorded) -> RunState:
    refs = kept(state.memory.tool_result_refs, event.tool_call_id)
    if event.observation.reported_by and UNASKED in event.observation.facts:
        state = labelled(state, UNASKED_LABEL)
    if event.observation.reported_by and state.plan.has_judge and not state.plan.validators:
        state = labelled(state, REPORTED_LABEL) if state.plan.deliverable == "workspace" else state
    seen = with_fields(with_evidence(with_memory(state, tool_result_refs=refs), [event.evidence_ref]), calling=None)
    awaits = event.observation.reported_by and state.phase is Phase.WORKING
    return with_fields(seen, awaiting="agent") if awaits else seen


def _confirmed(state: RunState, event: events.ConfirmationRecorded) -> RunState:
    found = {"confirmed": event.reason or event.claim} if event.confirmed else {"refuted": event.claim}
    return with_fields(progress.ended(state), phase=Phase.CONFIRMED, **found)


def _bound(state: RunState, event: events.VerdictRecorded) -> events.GoalRecord:
    """Return the goal; without criteria of its own, those that audits derive bind all later audits."""
    if state.goal.success_criteria:
        return state.goal
    derived = (item.criterion for item in event.verdict.criteria if item.criterion not in state.goal.constraints)
    criteria = tuple(dict.fromkeys((*state.goal.derived_criteria, *derived)))
    return state.goal.model_copy(update={"derived_criteria": criteria})
