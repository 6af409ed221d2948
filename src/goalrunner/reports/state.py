"""The text of `goal show --state`: current step, evidence, and why the run continues or stopped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from goalrunner import policy
from goalrunner.model.outcome import GoalStatus
from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Layout, Line, plain
from goalrunner.state import RunState
from goalrunner.state.run_state import Approval
from goalrunner.state.spending import total_of

_SHOWN = 8
"""References and steps that are shown, the newest."""


def state_text(state: RunState, columns: int | None = None) -> str:
    """The state as lines. `columns` is a terminal's width, None a pipe's."""
    layout = Layout(columns)
    return "".join(plain(layout.rows(line)) for line in _lines(state))


def _lines(state: RunState) -> Iterator[Line]:
    memory = state.memory
    yield Fact("goal", state.goal.description, beside=("run", state.goal.run_id))
    yield Fact("event", f"{memory.version} of its log, {figures.elapsed(state.elapsed)} of active time")
    yield Fact("doing", _doing(state))
    yield from _named("done", [_with_evidence(state, step) for step in memory.completed_steps])
    yield from _named("pending", memory.pending_steps)
    yield from _named("questions", memory.open_questions)
    yield from _named("waits", [_waiting(item) for item in state.waiting])
    yield from map(_approval, [item for item in state.approvals if item.decision is not None][-_SHOWN:])
    yield from _named("protected", state.protected_changes)
    yield from _named("evidence", memory.evidence_refs)
    yield from _verdict(state)
    yield Fact("spent", " · ".join(figures.spent(total_of(state))))
    yield Fact("why", why(state))


def _doing(state: RunState) -> str:
    if state.status is not GoalStatus.RUNNING:
        reason = f" ({state.stop_reason})" if state.stop_reason else ""
        return f"nothing: the run is {state.status}{reason}"
    return (state.memory.current_step or "between two steps").replace("-", " ")


def _verdict(state: RunState) -> Iterator[Line]:
    if state.verdict is not None:
        said = "complete" if state.verdict.complete else "not complete"
        yield Fact("verdict", f"{figures.score(state.verdict.score)} · {said} · by the {state.verdict.source}")
        if state.verdict.missing:
            yield Fact("missing", state.verdict.missing)


def _waiting(item: Approval) -> str:
    """What waits: since when, on which evidence a person would decide, and when it expires."""
    until = f", until {item.expires_at}" if item.expires_at else ""
    return f"{item.id}: {item.action} ({item.rule}; since {item.requested_at}{until}{_on(item)})"


def _approval(item: Approval) -> Line:
    """What was decided: how, by whom, when, on which evidence, and whether the agent could have said it itself."""
    by = f" by {item.by}" if item.by else ""
    unguarded = "" if item.guarded else " (unguarded)"
    done = ", done" if item.used and item.decision == "approved" else ""
    said = f": {item.reason}" if item.reason else ""
    decided = f"{item.decision}{by}{unguarded} at {item.decided_at}{_on(item)}{done}{said}"
    return Fact("approval", f"{item.id}: {item.action} ({item.rule}) · {decided}")


def _on(item: Approval) -> str:
    return f", on {', '.join(item.evidence_refs[-_SHOWN:])}" if item.evidence_refs else ""


def _with_evidence(state: RunState, step: str) -> str:
    shown = state.memory.step_evidence.get(step)
    return f"{step} ({shown})" if shown else step


def _named(label: str, items: tuple[str, ...] | list[str]) -> Iterator[Line]:
    if items:
        more = f"{len(items) - _SHOWN} before · " if len(items) > _SHOWN else ""
        yield Fact(label, more + ", ".join(items[-_SHOWN:]))


def why(state: RunState) -> str:
    """Return the next step for this state, and so why the run continues or stopped."""
    step = policy.decide(state)
    match step:
        case policy.TakeBaseline():
            return "the validators run once before round 1"
        case policy.RunRound():
            said = {"first": "the agent starts round 1", "resumed": "the agent continues its round"}
            return said.get(step.prompt.kind, f"round {step.prompt.round} is next: the goal is not met yet")
        case policy.Validate():
            return f"round {step.round} has ended: the validators are next"
        case policy.Audit():
            return (
                "the validators are green, or the agent reports that it is blocked: the judge is next"
                if step.round
                else "the validators are green: the judge is next"
            )
        case policy.Confirm():
            return f"a second opinion is next: {step.claim}"
        case policy.AskApproval():
            return f"a person decides next: {step.rule}"
        case policy.Finish():
            return f"the run ends as {step.status} ({step.reason}): {step.message}".rstrip(": ")
        case _:
            assert_never(step)
