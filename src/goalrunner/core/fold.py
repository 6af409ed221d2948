"""`apply(state, record)`: the only way a state changes. Pure; applying a record twice changes nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, assert_never

from goalrunner.core import events
from goalrunner.core.actions import action_of, with_actions
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Account, Critique, Record
from goalrunner.core.labels import Label, begins_with
from goalrunner.core.observation import UNASKED
from goalrunner.core.outcome import (
    FINAL,
    GoalAttempt,
    GoalStatus,
    StopReason,
    Usage,
    record_status,
)
from goalrunner.core.run_state import (
    KEPT,
    Approval,
    BaselineOutcome,
    Failure,
    Interruption,
    Phase,
    RunState,
    Stall,
    Waiting,
    WorkingMemory,
)
from goalrunner.core.steps import remaining_steps, with_plan, with_step, with_step_done
from goalrunner.core.verdict import (
    GoalVerdict,
    agent_feedback,
    normalised,
    obstacle_of,
    verdict_of,
)
from goalrunner.core.waiting import fits, seconds_between

_MOST_ALLOWED = 20
"""Paths that a line of the goal file names."""
_MOST_NAMES = 100
"""Names of observations that a state keeps."""


def apply(state: RunState | None, record: Record) -> RunState:
    """Return the state after `record`. Raise RecordError for a missing event or a misplaced start."""
    event = record.event
    if state is None:
        return _first_state(record)
    if record.seq <= state.memory.version:
        return state
    if record.seq != state.memory.version + 1:
        raise RecordError(
            f"event {record.seq} follows event {state.memory.version}: events between them are missing"
        )
    if isinstance(event, events.MemoryPromoted):
        # It may follow the end of the run, and must not change the time of the end.
        return state.with_memory(version=record.seq)
    changed = _changed(state, record)
    if changed.phase is Phase.ENDED and state.phase is not Phase.ENDED:
        changed = changed.replace(ended_at=record.at)
    if changed is not state:
        changed = changed.with_memory(pending_steps=remaining_steps(changed))
    goal = changed.goal.model_copy(update={"updated_at": record.at})
    named = _with_names(changed, event).with_memory(version=record.seq)
    return named.replace(goal=goal, elapsed=record.elapsed)


def _first_state(record: Record) -> RunState:
    event = record.event
    if not isinstance(event, events.GoalCreated):
        raise RecordError(f"the log begins with {event.type}, not with goal_created")
    goal = event.goal
    memory = WorkingMemory(
        run_id=goal.run_id,
        goal_id=goal.goal_id,
        constraints=goal.constraints,
        version=record.seq,
    )
    state = RunState(goal=goal, memory=memory, plan=event.plan, elapsed=record.elapsed)
    return state.with_memory(pending_steps=remaining_steps(state))


def _with_names(state: RunState, event: events.Event) -> RunState:
    """Return the state with the names that the observations of an event give themselves; the newest are kept."""
    names = {
        name: item.id
        for item in events.shown_observations(event)
        for name in item.names
    }
    if not names:
        return state
    older = {
        name: ref
        for name, ref in state.memory.evidence_names.items()
        if name not in names
    }
    newest = list({**older, **names}.items())[-_MOST_NAMES:]
    return state.with_memory(evidence_names=dict(newest))


def _changed(state: RunState, record: Record) -> RunState:  # noqa: C901  one arm per event, closed by assert_never
    event = record.event
    match event:
        case events.GoalCreated():
            raise RecordError("a second goal_created in one log")
        case events.RunStarted():
            return _started(state, event)
        case events.RunResumed():
            return resumed(state, event, record.at)
        case events.StepStarted():
            return with_step(state, event.step_id)
        case events.RoundStarted():
            return _round_started(state, event)
        case events.MessageRecorded():
            return _heard(state, event)
        case events.ToolCalled():
            return _called(state, event.tool_call_id)
        case events.SnapshotTaken():
            return (
                state.replace(base=event.snapshot) if event.moment == "start" else state
            )
        case events.StartKept():
            return state.replace(kept=event.files)
        case events.BaselineTaken():
            return _baselined(state, event)
        case events.BlockReported():
            return state.replace(block_report=event.reason)
        case events.ToolResultRecorded():
            return _tool_result(state, event).replace(asking=False)
        case events.UsageRecorded():
            return _used(state, event.account, event.usage)
        case events.RoundFinished():
            return _round_finished(state, event)
        case (
            events.CritiqueStarted()
            | events.CritiqueFinished()
            | events.RefinementStarted()
        ):
            return _scored(state, event)
        case events.ValidatorsFinished():
            return _validated(state, event)
        case events.ChecksReviewStarted():
            return with_step(state, f"review_checks-{event.round}").replace(
                awaiting="judge"
            )
        case events.ChecksReviewed():
            return _reviewed(state, event)
        case events.AuditStarted():
            return with_step(state, f"audit-{event.round}").replace(awaiting="judge")
        case events.AuditFailed():
            failed = state.replace(
                audit_problem=event.detail, audit_answer=event.answer
            )
            # The judge is asked again after an answer that cannot be parsed.
            return (
                failed if event.kind == "parse" else _count_round(failed, passed=False)
            )
        case events.VerdictRecorded():
            return _judged(state, event)
        case events.WorkspaceChanged():
            leaks = state.leaks + 1
            return state.replace(
                phase=state.unchecked,
                snapshot=event.snapshot,
                leaked=event.paths,
                leaks=leaks,
            )
        case events.ConfirmationRecorded():
            confirmed = with_step_done(_succeeded(state, "judge")).replace(
                phase=Phase.CONFIRMED
            )
            if event.confirmed:
                return confirmed.replace(confirmed=event.reason or event.claim)
            return confirmed.replace(refuted=event.claim)
        case events.QuestionOpened():
            return _asked(state, (event.question,)).replace(asking=True)
        case events.QuestionAnswered():
            return _answered(state, event)
        case events.NoteGiven():
            return _noted(state, event.text).replace(note_id=event.note_id)
        case events.ApprovalRequested():
            return _approval_requested(state, event, record.at).replace(
                awaiting=_in_flight(state)
            )
        case events.ApprovalRecorded():
            return _approval_recorded(state, event, record.at)
        case events.PlanProposed():
            return with_plan(state, event)
        case events.SecretsReplaced():
            return state.replace(
                redacted=dict(Counter(state.redacted) + Counter(event.counts))
            )
        case events.LimitReached():
            return state.replace(
                limit=event.end, resets_at=event.resets_at, wait=None, failure=None
            )
        case events.WorkFailed():
            return _failed(state, event, record.at)
        case events.WaitStarted():
            return _wait_started(state, event, record.at)
        case events.WaitEnded():
            return _wait_ended(state, event, record.at)
        case events.AgentSwitched():
            return _switched(state, event)
        case events.RunEnded():
            return _ended(state, event)
        case (
            events.MemoryPromoted()
            | events.SessionOpened()
            | events.AgentRan()
            | events.NoteAdded()
            | events.UserSaid()
        ):
            return state
        case _:
            assert_never(event)


# The start, the end, and what happens between two processes of a run.


def _started(state: RunState, event: events.RunStarted) -> RunState:
    return state.with_budget(deadline_at=event.deadline_at).replace(
        models=event.models,
        workspace=event.workspace,
        sandbox=event.sandbox,
        check_environment=event.check_environment,
        external=bool(event.agent_command),
        agent_command=event.agent_command,
        goal_file=event.goal_file,
        handed=event.handed,
        notes=event.notes,
        labels=event.labels,
    )


def _ended(state: RunState, event: events.RunEnded) -> RunState:
    record, stop = record_status(event.stop_reason)
    step = None if event.status is GoalStatus.COMPLETE else state.memory.current_step
    ended = state.with_memory(stop_reason=stop, current_step=step).replace(
        goal=state.goal.model_copy(update={"status": record}),
        phase=Phase.ENDED,
        asking=False,
        left=state.left if state.phase is Phase.ENDED else state.phase,
        status=event.status,
        stop_reason=event.stop_reason,
        message=event.message,
        signal=event.signal if event.status is GoalStatus.CANCELLED else state.signal,
    )
    return _count_usage(ended)


def resumed(state: RunState, event: events.RunResumed, at: str) -> RunState:
    """Return the state of a run that is resumed at a time (ISO 8601); a run that cannot be resumed stays as it is."""
    if state.stop_reason in FINAL:
        return state
    if (
        state.stop_reason is StopReason.DENIED
    ):  # the run does not end with the same denial again
        state = state.with_approvals(lambda item: item.refused, told=True)
    before = _noted(state, event.note).interruption or Interruption()
    changed = tuple(dict.fromkeys((*before.changed, *event.changed)))
    interruption = before.model_copy(update={"changed": changed})
    again = (
        with_cut(state, event.in_flight)
        .with_memory(stop_reason=None)
        .with_budget(deadline_at=event.deadline_at)
    )
    again = again.replace(
        goal=state.goal.model_copy(update={"status": "active"}),
        plan=event.plan,
        status=GoalStatus.RUNNING,
        stop_reason=None,
        message="",
        signal=None,
        ended_at="",
        stall=Stall(),
        unread=0,
        leaks=0,
        obstacle="",
        obstacles=0,
        **_wait_resumed(state, event.plan, at),
        limit=None,
        resets_at="",
        resumes=state.resumes + 1,
        asking=False,
        # If the run had ended, a person decided to go on, and another agent may take over again.
        switched=state.switched and state.phase is not Phase.ENDED,
        sandbox=event.sandbox if event.sandbox == state.sandbox else "none",
        interruption=None if interruption == Interruption() else interruption,
        outside=tuple(dict.fromkeys((*state.outside, *event.changed)))[-KEPT:],
    )
    return _at_valid_phase(again, state, event)


def _at_valid_phase(
    again: RunState, state: RunState, event: events.RunResumed
) -> RunState:
    """Return the resumed state at the last phase whose result is still valid; `state` is that before."""
    phase, verdict = (
        state.left if state.phase is Phase.ENDED else state.phase,
        state.verdict,
    )
    had_obstacle = state.obstacle and phase is Phase.VALIDATED
    had_leak = state.leaked and phase in (Phase.WORKED, Phase.VALIDATED)
    if had_obstacle or had_leak:
        # A person may have removed what kept the validators from running, or what changed the workspace.
        return again.replace(
            phase=Phase.WORKED, snapshot=event.snapshot or state.snapshot
        )
    if (
        phase is Phase.BASELINED
        and state.round == 0
        and (state.phase is Phase.ENDED or event.changed)
    ):
        return again.replace(
            phase=Phase.READY
        )  # a person may have corrected what the baseline checks
    if phase is Phase.CONFIRMED and state.confirmed:
        refuted = verdict.blocked if verdict is not None else ""
        return again.replace(phase=Phase.JUDGED, confirmed="", refuted=refuted)
    is_proven = (
        phase in (Phase.JUDGED, Phase.CONFIRMED)
        and verdict is not None
        and verdict.complete
    )
    waits_for_check = (
        phase in (Phase.WORKED, Phase.VALIDATED) or again.replace(phase=phase).is_unread
    )
    if event.changed and (is_proven or waits_for_check):  # the files are different now
        return again.replace(phase=state.unchecked, snapshot=event.snapshot)
    return again.replace(phase=phase)


# Failures that pass, waits, and the agents of a run with several.


def _failed(state: RunState, event: events.WorkFailed, at: str) -> RunState:
    name = f"{event.account} {event.kind}"
    number = state.failures.get(name, 0) + 1
    failure = Failure(**event.model_dump(exclude={"type"}), at=at, number=number)
    failures = {**state.failures, name: number}
    return state.replace(failure=failure, failures=failures, awaiting=None)


def _wait_started(state: RunState, event: events.WaitStarted, at: str) -> RunState:
    return state.replace(wait=Waiting(**event.model_dump(exclude={"type"}), began=at))


def _wait_ended(state: RunState, event: events.WaitEnded, at: str) -> RunState:
    """Return the state after a wait. The time after its end, in which no process drove the run, was not waited."""
    wait = state.wait
    # A conversation goes on without another prompt, and its model is asked next.
    asks_agent = (
        wait is not None
        and wait.account == "agent"
        and state.phase is Phase.WORKING
        and state.prompted
    )
    over = state.replace(
        wait=None, failure=None, awaiting="agent" if asks_agent else state.awaiting
    )
    if wait is None or wait.kind == "retry":
        return over
    end = min(at, wait.until, key=datetime.fromisoformat)
    waited = state.waited + seconds_between(wait.began, end)
    return over.replace(waited=waited).with_budget(deadline_at=event.deadline_at)


def _wait_resumed(state: RunState, plan: events.RunRules, at: str) -> dict[str, Any]:
    """Return the fields about failures and waits of a run that is resumed at a time (ISO 8601).

    The run goes on with a wait that its rules allow; other work that failed is tried again at once. If the run had ended,
    a person decided to go on, and the sum of its waits begins again.
    """
    has_ended, wait = state.phase is Phase.ENDED, state.wait
    waited = 0.0 if has_ended else state.waited
    if wait is not None and wait.kind == "limit":
        began = at if has_ended else wait.began
        is_allowed = fits(
            state.replace(plan=plan, waited=waited),
            began,
            datetime.fromisoformat(wait.until),
        )
        wait = wait.model_copy(update={"began": began}) if is_allowed else None
    if wait is None:
        return {"wait": None, "failure": None, "failures": {}, "waited": waited}
    return {"wait": wait, "waited": waited}


def _switched(state: RunState, event: events.AgentSwitched) -> RunState:
    """Return the state in which another agent has the round; it does not have the prompt yet."""
    taken = _unprompted(_succeeded(state, "agent")).replace(
        agent=event.index,
        switched=True,
        failure=None,
        given_up={**state.given_up, event.before: event.reason},
        # The turn of an agent is estimated from its own turns alone.
        last_call={
            account: usage
            for account, usage in state.last_call.items()
            if account != "agent"
        },
        labels=tuple(
            label for label in state.labels if not begins_with(label, Label.AGENTS)
        ),
    )
    taken = taken.with_label(
        Label.AGENTS.about(", ".join((*taken.given_up, event.agent)))
    )
    return (
        taken.with_label(Label.SELF_JUDGED)
        if event.agent in state.plan.self_judging
        else taken
    )


def _succeeded(state: RunState, account: Account) -> RunState:
    """Return the state without the failures of an account, which has worked since, or another agent does its work."""
    if not state.failures:
        return state
    others = {
        name: number
        for name, number in state.failures.items()
        if not name.startswith(f"{account} ")
    }
    return state.replace(failures=others)


# Usage.


def _used(state: RunState, account: Account, usage: Usage) -> RunState:
    """Return the state after a model call, or a part of an agent's turn, reported its usage."""
    last, call = state.last_call, usage
    if usage.calls or usage.known_cost_usd:
        # An agent may report tokens on one line and dollars on the next.
        if (
            state.external
            and state.awaiting is None
            and account in last
            and not usage.calls
        ):
            call = last[account] + usage
        last = {**last, account: call}
    return with_cut(state, {account: usage}).replace(last_call=last)


