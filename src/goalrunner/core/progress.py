"""Usage by account, steps of the runner and of the agent's plan, and the phase in which a run is resumed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from goalrunner.core import events
from goalrunner.core.approval_state import taken_up, with_budget, with_fields, with_memory
from goalrunner.core.events import Account
from goalrunner.core.outcome import GoalStatus, StopReason, Usage
from goalrunner.core.run_state import KEPT, Interruption, Phase, RunState, Stall
from goalrunner.core.verdict import GoalVerdict


def spent(state: RunState, account: str, usage: Usage) -> RunState:
    """A model call, or a part of an agent's turn, has said what it used."""
    last = state.last_call
    if usage.calls or usage.known_cost_usd:
        before = last.get(account)
        # An agent may say on one line how many tokens it used, and on the next one how many dollars.
        follows = state.external and state.awaiting is None and before is not None and not usage.calls
        last = {**last, account: before + usage if follows and before is not None else usage}
    accounts = {**state.usage, account: state.usage.get(account, Usage()) + usage}
    return count_usage(with_fields(state, usage=accounts, last_call=last, awaiting=None))


def with_cut(state: RunState, cut: Mapping[Account, Usage] | Mapping[str, Usage]) -> RunState:
    """The same, with what calls may have used that were under way when a process ended."""
    accounts = {**state.usage}
    for account, usage in cut.items():
        accounts[account] = accounts.get(account, Usage()) + usage
    return count_usage(with_fields(state, usage=accounts, awaiting=None))


def accounts_of(state: RunState, *, over: bool | None = None) -> dict[str, Usage]:
    """By account, what people and machines are told that was spent.

    An external agent says at the end of its turn what it used: of one that was cut that is not known. `over` says that
    nobody goes on with the run now; None: what its status says.
    """
    over = state.status is not GoalStatus.RUNNING if over is None else over
    if not (over and state.external and state.awaiting == "agent"):
        return dict(state.usage)
    return {**state.usage, "agent": state.usage.get("agent", Usage()) + Usage.unknown()}


def total_of(state: RunState, *, over: bool | None = None) -> Usage:
    """The sum of `accounts_of`."""
    return sum(accounts_of(state, over=over).values(), Usage())


def count_usage(state: RunState) -> RunState:
    """The budget of the working memory, brought up to date."""
    total = total_of(state)
    cents = None if total.cost_usd is None else round(total.cost_usd * 100, 6)
    tokens = None if total.input_tokens is None else total.tokens
    return with_budget(state, token_estimate=tokens, cost_cents=cents)


_RUNNERS = re.compile(r"baseline|(?:round|validate|audit|confirm|prove)-.*")
_OBSERVATION = re.compile(r"o([1-9][0-9]{0,9})")


def is_runners(step: str) -> bool:
    """Whether a step is one of the runner's own; the agent's plan may not name those."""
    return _RUNNERS.fullmatch(step) is not None


def begun(state: RunState, step: str) -> RunState:
    """A step of the runner begins. One that was open before it was cut, and is not done."""
    return with_fields(with_memory(_returned(state), current_step=step), seen="")


def ended(state: RunState, evidence: str = "") -> RunState:
    """The runner's step at hand is done. `evidence` is an observation; else the newest of the step, else the event itself."""
    if state.memory.current_step is None:
        return state
    current = state.memory.current_step
    step = current if is_runners(current) else f"round-{state.round}"
    shown = evidence or state.seen or f"e{state.memory.version + 1}"
    return completed(with_memory(_returned(state), current_step=None), {step: shown})


def completed(state: RunState, steps: dict[str, str]) -> RunState:
    """Steps are done, each with what shows it. The newest are kept."""
    memory = state.memory
    before = tuple(step for step in memory.completed_steps if step not in steps)
    done = (*before, *steps)[-KEPT:]
    evidence = {**memory.step_evidence, **steps}
    return with_memory(state, completed_steps=done, step_evidence={step: evidence[step] for step in done})


def remaining(state: RunState) -> tuple[str, ...]:
    """The steps that are still to come: those of the agent's plan, then the runner's. None after completion."""
    if state.phase is Phase.ENDED:
        return () if state.memory.stop_reason == "success" else state.memory.pending_steps
    planned = (step for step in state.memory.pending_steps if not is_runners(step))
    current = state.memory.current_step
    return tuple(dict.fromkeys(step for step in (*planned, *_upcoming(state)) if step != current))


def audit_evidence(state: RunState, verdict: GoalVerdict) -> str:
    """What shows an audit: the first observation that it cites, else the newest that the judge was shown."""
    for criterion in verdict.criteria:
        for citation in criterion.evidence:
            found = _OBSERVATION.fullmatch(citation.observation)
            if found and int(found[1]) <= state.observations:
                return citation.observation
    return state.memory.evidence_refs[-1] if state.memory.evidence_refs else ""


def _returned(state: RunState) -> RunState:
    """The agent's own step goes back to what is pending: the end of a turn does not show that it is done."""
    current = state.memory.current_step
    if current is None or is_runners(current):
        return state
    return with_memory(state, pending_steps=(current, *state.memory.pending_steps))


def _upcoming(state: RunState) -> list[str]:
    """What the runner itself has before it, until the goal is proven or the next round begins."""
    number, plan = state.round, state.plan
    again = [f"round-{number + 1}"]
    audit = [f"audit-{number}"] if plan.has_judge else []
    match state.phase:
        case Phase.READY:
            return [*(["baseline"] if plan.takes_baseline else []), *again]
        case Phase.BASELINED:
            green = state.baseline is not None and state.baseline.standing == "green"
            return audit if green else again
        case Phase.WORKING | Phase.WORKED:
            return [*([f"validate-{number}"] if plan.validators else []), *audit]
        case Phase.VALIDATED if not state.decided_by_validators:
            return audit
        case Phase.VALIDATED | Phase.JUDGED:
            return [] if state.verdict is not None and state.verdict.complete else again
        case Phase.CONFIRMED:
            return [] if state.confirmed else again
        case _:
            return []


def planned(state: RunState, event: events.PlanProposed) -> RunState:
    """The agent's steps beside the runner's; each completed one names the observation that shows it.

    A plan replaces the one before it, but for what is completed: that stays.
    """
    done = completed(state, event.completed)
    before = done.memory
    current = event.current or before.current_step
    if current in event.completed:
        current = None if state.round == 0 else f"round-{state.round}"
    left = (step for step in event.pending if step != current and step not in event.completed)
    runners = (step for step in before.pending_steps if is_runners(step))
    return with_memory(
        done,
        current_step=current,
        pending_steps=tuple(dict.fromkeys((*left, *runners))),
        proposed_stop=event.stop_reason,
    )


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
