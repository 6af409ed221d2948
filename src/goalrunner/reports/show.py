"""A run shown again from its log, as `goal show` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from goalrunner.app.previous_run import sub_goals
from goalrunner.app.verification import Verification
from goalrunner.core.decision import (
    AskApproval,
    AskJudge,
    Confirm,
    RunRound,
    ScoreRound,
    SwitchAgent,
    TakeBaseline,
    Validate,
    decide,
)
from goalrunner.core.events import Record, RoundFinished, RunEnded
from goalrunner.core.observation import TranscriptRef
from goalrunner.core.outcome import GoalStatus
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.run_summary import RunSummary
from goalrunner.core.state_outcome import outcome_of
from goalrunner.reports import figures
from goalrunner.reports.closing import closing_lines
from goalrunner.reports.layout import (
    Fact,
    Quoted,
    ReportLine,
    facts,
    laid_out,
    nonempty_facts,
)
from goalrunner.reports.narrative import Narrative
from goalrunner.reports.next_steps import next_steps
from goalrunner.reports.short_forms import home_path
from goalrunner.reports.status import progress_lines, status_text
from goalrunner.reports.steps import LONGEST_WORDS
from goalrunner.reports.terminal_text import cut, join_nonempty, printable_line

if TYPE_CHECKING:
    from goalrunner.reports.progress import Progress

# References, steps and approvals that are shown: the newest ones.
_NEWEST = 8
# Characters of an event in a pipe, which has no width.
_LONGEST_EVENT = 200
# What comes next in a run, by the step that is decided on.
_NEXT: dict[type, str] = {
    TakeBaseline: "the validators run once before round 1",
    RunRound: "the goal is not met yet: the agent works on it",
    ScoreRound: "the round has ended: its score is next",
    Validate: "the round has ended: the validators are next",
    AskJudge: "the validators passed, or the agent is blocked: the judge is next",
    Confirm: "a second opinion is next",
    AskApproval: "a person decides next",
    SwitchAgent: "the agent cannot go on: another one takes the round over",
}


def show_text(
    records: Iterable[Record],
    *,
    folder: str,
    lost: Callable[[], bool] = lambda: False,
    words: Callable[[TranscriptRef], str] | None = None,
    columns: int | None = None,
) -> Iterator[str]:
    """Yield the text of each record, in memory that does not grow with the log.

    `lost`, which is called after the last record, returns whether the process of a run
    that has not ended is gone. `words` reads a message of the transcript; the last one
    of each round is shown, that of the whole run with all of its lines.
    """
    narrative = Narrative(words=words)
    answer = ""
    for record in records:
        yield laid_out(narrative.lines_of(record), columns)
        if isinstance(record.event, RoundFinished) and words and narrative.message:
            answer = words(narrative.message)
    # The answer may be what the user wants from the run, so it is shown whole.
    yield laid_out(_answer_lines(answer), columns)
    yield laid_out(_end(narrative, folder, lost), columns)


def _answer_lines(answer: str) -> Iterator[ReportLine]:
    """Yield the agent's last message, unless its step has shown all of it."""
    has_lines = "\n" in answer.strip("\n")
    if not has_lines and len(answer) <= LONGEST_WORDS:
        return
    first, *others = answer.strip("\n").splitlines()
    yield Fact("answer", first)
    for line in others:
        # Code, or a list within a list, keeps its indentation.
        yield Quoted(line) if line[:1].isspace() else Fact("", line)


def show_live(
    records: Iterable[Record],
    progress: Progress,
    *,
    folder: str,
    lost: Callable[[], bool],
) -> None:
    """Show the records of a run as the run itself does; `lost` as in `show_text`."""
    for record in records:
        progress.on_record(record)
    progress.close(_end(progress.narrative, folder, lost))


def _end(
    narrative: Narrative, folder: str, lost: Callable[[], bool]
) -> Iterator[ReportLine]:
    state = narrative.state
    if state is None:
        yield Fact("empty", "The log of this run has no events.")
        return
    yield Fact("folder", home_path(folder), whole=True)
    # A process that was killed could not record the end of its run.
    if state.status is not GoalStatus.RUNNING or not lost():
        outcome = outcome_of(state)
        yield from closing_lines(outcome, state, shown_missing=narrative.missing)
        return
    summary = RunSummary.of(state, lost=True)
    yield Fact("status", status_text(summary, datetime.now(UTC)), "warn")
    yield from progress_lines(summary)
    yield Fact("spent", figures.spend(summary))
    yield from next_steps(summary)