def with_cut(state: RunState, cut: Mapping[Any, Usage]) -> RunState:
    """Return the state with more usage by account, such as the estimate for calls that were running when a process ended."""
    more = {
        account: state.usage.get(account, Usage()) + usage
        for account, usage in cut.items()
    }
    if "agent" in cut and state.plan.agents:
        name = state.plan.agents[state.agent]
        used = state.agent_usage.get(name, Usage()) + cut["agent"]
        state = state.replace(agent_usage={**state.agent_usage, name: used})
    return _count_usage(state.replace(usage={**state.usage, **more}, awaiting=None))


def _count_usage(state: RunState) -> RunState:
    """Return the state with the current usage in its budget."""
    total = state.spent()
    cents = None if total.cost_usd is None else round(total.cost_usd * 100, 6)
    return state.with_budget(token_estimate=total.known_tokens, cost_cents=cents)


def _in_flight(state: RunState) -> Account | None:
    """Return the account whose usage becomes unknown if the process ends while a tool runs or a person decides.

    An external agent reports its usage at the end of a turn; the model of the built-in agent is idle at that time.
    """
    return state.awaiting if state.external else None


# The agent's turn.


def _round_started(state: RunState, event: events.RoundStarted) -> RunState:
    begun = with_step(state, f"round-{event.round}").with_memory(proposed_stop="")
    return _unprompted(_withdrawn(begun, lambda _: True)).replace(
        phase=Phase.WORKING,
        round=event.round,
        validators=(),
        refusal="",
        leaked=(),
        leaks=0,
        obstacle="",
        obstacles=0,
        check_labels=(),
        changed_checks=None,
        settling="",
        critique=None,
        refinements=0,
        switched=False,
    )


