"""`apply(state, record)`: the only way a state changes. Pure; applying a record twice changes nothing."""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from goalrunner.core import events
from goalrunner.core import state_updates as updates
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Account, Critique, Record
from goalrunner.core.labels import Label
from goalrunner.core.observation import UNASKED
from goalrunner.core.run_state import KEPT, Baseline, Phase, RunState, WorkingMemory
from goalrunner.core.verdict import obstacle_of, verdict_of

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
        return state.with_memory(pending_steps=_remaining(state))
    if record.seq <= state.memory.version:
        return state
    if record.seq != state.memory.version + 1:
        raise RecordError(f"event {record.seq} follows event {state.memory.version}: events between them are missing")
    if isinstance(event, events.MemoryPromoted):
        # It may follow the end of the run, and must not change the time of the end.
        return state.with_memory(version=record.seq)
    changed = _changed(state, record)
    if changed.phase is Phase.ENDED and state.phase is not Phase.ENDED:
        changed = changed.replace(ended_at=record.at)
    moved: dict[str, object] = {"version": record.seq}
    if changed is not state:
        moved["pending_steps"] = _remaining(changed)
    seen = (getattr(event, "observation", None), *getattr(event, "observations", ()))
    if names := {name: item.id for item in seen if item is not None for name in item.names}:
        older = [(name, ref) for name, ref in changed.memory.evidence_names.items() if name not in names]
        moved["evidence_names"] = dict([*older, *names.items()][-_MOST_NAMES:])
    goal = changed.goal.model_copy(update={"updated_at": record.at})
    return changed.with_memory(**moved).replace(goal=goal, elapsed=record.elapsed)


def _changed(state: RunState, record: Record) -> RunState:  # noqa: C901  one arm per event, closed by assert_never
    event = record.event
    match event:
        case events.GoalCreated():
            raise RecordError("a second goal_created in one log")
        case events.RunStarted():
            about = {name: getattr(event, name) for name in _OF_THE_START}
            return state.with_budget(deadline_at=event.deadline_at).replace(external=bool(event.agent_command), **about)
        case events.RunResumed():
            return updates.resumed(state, event)
        case events.StepStarted():
            return updates.begun(state, event.step_id)
        case events.RoundStarted():
            return _round_started(state, event)
        case events.MessageRecorded():
            return _heard(state, event)
        case events.ToolCalled():
            return _called(state, event.tool_call_id)
        case events.SnapshotTaken():
            return state.replace(base=event.snapshot) if event.moment == "start" else state
        case events.StartKept():
            return state.replace(kept=event.files)
        case events.BaselineTaken():
            return _baselined(state, event)
        case events.BlockReported():
            return state.replace(block_report=event.reason)
        case events.ToolResultRecorded():
            return _tool_result(state, event)
        case events.UsageRecorded():
            return updates.spent(state, event.account, event.usage)
        case events.RoundFinished():
            return _round_finished(state, event)
        case events.CritiqueStarted() | events.CritiqueFinished() | events.RefinementStarted():
            return _scored(state, event)
        case events.ValidatorsFinished():
            return _validated(state, event)
        case events.AuditStarted():
            return updates.begun(state, f"audit-{event.round}").replace(awaiting="judge")
        case events.AuditFailed():
            failed = state.replace(audit_problem=event.detail)
            # The judge is asked again after an answer that cannot be parsed.
            return failed if event.kind == "parse" else updates.count_round(failed, passed=False)
        case events.VerdictRecorded():
            return _judged(state, event)
        case events.WorkspaceChanged():
            again = {"phase": state.unchecked, "snapshot": event.snapshot, "leaked": event.paths}
            return state.replace(leaks=state.leaks + 1, **again)
        case events.ConfirmationRecorded():
            found = {"confirmed": event.reason or event.claim} if event.confirmed else {"refuted": event.claim}
            return updates.ended(state).replace(phase=Phase.CONFIRMED, **found)
        case events.QuestionOpened():
            return updates.asked(state, (event.question,))
        case events.QuestionAnswered():
            return updates.answered(state, event)
        case events.ApprovalRequested():
            return updates.approval_requested(state, event, record.at).replace(awaiting=_in_flight(state))
        case events.ApprovalRecorded():
            return updates.approval_recorded(state, event, record.at)
        case events.PlanProposed():
            return updates.planned(state, event)
        case events.SecretsReplaced():
            return state.replace(redacted=dict(Counter(state.redacted) + Counter(event.counts)))
        case events.RunEnded():
            return updates.over(state, event)
        case events.MemoryPromoted() | events.SessionOpened() | events.AgentRan() | events.NoteAdded():
            return state
        case _:
            assert_never(event)


