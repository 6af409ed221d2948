"""How a run goes on in another process: which phase it takes up again. Pure.

What was done and recorded is never done again. What rested on files that have changed since is.
"""

from __future__ import annotations

from goalrunner import events
from goalrunner.model.outcome import GoalStatus, StopReason
from goalrunner.state.permission import taken_up
from goalrunner.state.run_state import KEPT, Interruption, Phase, RunState, Stall
from goalrunner.state.spending import with_cut

FINAL = frozenset({StopReason.SATISFIED, StopReason.CANCELLED})
"""Endings after which a run never goes on."""

_CHECKED = (Phase.WORKED, Phase.VALIDATED, Phase.JUDGED, Phase.CONFIRMED)


def resumed(state: RunState, event: events.RunResumed) -> RunState:
    """The state with which the next step is decided; a run that is over for good stays so."""
    if state.stop_reason in FINAL:
        return state
    state = with_cut(taken_up(state), event.in_flight)
    memory = state.memory.model_copy(
        update={
            "stop_reason": None,
            "budget_state": state.memory.budget_state.model_copy(update={"deadline_at": event.deadline_at}),
        }
    )
    told = state.interruption or Interruption()
    told = Interruption(
        note=event.note or told.note,
        changed=tuple(dict.fromkeys((*told.changed, *event.changed))),
        answers=told.answers,
    )
    going = state.model_copy(
        update={
            "memory": memory,
            "goal": state.goal.model_copy(update={"status": "active"}),
            "plan": event.plan,
            "status": GoalStatus.RUNNING,
            "stop_reason": None,
            "message": "",
            "signal": None,
            "ended_at": "",
            "resumes": state.resumes + 1,
            "sandbox": event.sandbox if event.sandbox == state.sandbox else "none",
            "awaiting": None,
            "interruption": None if told.is_silent else told,
            "outside": tuple(dict.fromkeys((*state.outside, *event.changed)))[-KEPT:],
        }
    )
    return _placed(going, event)


def _placed(state: RunState, event: events.RunResumed) -> RunState:
    """Back to the last phase whose result still holds, free of what a person has had a look at since."""
    phase = state.left if state.phase is Phase.ENDED else state.phase
    fresh = {"phase": phase, "stall": Stall(), "unstable": 0, "unread": 0, "leaks": 0, "obstacle": "", "obstacles": 0}
    if state.obstacle and phase is Phase.VALIDATED:
        # A person may have removed what kept the validators from running.
        return state.model_copy(update={**fresh, "phase": Phase.WORKED, "snapshot": event.snapshot or state.snapshot})
    if state.leaked and phase in (Phase.WORKED, Phase.VALIDATED):
        # The run stopped because the workspace changed meanwhile: it is checked again.
        return state.model_copy(update={**fresh, "phase": Phase.WORKED, "snapshot": event.snapshot or state.snapshot})
    if phase is Phase.BASELINED and state.round == 0 and (state.phase is Phase.ENDED or event.changed):
        # It may be the very thing that was mended.
        return state.model_copy(update={**fresh, "phase": Phase.READY})
    if phase is Phase.CONFIRMED and state.confirmed:
        return state.model_copy(update={**fresh, "phase": Phase.JUDGED, "confirmed": "", "refuted": _claim(state)})
    if phase in _CHECKED and event.changed and _rests_on_files(state, phase):
        # Of what was proven nothing counts any more: other files are there now.
        again = Phase.WORKED if state.round else Phase.READY
        return state.model_copy(update={**fresh, "phase": again, "snapshot": event.snapshot})
    return state.model_copy(update=fresh)


def _rests_on_files(state: RunState, phase: Phase) -> bool:
    """Whether the next step would believe what was seen on the files as they were."""
    return phase in (Phase.WORKED, Phase.VALIDATED) or (state.verdict is not None and state.verdict.complete)


def _claim(state: RunState) -> str:
    return state.verdict.blocked if state.verdict is not None else ""