def _unprompted(state: RunState) -> RunState:
    """Return the state before the agent has a prompt."""
    return state.replace(block_report="", prompted=False, calling=None, awaiting=None)


def _scored(
    state: RunState,
    event: events.CritiqueStarted | events.CritiqueFinished | events.RefinementStarted,
) -> RunState:
    match event:
        case events.CritiqueStarted():
            awaiting = event.account if event.account in state.models else None
            return with_step(state, f"critique-{event.round}").replace(
                awaiting=awaiting
            )
        case events.CritiqueFinished():
            critique = Critique(
                score=event.score, feedback=event.feedback, problem=event.problem
            )
            scored = with_step_done(_succeeded(state, event.account))
            return scored.replace(critique=critique, awaiting=None, failure=None)
        case events.RefinementStarted():
            begun = _unprompted(with_step(state, f"round-{event.round}"))
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
    used = state.with_approvals(
        lambda one: one.tool_call_id == call and one.decision is not None, used=True
    )
    return used.replace(calling=call, awaiting=_in_flight(state))


def _tool_result(state: RunState, event: events.ToolResultRecorded) -> RunState:
    reported = event.observation.reported_by
    state = _succeeded(state, "agent")
    action = action_of(event.observation, state.workspace)
    doing = with_actions(state.stall.doing, {action: 1} if action else {})
    refs = (*state.memory.tool_result_refs, event.tool_call_id)[-KEPT:]
    seen = (
        state.with_memory(tool_result_refs=refs)
        .with_evidence([event.evidence_ref])
        .replace(calling=None, stall=state.stall.model_copy(update={"doing": doing}))
    )
    if reported and UNASKED in event.observation.facts:
        seen = seen.with_label(Label.UNASKED)
    if (
        reported
        and state.plan.has_judge
        and not state.plan.validators
        and state.plan.deliverable == "workspace"
    ):
        seen = seen.with_label(Label.RESTS_ON_REPORTS)
    return (
        seen.replace(awaiting="agent")
        if reported and state.phase is Phase.WORKING
        else seen
    )