def _remaining(state: RunState) -> tuple[str, ...]:
    """Return the pending steps: those of the agent's plan, then the runner's. None are left after completion."""
    memory = state.memory
    if state.phase is Phase.ENDED:
        return () if memory.stop_reason == "success" else memory.pending_steps
    plan = (step for step in memory.pending_steps if not updates.is_runners(step))
    return tuple(dict.fromkeys(step for step in (*plan, *_upcoming(state)) if step != memory.current_step))


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
            critique = [f"critique-{number}"] if plan.is_scored and state.critique is None else []
            return [*critique, *([f"validate-{number}"] if plan.validators else []), *audit]
        case Phase.VALIDATED if not state.decided_by_validators:
            return audit
        case Phase.VALIDATED | Phase.JUDGED:
            return [] if state.verdict is not None and state.verdict.complete else again
        case _:
            return again if state.phase is Phase.CONFIRMED and not state.confirmed else []


_PROMPTED = "prompted calling awaiting"
"""Fields of a state in which the agent has a prompt."""
_OF_A_ROUND = f"validators refusal block_report leaked check_labels changed_checks critique refinements {_PROMPTED}"


def _round_started(state: RunState, event: events.RoundStarted) -> RunState:
    begun = updates.begun(state, f"round-{event.round}").with_memory(proposed_stop="")
    fresh = updates.withdrawn(begun, lambda _: True).reset(f"{_OF_A_ROUND} {updates.NOT_CHECKED}")
    return fresh.replace(phase=Phase.WORKING, round=event.round)


def _scored(
    state: RunState, event: events.CritiqueStarted | events.CritiqueFinished | events.RefinementStarted
) -> RunState:
    match event:
        case events.CritiqueStarted():
            awaiting = event.account if event.account in state.models else None
            return updates.begun(state, f"critique-{event.round}").replace(awaiting=awaiting)
        case events.CritiqueFinished():
            critique = Critique(score=event.score, feedback=event.feedback, problem=event.problem)
            return updates.ended(state).replace(critique=critique, awaiting=None)
        case events.RefinementStarted():
            begun = updates.begun(state, f"round-{event.round}").reset(f"block_report {_PROMPTED}")
            return begun.replace(phase=Phase.WORKING, refinements=event.number)


def _heard(state: RunState, event: events.MessageRecorded) -> RunState:
    """Return the state after a message. After a prompt or a tool's answer, the agent's model is asked next."""
    if state.phase is Phase.WORKING and event.role == "user":
        return state.replace(prompted=True, awaiting="agent", interruption=None)
    if state.phase is Phase.WORKING and event.role == "tool" and state.calling is None:
        return state.replace(awaiting="agent")
    return state


def _called(state: RunState, call: str) -> RunState:
    # The approval is used up; it does not permit another call.
    used = state.with_approvals(lambda one: one.tool_call_id == call and one.decision is not None, used=True)
    return used.replace(calling=call, awaiting=_in_flight(state))


