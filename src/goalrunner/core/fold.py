"""`apply(state, record)`: the only way a state changes. Pure; applying a record twice changes nothing."""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from goalrunner.core import events, progress
from goalrunner.core import state_updates as updates
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Account, Record
from goalrunner.core.observation import UNASKED
from goalrunner.core.progress import reset, with_approvals, with_budget, with_evidence, with_fields, with_memory
from goalrunner.core.run_state import KEPT, Phase, RunState, WorkingMemory
from goalrunner.core.verdict import Critique

_MOST_NAMES = 100
_OF_THE_START = (
    "models", "workspace", "sandbox", "check_environment", "agent_command", "goal_file", "handed", "notes", "labels",
)  # fmt: skip
"""Fields of `RunStarted` that the state has as well."""


def apply(state: RunState | None, record: Record) -> RunState:
    """Return the state after `record`. Raise RecordError for a missing event or a misplaced start."""
    event = record.event
    if state is None:
        if not isinstance(event, events.GoalCreated):
            raise RecordError(f"the log begins with {event.type}, not with goal_created")
        goal = event.goal
        fields = {"run_id": goal.run_id, "goal_id": goal.goal_id, "constraints": goal.constraints}
        memory = WorkingMemory(**fields, version=record.seq)
        state = RunState(goal=goal, memory=memory, plan=event.plan, elapsed=record.elapsed)
        return with_memory(state, pending_steps=progress.remaining(state))
    if record.seq <= state.memory.version:
        return state
    if record.seq != state.memory.version + 1:
        raise RecordError(f"event {record.seq} follows event {state.memory.version}: events between them are missing")
    if isinstance(event, events.MemoryPromoted):
        # It may follow the end of the run, and must not change the time of the end.
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
    goal = changed.goal.model_copy(update={"updated_at": record.at})
    return with_fields(with_memory(changed, **moved), goal=goal, elapsed=record.elapsed)


def _changed(state: RunState, record: Record) -> RunState:  # noqa: C901  one arm per event, closed by assert_never
    event = record.event
    match event:
        case events.GoalCreated():
            raise RecordError("a second goal_created in one log")
        case events.RunStarted():
            about = {name: getattr(event, name) for name in _OF_THE_START}
            started = with_budget(state, deadline_at=event.deadline_at)
            return with_fields(started, external=bool(event.agent_command), **about)
        case events.RunResumed():
            return progress.resumed(state, event)
        case events.StepStarted():
            return progress.begun(state, event.step_id)
        case events.RoundStarted():
            return _round_started(state, event)
        case events.MessageRecorded():
            return _heard(state, event)
        case events.ToolCalled():
            return _called(state, event.tool_call_id)
        case events.SnapshotTaken():
            return with_fields(state, base=event.snapshot) if event.moment == "start" else state
        case events.StartKept():
            return with_fields(state, kept=event.files)
        case events.BaselineTaken():
            return updates.baselined(state, event)
        case events.BlockReported():
            return with_fields(state, block_report=event.reason)
        case events.ToolResultRecorded():
            return _tool_result(state, event)
        case events.UsageRecorded():
            return progress.spent(state, event.account, event.usage)
        case events.RoundFinished():
            return _round_finished(state, event)
        case events.CritiqueStarted() | events.CritiqueFinished() | events.RefinementStarted():
            return _criticized(state, event)
        case events.ValidatorsFinished():
            return updates.validated(state, event)
        case events.AuditStarted():
            return with_fields(progress.begun(state, f"audit-{event.round}"), awaiting="judge")
        case events.AuditFailed():
            failed = with_fields(state, audit_problem=event.detail)
            # The judge is asked again after an answer that cannot be parsed.
            return failed if event.kind == "parse" else updates.count_round(failed, passed=False)
        case events.VerdictRecorded():
            return _judged(state, event)
        case events.WorkspaceChanged():
            again = {"phase": state.unchecked, "snapshot": event.snapshot, "leaked": event.paths}
            return with_fields(state, leaks=state.leaks + 1, **again)
        case events.ConfirmationRecorded():
            found = {"confirmed": event.reason or event.claim} if event.confirmed else {"refuted": event.claim}
            return with_fields(progress.ended(state), phase=Phase.CONFIRMED, **found)
        case events.QuestionOpened():
            return updates.asked(state, (event.question,))
        case events.QuestionAnswered():
            return updates.answered(state, event)
        case events.ApprovalRequested():
            return with_fields(updates.approval_requested(state, event, record.at), awaiting=_in_flight(state))
        case events.ApprovalRecorded():
            return updates.checks_decided(updates.approval_recorded(state, event, record.at), event)
        case events.PlanProposed():
            return progress.planned(state, event)
        case events.SecretsReplaced():
            return with_fields(state, redacted=dict(Counter(state.redacted) + Counter(event.counts)))
        case events.RunEnded():
            return progress.over(state, event)
        case events.MemoryPromoted() | events.SessionOpened() | events.AgentRan() | events.NoteAdded():
            return state
        case _:
            assert_never(event)