def _round_finished(state: RunState, event: events.RoundFinished) -> RunState:
    output = event.response.output if event.response else None
    state = _succeeded(state, "agent")
    seen = with_step_done(
        state.with_evidence([event.response.id] if event.response else [])
    )
    # Files that checks write between two rounds, such as `outputs`, are not changes of the agent.
    content = (
        state.content
        if event.idle and state.content
        else event.snapshot.id
        if event.snapshot
        else ""
    )
    # Approvals of its tool calls are void after a turn.
    return _withdrawn(
        seen, lambda item: item.kind not in ("complete", "checks")
    ).replace(
        phase=Phase.WORKED,
        snapshot=event.snapshot,
        content=content,
        response=output.sha256 if output else "",
        said=event.said,
        round_ended=True,
        critique=None,
        changes=event.total,
        gone_or_reverted=event.gone_or_reverted,
        lingering=event.left,
        ending=event.ending,
        stall=state.stall.model_copy(update={"is_idle": event.idle}),
        awaiting=None,
    )


# Checks and verdicts.


def _baselined(state: RunState, event: events.BaselineTaken) -> RunState:
    seen = with_step_done(
        state.with_evidence([item.id for item in events.observations_of(event)])
    )
    ran_on = event.snapshot or state.base
    taken = seen.replace(
        phase=Phase.BASELINED,
        baseline=BaselineOutcome(
            standing=event.standing, reason=event.reason, results=event.results
        ),
        validators=event.results,
        leaked=(),
        refusal="",
        changed_checks=None,
        snapshot=ran_on,
        content=ran_on.id if ran_on else "",
    )
    # A baseline that decides is iteration 1.
    decides = (
        event.standing == "green"
        and not state.plan.has_judge
        and not state.plan.needs_round
    )
    return _decided(taken, verdict_of(event.results)) if decides else taken


