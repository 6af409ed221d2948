"""The agent's turn: its prompt, its messages and tool calls, and its end."""

from __future__ import annotations

from goalrunner.core import events
from goalrunner.core.actions import action_of, with_actions
from goalrunner.core.fold.failures import before_prompt, without_failures
from goalrunner.core.fold.person import with_withdrawn
from goalrunner.core.fold.usage import account_in_flight
from goalrunner.core.labels import Label
from goalrunner.core.observation import UNASKED
from goalrunner.core.run_state import KEPT, Phase, RunState, Stall
from goalrunner.core.steps import with_step, with_step_done


def round_started(state: RunState, event: events.RoundStarted) -> RunState:
    """Return the state of a new round, without the results of the last one."""
    state = with_step(state, f"round-{event.round}").with_memory(proposed_stop="")
    # In a new round, every approval that still waits is void.
    state = with_withdrawn(state, lambda _: True)
    return before_prompt(state).replace(
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


def refinement_started(state: RunState, event: events.RefinementStarted) -> RunState:
    # The round stays the same: its results are those of the turn after this prompt.
    begun = before_prompt(with_step(state, f"round-{event.round}"))
    return begun.replace(phase=Phase.WORKING, refinements=event.number)


def message_recorded(state: RunState, event: events.MessageRecorded) -> RunState:
    """Return the state after a message.

    After a prompt or the result of a tool, the agent's model is asked next.
    """
    if state.phase is not Phase.WORKING:
        return state
    if event.role == "user":
        return state.replace(prompted=True, awaiting="agent", interruption=None)
    if event.role == "tool" and state.calling is None:
        return state.replace(awaiting="agent")
    return state


def tool_called(state: RunState, event: events.ToolCalled) -> RunState:
    # The approval is used up; it does not permit another call.
    used = state.with_approvals(
        lambda item: (
            item.tool_call_id == event.tool_call_id and item.decision is not None
        ),
        used=True,
    )
    return used.replace(calling=event.tool_call_id, awaiting=account_in_flight(state))


def tool_result_recorded(state: RunState, event: events.ToolResultRecorded) -> RunState:
    plan, is_reported = state.plan, bool(event.observation.reported_by)
    state = without_failures(state, "agent")
    references = (*state.memory.tool_result_refs, event.tool_call_id)[-KEPT:]
    state = state.with_memory(tool_result_refs=references)
    state = state.with_evidence([event.evidence_ref])
    state = state.replace(
        calling=None, asking=False, stall=_stall_with_action(state, event)
    )
    if not is_reported:
        return state
    if UNASKED in event.observation.facts:
        state = state.with_label(Label.UNASKED)
    has_only_reports = plan.has_judge and not plan.validators
    if has_only_reports and plan.deliverable == "workspace":
        state = state.with_label(Label.RESTS_ON_REPORTS)
    if state.phase is Phase.WORKING:
        # An external agent's model goes on, without a message that says so.
        return state.replace(awaiting="agent")
    return state


def _stall_with_action(state: RunState, event: events.ToolResultRecorded) -> Stall:
    """Return the stall in which the tool call counts among those of the round."""
    action = action_of(event.observation, state.working_folder)
    added = {action: 1} if action else {}
    doing = with_actions(state.stall.doing, added)
    return state.stall.model_copy(update={"doing": doing})


def round_finished(state: RunState, event: events.RoundFinished) -> RunState:
    state = without_failures(state, "agent")
    response_ids = [event.response.id] if event.response else []
    state = with_step_done(state.with_evidence(response_ids))
    output = event.response.output if event.response else None
    # Approvals of its tool calls are void after a turn.
    state = with_withdrawn(state, lambda item: item.kind not in ("complete", "checks"))
    return state.replace(
        phase=Phase.WORKED,
        snapshot=event.snapshot,
        content=_content_after(state, event),
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


def _content_after(state: RunState, event: events.RoundFinished) -> str:
    """Return the id of the snapshot after the agent's last change; empty if unknown.

    Files that checks write between two rounds, such as `outputs`, are not changes of
    the agent: a round in which it changed nothing keeps the content before it.
    """
    if event.idle and state.content:
        return state.content
    return event.snapshot.id if event.snapshot else ""