def family_lines(run_id: str, summaries: Sequence[Mapping[str, Any]]) -> Iterator[Fact]:
    """Yield the parent of a run and the tree of its sub-goals, oldest first.

    `summaries` are those of all runs, newest first.
    """
    runs = {str(values["run_id"]): RunSummary.read(values) for values in summaries}
    parent = runs[run_id].parent if run_id in runs else ""
    if parent:
        yield Fact("parent", _relative(parent, runs), whole=True)
    # A tree grows downwards, while lists of runs begin with the newest.
    tree = []
    for depth, values in sub_goals(run_id, list(reversed(summaries))):
        tree.append("└ " * (depth - 1) + _relative(str(values["run_id"]), runs))
    yield from facts("sub-goals", tree, whole=True)


def _relative(run_id: str, runs: Mapping[str, RunSummary]) -> str:
    summary = runs.get(run_id)
    # The folder of a parent may have been removed.
    if summary is None:
        return f"{run_id} · not found"
    return f"{run_id} · {summary.status} · {summary.objective}"


def events_text(records: Iterable[Record], columns: int | None = None) -> Iterator[str]:
    """Yield one line per record, in memory that does not grow with the log."""
    for record in records:
        values = []
        for name, value in record.event:
            # Lists and objects are in the JSON of the event.
            is_simple = isinstance(value, str | int | float)
            if name != "type" and is_simple and value not in ("", 0):
                values.append(f"{name} {value}")
        time = figures.elapsed(record.elapsed)
        head = f"{record.seq:>6}  {time:>8}  {record.event.type:<21}"
        text = f"{head}  {printable_line(' · '.join(values))}"
        yield f"{cut(text, columns or _LONGEST_EVENT).rstrip()}\n"


def state_lines(state: RunState) -> Iterator[ReportLine]:
    """Yield the state of a run."""
    summary = RunSummary.of(state)
    rows = {
        "run": state.goal.run_id,
        "goal": state.goal.description,
        "status": status_text(summary, datetime.now(UTC)),
    }
    yield from nonempty_facts(rows)
    time = figures.elapsed(state.elapsed)
    yield Fact("event", f"{state.memory.version} of its log, {time} of active time")
    yield from progress_lines(summary)
    for label, items in _lists(state).items():
        if items:
            older = len(items) - _NEWEST
            newest = ", ".join(items[-_NEWEST:])
            yield Fact(label, f"{older} before · {newest}" if older > 0 else newest)
    yield from facts("approvals", map(_approval, state.approvals[-_NEWEST:]))
    yield Fact("spent", " · ".join(figures.spent(state.spent())))
    yield Fact("why", why(state))


def _lists(state: RunState) -> dict[str, Sequence[str]]:
    """Return steps, files and evidence of a state by label."""
    memory = state.memory
    done = []
    for step in memory.completed_steps:
        observation = memory.step_evidence.get(step)
        done.append(f"{step} ({observation})" if observation else step)
    return {
        "done": done,
        "pending": memory.pending_steps,
        "protected": state.protected_changes,
        "evidence": memory.evidence_refs,
        "names": [f"{name} ({ref})" for name, ref in memory.evidence_names.items()],
    }


def _approval(item: Approval) -> str:
    """Return an approval with its rule, its evidence, and its decision."""
    decision = "waits"
    if item.decision is not None:
        decision = figures.decision_text(item.decision, item.by, guarded=item.guarded)
    evidence = ", ".join(item.evidence_refs[-_NEWEST:])
    action = f"{item.id}: {item.action} ({item.rule})"
    return join_nonempty(" · ", action, decision, item.reason, evidence)


def why(state: RunState) -> str:
    """Return why the run continues, or why it stopped."""
    step = decide(state)
    if not isinstance(step, RunEnded):
        return _NEXT[type(step)]
    text = f"the run ends as {step.status} ({step.stop_reason}): {step.message}"
    # The message may be empty.
    return text.rstrip(": ")


def verification_text(done: Verification) -> str:
    """Return what was checked, or the first damage; then what could not be checked."""
    notes = "".join(f"note: {printable_line(note)}\n" for note in done.notes)
    if done.broken is not None:
        place = done.broken.file
        if done.broken.byte is not None:
            place = f"{place}, byte {done.broken.byte}"
        damage = printable_line(done.broken.what)
        return f"not intact: {printable_line(place)}: {damage}\n{notes}"
    counts = (
        figures.count(done.events, "event"),
        figures.count(done.messages, "message"),
        figures.count(done.artifacts, "artifact"),
        figures.count(done.citations, "citation"),
    )
    return f"verified: {', '.join(counts)}\n{notes}"


def verification_value(done: Verification) -> dict[str, Any]:
    """Return every field, and `verified`, as a JSON value."""
    return {**asdict(done), "verified": done.broken is None}