def _validated(state: RunState, event: events.ValidatorsFinished) -> RunState:
    obstacle, changed = obstacle_of(event.results), event.changed_checks
    refusal = "" if changed is None or obstacle else _refusal_of(state, changed)
    seen = with_step_done(
        state.with_evidence([item.id for item in events.observations_of(event)])
    )
    ran = seen.replace(
        phase=Phase.VALIDATED,
        validators=event.results,
        refusal=event.refusal,
        leaked=event.leaked,
        leaks=state.leaks + bool(event.leaked),
        snapshot=event.snapshot or state.snapshot,
        protected_changes=event.protected_changes,
        differing=event.differing,
        check_labels=event.labels,
        # Versions that were refused before are not reviewed again.
        changed_checks=None if obstacle or refusal else changed,
        settling=_settling(event),
        obstacle=obstacle,
        obstacles=state.obstacles + 1 if obstacle else 0,
    )
    if changed is not None and refusal and not event.leaked:
        return _not_accepted(ran, refusal)
    if obstacle or event.leaked or not ran.decided_by_validators:
        # With an obstacle the round is not decided. The agent gets no feedback about it, as it cannot remove it.
        return ran
    # A review may still accept the agent's versions of the checks: the round is then counted as passed.
    waits = (
        f"the result has to be reviewed: {changed.action}"
        if changed is not None and changed.labels
        else ""
    )
    return _decided(
        ran, verdict_of(event.results, event.refusal or waits, event.protected_changes)
    )


