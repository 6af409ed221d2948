"""A run shown again from its log, with its state and its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, assert_never

from goalrunner.core.decision import decide
from goalrunner.core.events import Record, RunEnded
from goalrunner.core.fold import apply
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import GoalStatus
from goalrunner.core.progress import total_of
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.steps import AskApproval, Audit, Confirm, RunRound, TakeBaseline, Validate
from goalrunner.core.summary import outcome_of
from goalrunner.reports import figures
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.line import Fact, Layout, Line, plain
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.next_steps import next_steps, of_outcome, origin_of
from goalrunner.reports.summary import LOST
from goalrunner.reports.text import cut, home_path, one_line, pad


def show_text(
    records: Iterable[Record],
    *,
    folder: str,
    has_outcome: Callable[[], bool] = lambda: True,
    lost: Callable[[], bool] = lambda: False,
    words: Callable[[TranscriptRef], str] | None = None,
    columns: int | None = None,
) -> Iterator[str]:
    """Yield the text in pieces, one a record, in memory that does not grow with the log.

    `has_outcome` returns whether there is an outcome.json, `lost` whether the process of a run that has not ended is gone;
    both are called after the last record. `words` reads a message of the transcript; the last one of each round is shown.
    """
    narrative, state = Narrative(words=words), None

    def text(lines: Iterable[Line]) -> str:
        layout = Layout(columns, narrative.name_columns)
        return "".join(plain(layout.rows(line)) for line in lines)

    for record in records:
        state = apply(state, record)
        yield text(narrative.tell(record))
    yield text(_end(state, narrative, folder, has_outcome=has_outcome(), lost=lost()))


def _end(state: RunState | None, narrative: Narrative, folder: str, *, has_outcome: bool, lost: bool) -> Iterator[Line]:
    if state is None:
        yield Fact("empty", "The log of this run has no events.")
        return
    ended = state.status is not GoalStatus.RUNNING
    if not (ended and has_outcome):
        yield Fact("folder", home_path(folder), whole=True)
    if lost and not ended:
        yield from _lost(state)
    else:
        red = narrative.red if ended else ()
        outcome = outcome_of(state, folder if has_outcome else "")
        yield from closing_lines(outcome, red=red, told=narrative.missing, origin=narrative.origin)


def _lost(state: RunState) -> Iterator[Line]:
    """Yield how far a run had come whose process is gone, and the command that continues it."""
    yield Fact(LOST, "The process of this run has ended unexpectedly; everything that it recorded is kept.", "warn")
    step = state.memory.current_step
    parts = [
        f"last seen in {step.replace('-', ' ')}" if step else "last seen between two steps",
        f"{figures.count(state.iterations, 'round')} checked",
        figures.elapsed(state.elapsed),
    ]
    total = total_of(state, over=True)
    yield Fact("", " · ".join([*parts, *(figures.spent(total) if total.tokens or total.uncounted_calls else ())]))
    yield from next_steps(replace(of_outcome(outcome_of(state), origin_of(state)), status=LOST))


_KIND_COLUMNS = 21
_LONGEST = 200
_TELLING = (
    "step_id", "tool_call_id", "evidence_ref", "role", "summary", "account", "round", "moment", "standing", "passed",
    "approval_id", "kind", "decision", "by", "question", "stop_reason", "reason", "result_ref", "note", "action",
)  # fmt: skip
"""Fields that say what an event is about, in the order in which they are shown."""


def events_text(records: Iterable[Record], columns: int | None = None) -> Iterator[str]:
    """Yield one line per record, in memory that does not grow with the log."""
    width = columns or _LONGEST
    for record in records:
        event = record.event
        said = "  ".join(_told(name, value) for name in _TELLING if _says(value := getattr(event, name, None)))
        line = (
            f"{record.seq:>6}  {figures.elapsed(record.elapsed):>8}  {pad(event.type, _KIND_COLUMNS)}  {one_line(said)}"
        )
        yield cut(line, width).rstrip() + "\n"


def _says(value: Any) -> bool:
    return value is not None and value != ""


def _told(name: str, value: Any) -> str:
    return f"{name} {value}" if name in ("round", "passed") else str(value)


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
    step = decide(state)
    match step:
        case TakeBaseline():
            return "the validators run once before round 1"
        case RunRound():
            said = {"first": "the agent starts round 1", "resumed": "the agent continues its round"}
            return said.get(step.prompt.kind, f"round {step.prompt.round} is next: the goal is not met yet")
        case Validate():
            return f"round {step.round} has ended: the validators are next"
        case Audit():
            return (
                "the validators are green, or the agent reports that it is blocked: the judge is next"
                if step.round
                else "the validators are green: the judge is next"
            )
        case Confirm():
            return f"a second opinion is next: {step.claim}"
        case AskApproval():
            return f"a person decides next: {step.rule}"
        case RunEnded():
            return f"the run ends as {step.status} ({step.stop_reason}): {step.message}".rstrip(": ")
        case _:
            assert_never(step)