def _in_flight(state: RunState) -> Account | None:
    """Return the account whose usage becomes unknown if the process ends while a tool runs or a person decides.

    An external agent reports its usage at the end of a turn; the model of the built-in agent is idle at that time.
    """
    return state.awaiting if state.external else None


def _tool_result(state: RunState, event: events.ToolResultRecorded) -> RunState:
    reported = event.observation.reported_by
    refs = (*state.memory.tool_result_refs, event.tool_call_id)[-KEPT:]
    seen = state.with_memory(tool_result_refs=refs).with_evidence([event.evidence_ref]).replace(calling=None)
    if reported and UNASKED in event.observation.facts:
        seen = seen.with_label(Label.UNASKED)
    if reported and state.plan.has_judge and not state.plan.validators and state.plan.deliverable == "workspace":
        seen = seen.with_label(Label.RESTS_ON_REPORTS)
    return seen.replace(awaiting="agent") if reported and state.phase is Phase.WORKING else seen


def _round_finished(state: RunState, event: events.RoundFinished) -> RunState:
    output = event.response.output if event.response else None
    seen = updates.ended(state.with_evidence([event.response.id] if event.response else []))
    # Files that checks write between two rounds, such as `outputs`, are not changes of the agent.
    content = state.content if event.idle and state.content else event.snapshot.id if event.snapshot else ""
    # Approvals of its tool calls are void after a turn.
    return updates.withdrawn(seen, lambda item: item.kind not in ("complete", "checks")).replace(
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


def _baselined(state: RunState, event: events.BaselineTaken) -> RunState:
    seen = updates.ended(state.with_evidence([item.id for item in (*event.observations, *event.concealed)]))
    ran_on = event.snapshot or state.base
    taken = seen.reset("leaked refusal changed_checks").replace(
        phase=Phase.BASELINED,
        baseline=Baseline(standing=event.standing, reason=event.reason, results=event.results),
        validators=event.results,
        snapshot=ran_on,
        content=ran_on.id if ran_on else "",
    )
    # A baseline that decides is iteration 1.
    decides = event.standing == "green" and not state.plan.has_judge and not state.plan.needs_round
    return updates.decided(taken, verdict_of(event.results)) if decides else taken


def _validated(state: RunState, event: events.ValidatorsFinished) -> RunState:
    seen = [item.id for item in (*event.observations, *event.concealed)]
    obstacle, changed = obstacle_of(event.results), event.changed_checks
    about = state.newest_approval(kind="checks", snapshot=changed.key) if changed is not None else None
    denied = about if about is not None and about.decision == "denied" and not obstacle else None
    ran = updates.ended(state.with_evidence(seen)).replace(
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
        return updates.not_accepted(ran, changed, denied)
    # A person may still accept the agent's versions of the checks: the round is then counted as passed.
    return updates.decided(ran, verdict_of(event.results, event.refusal, event.protected_changes))


def _judged(state: RunState, event: events.VerdictRecorded) -> RunState:
    """Return the state after a verdict. If the goal has no criteria, those that an audit derives apply to all later audits."""
    goal, verdict = state.goal, event.verdict
    if not goal.success_criteria:
        derived = (item.criterion for item in verdict.criteria if item.criterion not in goal.constraints)
        criteria = tuple(dict.fromkeys((*goal.derived_criteria, *derived)))
        goal = goal.model_copy(update={"derived_criteria": criteria})
    # The evidence of an audit is the first observation that it cites, else the newest one.
    known = {f"o{number}" for number in range(1, state.observations + 1)}
    evidence = next((name for name in verdict.cited if name in known), "".join(state.memory.evidence_refs[-1:]))
    judged = updates.asked(updates.ended(state, evidence), verdict.questions).replace(
        phase=Phase.JUDGED,
        goal=goal,
        unstable=state.unstable + 1 if event.stale_only else 0,
        unread=state.unread + 1 if verdict.source == "fallback" else 0,
        leaked=(),
        awaiting=None,
    )
    return updates.decided(judged, verdict)