def _judged(state: RunState, event: events.VerdictRecorded) -> RunState:
    """Return the state after a verdict. If the goal has no criteria, those that an audit derives apply to all later audits."""
    state = _succeeded(state, "judge")
    goal, verdict = state.goal, event.verdict
    if not goal.success_criteria:
        derived = (
            item.criterion
            for item in verdict.criteria
            if item.criterion not in goal.constraints
        )
        criteria = tuple(dict.fromkeys((*goal.derived_criteria, *derived)))
        goal = goal.model_copy(update={"derived_criteria": criteria})
    # The evidence of an audit is the first observation that it cites, else the newest one.
    numbered = {f"o{number}" for number in range(1, state.observations + 1)}
    evidence = next(
        (name for name in verdict.cited if name in numbered),
        "".join(state.memory.evidence_refs[-1:]),
    )
    judged = _asked(with_step_done(state, evidence), verdict.questions).replace(
        phase=Phase.JUDGED,
        goal=goal,
        unread=state.unread + 1 if verdict.source == "fallback" else 0,
        leaked=(),
        awaiting=None,
    )
    return _decided(judged, verdict)


def _decided(state: RunState, verdict: GoalVerdict) -> RunState:
    """Count the round, with this verdict; it is not complete if a person refused the completion of this snapshot."""
    refused = state.completion
    if verdict.complete and refused is not None and refused.refused:
        verdict = verdict.model_copy(
            update={"complete": False, "missing": _refusal(refused)}
        )
    feedback = agent_feedback(verdict, state.validators)
    now = _count_round(
        state, passed=verdict.complete, feedback=feedback, score=verdict.score
    )
    # An audit that could not be read says nothing about the work; the judge is asked again.
    stall = now.stall if verdict.source == "fallback" else _stalled(now, verdict)
    return now.replace(verdict=verdict, stall=stall)


def _count_round(
    state: RunState, *, passed: bool, feedback: str | None = None, score: float = 0.0
) -> RunState:
    """Count the round once, however often it is checked: an iteration is a turn of the agent that was checked.

    A baseline counts only if it decides the run.
    """
    if state.round == 0 and not passed:
        return state
    again = state.counted == state.round
    number = state.iterations if again else state.iterations + 1
    earlier = state.attempts[:-1] if again else state.attempts
    attempt = GoalAttempt(attempt=number, passed=passed, feedback=feedback, score=score)
    counted = state.replace(
        iterations=number, counted=state.round, attempts=(*earlier, attempt)[-KEPT:]
    )
    return counted.with_budget(iteration_count=number)


def _stalled(state: RunState, verdict: GoalVerdict) -> Stall:
    """Compare the round with the two kinds of rounds before it: same content, same results, same things missing.

    The response belongs to the content if it is the deliverable or a callable checks it, because no snapshot shows it.
    Rounds that alternate between two states count like rounds that stay the same.
    """
    content = (
        state.content or (state.snapshot.id if state.snapshot else ""),
        state.response or state.said,
    )
    if verdict.complete or not any(content):
        return Stall()
    checks = tuple(
        (item.name, item.passed, item.reason, item.exit_code)
        for item in state.validators
    )
    missing: object = normalised(verdict.missing)
    if (
        verdict.source == "judge" and verdict.criteria
    ):  # the judge's words vary, the criteria do not
        missing = tuple((item.criterion, item.satisfied) for item in verdict.criteria)
    key, last = repr((content, checks, missing)), state.stall
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


# What a person decides.


def _approval_requested(
    state: RunState, event: events.ApprovalRequested, at: str
) -> RunState:
    """Return the state with an approval request of the time `at` (ISO 8601). It replaces an older one for the same action."""

    def is_replaced(item: Approval) -> bool:
        if event.kind in ("complete", "checks"):
            return item.kind == event.kind
        return item.tool_call_id == event.tool_call_id

    approval = Approval(
        id=event.approval_id,
        kind=event.kind,
        action=event.action,
        rule=event.rule,
        requested_at=at,
        expires_at=event.expires_at,
        evidence_refs=event.evidence_refs,
        tool_call_id=event.tool_call_id,
        snapshot=event.snapshot,
        preview=event.preview,
    )
    state = _withdrawn(state, is_replaced)
    return state.replace(
        approvals=(*state.approvals, approval)[-KEPT:], requested=state.requested + 1
    )


def _withdrawn(state: RunState, about: Callable[[Approval], bool]) -> RunState:
    """Return the state with the waiting approvals for which `about` is true withdrawn."""
    return state.with_approvals(
        lambda item: item.decision is None and about(item), decision="withdrawn"
    )


