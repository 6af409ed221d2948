"""A run shown again from its log: its rounds, events, state and verification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from goalrunner.app.previous_run import sub_goals
from goalrunner.app.verification import Verification
from goalrunner.core.decision import AskApproval, Audit, Confirm, Criticize, RunRound, TakeBaseline, Validate, decide
from goalrunner.core.events import Record, RoundFinished, RunEnded
from goalrunner.core.limits import at_work
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import GoalStatus
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.summary import outcome_of
from goalrunner.reports import figures
from goalrunner.reports.figures import LOST, Summary
from goalrunner.reports.layout import Fact, Line, Quoted, cut, facts, home_path, laid_out, one_line, output_lines
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.review import result_text
from goalrunner.reports.status import closing_lines, next_steps, summary_of
from goalrunner.reports.steps import LONGEST_WORDS

if TYPE_CHECKING:
    from goalrunner.reports.progress import Progress

_NEWEST = 8
"""References, steps and approvals that are shown, the newest."""
_LONGEST_EVENT = 200


def show_text(
    records: Iterable[Record],
    *,
    folder: str,
    lost: Callable[[], bool] = lambda: False,
    words: Callable[[TranscriptRef], str] | None = None,
    columns: int | None = None,
) -> Iterator[str]:
    """Yield the text of each record, in memory that does not grow with the log.

    `lost`, which is called after the last record, returns whether the process of a run that has not ended is gone. `words`
    reads a message of the transcript; the last one of each round is shown, that of the whole run with all of its lines.
    """
    narrative, answer = Narrative(words=words), ""
    for record in records:
        yield laid_out(narrative.lines_of(record), columns)
        if isinstance(record.event, RoundFinished) and words and narrative.message:
            answer = words(narrative.message)
    if "\n" in answer.strip("\n") or len(answer) > LONGEST_WORDS:  # else its step has shown it whole
        first, *more = answer.strip("\n").splitlines()
        # Code, or a list within a list, keeps its indentation.
        others = (Quoted(line) if line[:1].isspace() else Fact("", line) for line in more)
        yield laid_out([Fact("answer", first), *others], columns)
    yield laid_out(_end(narrative, folder, lost), columns)


def show_live(records: Iterable[Record], progress: Progress, *, folder: str, lost: Callable[[], bool]) -> None:
    """Show the records of a run as the run itself does; `lost` as in `show_text`."""
    for record in records:
        progress.on_record(record)
    progress.close(_end(progress.narrative, folder, lost))


def _end(narrative: Narrative, folder: str, lost: Callable[[], bool]) -> Iterator[Line]:
    state = narrative.state
    if state is None:
        yield Fact("empty", "The log of this run has no events.")
        return
    yield Fact("folder", home_path(folder), whole=True)
    ended, outcome = state.status is not GoalStatus.RUNNING, outcome_of(state)
    if ended or not lost():
        yield from closing_lines(outcome, state, shown=narrative.missing)
        return
    yield Fact(LOST, "The process of this run has ended unexpectedly; everything that it recorded is kept.", "warn")
    # No process is left that could report the usage of an interrupted turn.
    outcome = outcome.model_copy(update={"usage": state.accounts(over=True)})
    step, summary = state.memory.current_step, summary_of(outcome, state)
    seen = f"last seen while {at_work(state)} ran" if step else "last seen between two steps"
    yield Fact("", " · ".join((seen, f"{figures.count(state.iterations, 'round')} checked", summary.spend)))
    yield from next_steps(Summary({**summary.values, "status": LOST}))


def family_lines(run_id: str, summaries: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
    """Yield the parent of a run and the tree of its sub-goals, oldest first."""
    found = {str(summary["run_id"]): Summary(summary) for summary in summaries}
    parent = found[run_id].text("parent") if run_id in found else ""
    below = sub_goals(run_id, list(reversed(summaries)))
    tree = ["└ " * (depth - 1) + _relative(str(summary["run_id"]), found) for depth, summary in below]
    if parent:
        yield Fact("parent", _relative(parent, found), whole=True)
    yield from facts("sub-goals", tree, whole=True)


def _relative(run_id: str, found: Mapping[str, Summary]) -> str:
    summary = found.get(run_id)
    return f"{run_id} · {summary.status} · {summary.text('objective')}" if summary else f"{run_id} · not found"


def events_text(records: Iterable[Record], columns: int | None = None) -> Iterator[str]:
    """Yield one line per record, in memory that does not grow with the log."""
    for record in records:
        values = ((name, value) for name, value in record.event if isinstance(value, str | int | float))
        shown = [f"{name} {value}" for name, value in values if name != "type" and value not in ("", 0)]
        head = f"{record.seq:>6}  {figures.elapsed(record.elapsed):>8}  {record.event.type:<21}"
        yield cut(f"{head}  {one_line(' · '.join(shown))}", columns or _LONGEST_EVENT).rstrip() + "\n"


def state_lines(state: RunState) -> Iterator[Line]:
    """Yield the state of a run."""
    memory = state.memory
    if state.status is GoalStatus.RUNNING:
        doing = (memory.current_step or "between two steps").replace("-", " ")
    else:
        doing = f"nothing: the run is {state.status}" + (f" ({state.stop_reason})" if state.stop_reason else "")
    evidence = memory.step_evidence
    yield Fact("goal", state.goal.description, beside=("run", state.goal.run_id))
    yield Fact("event", f"{memory.version} of its log, {figures.elapsed(state.elapsed)} of active time")
    yield Fact("doing", doing)
    steps: dict[str, Sequence[str]] = {
        "done": [f"{step} ({evidence[step]})" if evidence.get(step) else step for step in memory.completed_steps],
        "pending": memory.pending_steps,
        "questions": memory.open_questions,
        "waits": [_approval(item) for item in state.waiting],
        "protected": state.protected_changes,
        "evidence": memory.evidence_refs,
        "names": [f"{name} ({ref})" for name, ref in memory.evidence_names.items()],
    }
    for label, items in steps.items():
        if items:
            more = f"{len(items) - _NEWEST} before · " if len(items) > _NEWEST else ""
            yield Fact(label, more + ", ".join(items[-_NEWEST:]))
    decided = [_approval(item) for item in state.approvals if item.decision is not None]
    yield from facts("approvals", decided[-_NEWEST:])
    if state.verdict is not None:
        yield Fact("verdict", f"{result_text(state.verdict)} · by the {state.verdict.source}")
        if state.verdict.missing:
            yield from output_lines("missing", state.verdict.missing)
    yield Fact("spent", " · ".join(figures.spent(state.spent())))
    yield Fact("why", why(state))


def _approval(item: Approval) -> str:
    """Return an approval with its rule, its evidence, and its decision or since when it waits."""
    rests_on = f", on {', '.join(item.evidence_refs[-_NEWEST:])}" if item.evidence_refs else ""
    if item.decision is None:
        until = f", until {item.expires_at}" if item.expires_at else ""
        return f"{item.id}: {item.action} ({item.rule}; since {item.requested_at}{until}{rests_on})"
    done = ", done" if item.used and item.decision == "approved" else ""
    said = figures.decision_text(item.decision, item.by, guarded=item.guarded)
    reason = f": {item.reason}" if item.reason else ""
    return f"{item.id}: {item.action} ({item.rule}) · {said} at {item.decided_at}{rests_on}{done}{reason}"


def why(state: RunState) -> str:
    """Return the next step for this state in words: why the run continues, or why it stopped."""
    step = decide(state)
    match step:
        case TakeBaseline():
            return "the validators run once before round 1"
        case RunRound():
            special = {"first": "the agent starts round 1", "resumed": "the agent continues its round"}
            special["refine"] = f"the critic asks for a refinement of round {step.round}"
            return special.get(step.kind, f"round {step.round} is next: the goal is not met yet")
        case Criticize():
            return f"round {step.round} has ended: the critic is next"
        case Validate():
            return f"round {step.round} has ended: the validators are next"
        case Audit():
            blocked = ", or the agent reports that it is blocked" if step.round else ""
            return f"the validators passed{blocked}: the judge is next"
        case Confirm():
            return f"a second opinion is next: {step.claim}"
        case AskApproval():
            return f"a person decides next: {step.rule}"
        case RunEnded():
            return f"the run ends as {step.status} ({step.stop_reason}): {step.message}".rstrip(": ")


def verification_text(done: Verification) -> str:
    """Return what was checked, or the first damage; then what could not be checked."""
    notes = "".join(f"note: {one_line(note)}\n" for note in done.notes)
    if done.broken is not None:
        place = done.broken.file if done.broken.byte is None else f"{done.broken.file}, byte {done.broken.byte}"
        return f"not intact: {one_line(place)}: {one_line(done.broken.what)}\n{notes}"
    counted = {
        "event": done.events,
        "message": done.messages,
        "artifact": done.artifacts,
        "citation": done.citations,
    }
    return f"verified: {', '.join(figures.count(number, noun) for noun, number in counted.items())}\n{notes}"


def verification_value(done: Verification) -> dict[str, Any]:
    """Return every field, and `verified`, as a JSON value."""
    return {**asdict(done), "verified": done.broken is None}