_PROMPTED = "prompted calling awaiting"
"""Fields of a state in which the agent has a prompt."""
_OF_A_ROUND = f"validators refusal block_report leaked check_labels changed_checks critique refinements {_PROMPTED}"


def _round_started(state: RunState, event: events.RoundStarted) -> RunState:
    begun = with_memory(progress.begun(state, f"round-{event.round}"), proposed_stop="")
    fresh = reset(updates.withdrawn(begun, lambda _: True), f"{_OF_A_ROUND} {progress.NOT_CHECKED}")
    return with_fields(fresh, phase=Phase.WORKING, round=event.round)


def _criticized(
    state: RunState, event: events.CritiqueStarted | events.CritiqueFinished | events.RefinementStarted
) -> RunState:
    match event:
        case events.CritiqueStarted():
            awaiting = "critic" if "critic" in state.models else None
            return with_fields(progress.begun(state, f"critique-{event.round}"), awaiting=awaiting)
        case events.CritiqueFinished():
            critique = Critique(score=event.score, feedback=event.feedback, problem=event.problem)
            return with_fields(progress.ended(state), critique=critique, awaiting=None)
        case events.RefinementStarted():
            begun = reset(progress.begun(state, f"round-{event.round}"), f"block_report {_PROMPTED}")
            return with_fields(begun, phase=Phase.WORKING, refinements=event.number)


def _heard(state: RunState, event: events.MessageRecorded) -> RunState:
    """Return the state after a message. After a prompt or a tool's answer, the agent's model is asked next."""
    if state.phase is Phase.WORKING and event.role == "user":
        return with_fields(state, prompted=True, awaiting="agent", interruption=None)
    if state.phase is Phase.WORKING and event.role == "tool" and state.calling is None:
        return with_fields(state, awaiting="agent")
    return state


def _called(state: RunState, call: str) -> RunState:
    # The approval is used up; it does not permit another call.
    used = with_approvals(state, lambda one: one.tool_call_id == call and one.decision is not None, used=True)
    return with_fields(used, calling=call, awaiting=_in_flight(state))


def _in_flight(state: RunState) -> Account | None:
    """Return the account whose usage becomes unknown if the process ends while a tool runs or a person decides.

    An external agent reports its usage at the end of a turn; the model of the built-in agent is idle at that time.
    """
    return state.awaiting if state.external else None


def _tool_result(state: RunState, event: events.ToolResultRecorded) -> RunState:
    reported = event.observation.reported_by
    refs = (*state.memory.tool_result_refs, event.tool_call_id)[-KEPT:]
    seen = with_fields(with_evidence(with_memory(state, tool_result_refs=refs), [event.evidence_ref]), calling=None)
    if reported and UNASKED in event.observation.facts:
        seen = progress.labelled(seen, updates.UNASKED_LABEL)
    if reported and state.plan.has_judge and not state.plan.validators and state.plan.deliverable == "workspace":
        seen = progress.labelled(seen, updates.REPORTED_LABEL)
    return with_fields(seen, awaiting="agent") if reported and state.phase is Phase.WORKING else seen


def _round_finished(state: RunState, event: events.RoundFinished) -> RunState:
    output = event.response.output if event.response else None
    seen = progress.ended(with_evidence(state, [event.response.id] if event.response else []))
    # Files that checks write between two rounds, such as `outputs`, are not changes of the agent.
    content = state.content if event.idle and state.content else event.snapshot.id if event.snapshot else ""
    return with_fields(
        # Approvals of its tool calls are void after a turn.
        updates.withdrawn(seen, lambda item: item.kind not in ("complete", "checks")),
        phase=Phase.WORKED,
        snapshot=event.snapshot,
        content=content,
        response=output.sha256 if output else "",
        said=event.said,
        round_ended=True,
        critique=None,
        changes=event.total,
        lingering=event.left,
        awaiting=None,
    )


def _judged(state: RunState, event: events.VerdictRecorded) -> RunState:
    """Return the state after a verdict. If the goal has no criteria, those that an audit derives apply to all later audits."""
    goal, verdict = state.goal, event.verdict
    if not goal.success_criteria:
        derived = (item.criterion for item in verdict.criteria if item.criterion not in goal.constraints)
        criteria = tuple(dict.fromkeys((*goal.derived_criteria, *derived)))
        goal = goal.model_copy(update={"derived_criteria": criteria})
    judged = with_fields(
        updates.asked(progress.ended(state, progress.audit_evidence(state, verdict)), verdict.questions),
        phase=Phase.JUDGED,
        goal=goal,
        unstable=state.unstable + 1 if event.stale_only else 0,
        unread=state.unread + 1 if verdict.source == "fallback" else 0,
        leaked=(),
        awaiting=None,
    )
    return updates.decided(judged, verdict)