def _approval_recorded(
    state: RunState, event: events.ApprovalRecorded, at: str
) -> RunState:
    """Return the state after a decision. Only the first decision on an approval counts.

    A denial stops the working memory. (Source: apply_event of Goals and State.)
    """
    about = next(
        (item for item in state.approvals if item.id == event.approval_id), None
    )
    refs = (*state.memory.approval_refs, event.approval_id)[-KEPT:]
    # Without the agent's versions of the checks, the round is red and the run goes on.
    goes_on = state.plan.approvals.on_deny != "stop" or (
        about is not None and about.kind == "checks"
    )
    stop = "blocked" if event.decision != "approved" and not goes_on else None
    state = state.with_memory(approval_refs=refs, stop_reason=stop)
    if about is None or about.decision is not None:
        return state
    state = state.with_approvals(
        lambda item: item.id == event.approval_id,
        decision=event.decision,
        by=event.by,
        reason=event.reason,
        guarded=event.guarded,
        decided_at=at,
    )
    if event.decision == "approved" and not event.guarded:
        state = state.with_label(Label.UNGUARDED)
    by = f" by {event.by}" if event.by else ""
    words = (
        "has expired" if event.decision == "expired" else f"was {event.decision}{by}"
    )
    state = _with_message(state, f"{event.approval_id} {words}")
    approval = next(item for item in state.approvals if item.id == event.approval_id)
    if approval.kind == "checks":
        return _checks_decided(state, approval)
    if approval.kind == "complete" and approval.refused:
        return _refused(state, approval)
    if approval.kind == "complete" and event.changed and event.snapshot is not None:
        # The workspace changed after the approval: it is checked, and approved, again.
        return state.replace(phase=state.unchecked, snapshot=event.snapshot)
    return state


def _refused(state: RunState, approval: Approval) -> RunState:
    """Return the state after a refused completion: the round failed, and the person's reason is the feedback."""
    if state.verdict is None:
        return state
    missing = _refusal(approval)
    verdict = state.verdict.model_copy(update={"complete": False, "missing": missing})
    last = [
        item.model_copy(update={"passed": False, "feedback": missing})
        for item in state.attempts[-1:]
    ]
    return state.replace(verdict=verdict, attempts=(*state.attempts[:-1], *last))


def _refusal(approval: Approval) -> str:
    """Return the feedback about a refused completion."""
    decision = (
        f"{approval.decision}: {approval.reason}"
        if approval.reason
        else str(approval.decision)
    )
    return f"the owner did not accept the result ({decision})"


def _refusal_of(state: RunState, changed: events.ChangedChecks) -> str:
    """Return why these versions of the checks do not count, if that is known without a new review; else an empty text."""
    about = state.newest_approval(
        lambda item: item.kind == "checks" and item.snapshot == changed.key
    )
    if about is not None and about.decision == "denied":
        return _denial(changed, about)
    if about is None and state.plan.approvals.checks == "refuse":
        if changed.labels:
            return f"The goal accepts no result with this label: {changed.action}"
        restored = [f"- restore {path}" for path in changed.paths] or [
            f"- {test.text}" for test in changed.tests
        ]
        return "\n".join(["The goal allows no changes of its checks:", *restored])
    refused = (
        item
        for item in reversed(state.reviews)
        if item.key == changed.key and item.decision == "refused"
    )
    return (
        _review_feedback(review) if (review := next(refused, None)) is not None else ""
    )


def _settling(event: events.ValidatorsFinished) -> str:
    """Return what a person can write in the goal file so that the next run accepts what this check did not."""
    changed, is_red = (
        event.changed_checks,
        any(not result.passed for result in event.results),
    )
    line = changed.hint if changed is not None else ""
    if changed is None and is_red and 0 < len(event.differing) <= _MOST_ALLOWED:
        line = f"allow = {json.dumps(event.differing, ensure_ascii=False)}"
    return (
        f"to allow these changes in the next run, write under [workspace]: {line}"
        if line
        else event.hint
    )


def _denial(changed: events.ChangedChecks, approval: Approval) -> str:
    """Return the feedback about changed checks that a person did not accept."""
    reason = f" ({approval.reason})" if approval.reason else ""
    what = (
        f"Your changes to {', '.join(changed.paths)} were"
        if changed.paths
        else f'A result with "{changed.action}" was'
    )
    return f"{what} not accepted{reason}."


