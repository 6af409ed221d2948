"""The state of a run that another process resumes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from goalrunner.core import events
from goalrunner.core.errors import some
from goalrunner.core.fold.person import with_note
from goalrunner.core.fold.usage import with_more_usage
from goalrunner.core.labels import Label
from goalrunner.core.outcome import FINAL, GoalStatus, StopReason
from goalrunner.core.run_state import (
    KEPT,
    Interruption,
    Phase,
    RunState,
    Stall,
    Waiting,
)
from goalrunner.core.waiting import fits

_NAMED_CALLS = 5
"""Calls that a label names; the event has all of them."""


def resumed(state: RunState, event: events.RunResumed, at: str) -> RunState:
    """Return the state of a run that is resumed at a time (ISO 8601).

    A run that cannot be resumed stays as it is.
    """
    if state.stop_reason in FINAL:
        return state
    before = state
    if state.stop_reason is StopReason.DENIED:
        # Otherwise the run would end with the same denial again.
        state = state.with_approvals(lambda approval: approval.refused, told=True)
    interruption = _interruption(state, event)
    patience = _patience(state, event.plan, at)
    state = with_more_usage(state, event.in_flight)
    state = state.with_memory(stop_reason=None)
    state = state.with_budget(deadline_at=event.deadline_at)
    state = _without_end(state).replace(
        goal=state.goal.model_copy(update={"status": "active"}),
        plan=event.plan,
        wait=patience.wait,
        waited=patience.waited,
        failure=state.failure if patience.wait else None,
        failures=state.failures if patience.wait else {},
        resumes=state.resumes + 1,
        # If the run had ended, a person decided to go on: another agent may take over.
        switched=state.switched and state.phase is not Phase.ENDED,
        # A sandbox counts only if every process of the run had it.
        sandbox=event.sandbox if event.sandbox == state.sandbox else "none",
        interruption=interruption,
        outside=tuple(dict.fromkeys((*state.outside, *event.changed)))[-KEPT:],
    )
    if event.abandoned:
        label = Label.UNKNOWN_EFFECTS.about(some(event.abandoned, _NAMED_CALLS))
        state = state.with_label(label)
    return _at_valid_phase(state, before, event)


def _without_end(state: RunState) -> RunState:
    """Return the state as if the run had not ended, with nothing counted yet."""
    return state.replace(
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
        limit=None,
        resets_at="",
        asking=False,
    )


def _interruption(state: RunState, event: events.RunResumed) -> Interruption | None:
    """Return what the next prompt says about the interruption; None for nothing."""
    before = with_note(state, event.note).interruption or Interruption()
    changed = tuple(dict.fromkeys((*before.changed, *event.changed)))
    abandoned = (*before.abandoned, *event.abandoned)
    interruption = before.model_copy(
        update={"changed": changed, "abandoned": abandoned}
    )
    return None if interruption == Interruption() else interruption


@dataclass(frozen=True)
class _Patience:
    """The wait with which a resumed run goes on, and the seconds that it has waited."""

    wait: Waiting | None
    waited: float


def _patience(state: RunState, plan: events.RunRules, at: str) -> _Patience:
    """Return how a run that is resumed at a time (ISO 8601) goes on waiting.

    It goes on with a wait that its rules allow; other work that failed is tried again
    at once.
    """
    wait = state.wait
    has_ended = state.phase is Phase.ENDED
    # If the run had ended, a person decided to go on: the sum of waits begins again.
    waited = 0.0 if has_ended else state.waited
    if wait is None or wait.kind != "limit":
        return _Patience(wait, waited)
    began = at if has_ended else wait.began
    until = datetime.fromisoformat(wait.until)
    if not fits(state.replace(plan=plan, waited=waited), began, until):
        return _Patience(None, waited)
    return _Patience(wait.model_copy(update={"began": began}), waited)


def _at_valid_phase(
    state: RunState, before: RunState, event: events.RunResumed
) -> RunState:
    """Return the resumed state at the last phase whose result is still valid.

    That is the phase at which the run stopped, unless what its result rests on may be
    different now. `before` is the state before the run was resumed.
    """
    phase, verdict = before.phase_before_end, before.verdict
    had_obstacle = before.obstacle and phase is Phase.VALIDATED
    had_leak = before.leaked and phase in (Phase.WORKED, Phase.VALIDATED)
    if had_obstacle or had_leak:
        # A person may have removed what kept the validators from running, or what
        # changed the workspace.
        snapshot = event.snapshot or before.snapshot
        return state.replace(phase=Phase.WORKED, snapshot=snapshot)
    may_differ = before.phase is Phase.ENDED or event.changed
    if phase is Phase.BASELINED and before.round == 0 and may_differ:
        # A person may have corrected what the baseline checks.
        return state.replace(phase=Phase.READY)
    if phase is Phase.CONFIRMED and before.confirmed:
        # By resuming the run, a person says that the confirmed claim is not so.
        refuted = verdict.blocked if verdict is not None else ""
        return state.replace(phase=Phase.JUDGED, confirmed="", refuted=refuted)
    if event.changed and _rests_on_files(state.replace(phase=phase)):
        return state.replace(phase=before.unchecked, snapshot=event.snapshot)
    return state.replace(phase=phase)


def _rests_on_files(state: RunState) -> bool:
    """Return whether files that changed meanwhile must be checked again.

    The phase of the state is the one at which the run stopped.
    """
    if state.phase in (Phase.WORKED, Phase.VALIDATED) or state.is_unread:
        return True
    is_judged = state.phase in (Phase.JUDGED, Phase.CONFIRMED)
    return is_judged and state.verdict is not None and state.verdict.complete