def _review_feedback(review: events.ChecksReviewed) -> str:
    return f"Your changes of the checks were reviewed. Reach the objective without these:\n{review.feedback}"


def _checks_decided(state: RunState, approval: Approval) -> RunState:
    """Return the state after a person's decision on changed checks."""
    changed = state.changed_checks
    if changed is None or approval.snapshot != changed.key:
        return state
    return (
        _accepted(state, changed)
        if approval.decision == "approved"
        else _not_accepted(state, _denial(changed, approval))
    )


def _reviewed(state: RunState, event: events.ChecksReviewed) -> RunState:
    """Return the state after the judge's review of changed checks."""
    changed = state.changed_checks
    state = _succeeded(state, "judge")
    seen = with_step_done(state).replace(
        reviews=(*state.reviews, event)[-KEPT:], awaiting=None
    )
    if changed is None or event.key != changed.key or event.decision == "undecided":
        return seen
    return (
        _accepted(seen, changed, events.REVIEWED)
        if event.decision == "accepted"
        else _not_accepted(seen, _review_feedback(event))
    )


def _accepted(
    state: RunState, changed: events.ChangedChecks, reviewer: str = ""
) -> RunState:
    """Return the state in which the agent's versions of the checks count, or the labels of the results are accepted."""
    if changed.labels:
        suffix = f" ({reviewer})" if reviewer else ""
        labels = tuple(
            f"{label}{suffix}" if label in changed.labels else label
            for label in state.check_labels
        )
        return _with_results(state.replace(check_labels=labels), changed)
    if state.plan.has_judge:
        # The judge needs the accepted results as observations: the validators run with these versions.
        if state.phase is Phase.ENDED:
            return state.replace(changed_checks=None, left=Phase.WORKED)
        return state.replace(changed_checks=None, phase=Phase.WORKED)
    return _with_results(
        state.replace(check_labels=(*state.check_labels, changed.label(reviewer))),
        changed,
    )


def _with_results(state: RunState, changed: events.ChangedChecks) -> RunState:
    """Return the state in which the reviewed results are those of the round."""
    accepted = state.replace(
        validators=changed.results, refusal="", changed_checks=None
    )
    return (
        _decided(accepted, verdict_of(changed.results))
        if accepted.decided_by_validators
        else accepted
    )


def _not_accepted(state: RunState, refusal: str) -> RunState:
    """Return the state in which the agent's versions of the checks were refused: the round fails."""
    verdict = verdict_of(state.validators, refusal)
    return _decided(state.replace(changed_checks=None, refusal=refusal), verdict)


def _asked(state: RunState, questions: tuple[str, ...]) -> RunState:
    """Return the state with more open questions, each once."""
    return state.with_memory(
        open_questions=tuple(dict.fromkeys((*state.memory.open_questions, *questions)))
    )


def _answered(state: RunState, event: events.QuestionAnswered) -> RunState:
    """Return the state with the question closed; the answer is part of the next prompt."""
    still_open = tuple(
        question
        for question in state.memory.open_questions
        if question != event.question
    )
    is_new = event.observation is not None
    closed = state.with_memory(open_questions=still_open).with_evidence(
        [event.evidence_ref], new=is_new
    )
    closed = _with_message(
        closed, f"the question was answered{f' by {event.by}' if event.by else ''}"
    )
    if not is_new:  # a tool result contained the answer
        return closed
    interruption = state.interruption or Interruption()
    answers = (*interruption.answers, (event.question, event.answer))
    return closed.replace(
        interruption=interruption.model_copy(update={"answers": answers})
    )


def _noted(state: RunState, note: str) -> RunState:
    """Return the state with a note for the agent's next prompt, after those that it has not got yet."""
    before = state.interruption or Interruption()
    notes = "\n\n".join(filter(None, (before.note, note)))
    return state.replace(interruption=before.model_copy(update={"note": notes}))


def _with_message(state: RunState, decision: str) -> RunState:
    """Return the state with a message about a decision and what still waits, if the run ended waiting for a person."""
    if state.stop_reason not in (
        StopReason.APPROVAL_REQUIRED,
        StopReason.QUESTION_OPEN,
    ):
        return state
    run = state.goal.run_id
    waits = [
        f"{item.id} still waits for a person: goal approve {run} {item.id}"
        for item in state.waiting
    ]
    waits += [
        f'still open: {question}\ngoal answer {run} "..."'
        for question in state.memory.open_questions
    ]
    return state.replace(
        message="\n".join([decision, *(waits or [f"goal resume {run} goes on"])])
    )
