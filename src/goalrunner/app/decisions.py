"""Answers of people from another terminal: approve, deny, answer and cancel."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from goalrunner.app.external_agent import resolve_agent
from goalrunner.app.goal_secrets import goal_redactor, withheld
from goalrunner.app.location import SystemClock, person
from goalrunner.app.previous_run import frozen_goal, goal_file_of, load_state
from goalrunner.core import events
from goalrunner.core.approval_rules import is_late
from goalrunner.core.errors import GoalError, RecordError, UsageError
from goalrunner.core.events import RunEnded, RunStarted
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.core.ports import Clock, QuestionReply
from goalrunner.core.progress import FINAL
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.summary import summary_of
from goalrunner.engine.approvals import record_answer
from goalrunner.engine.journal import Journal
from goalrunner.records.artifacts import ArtifactStore, TranscriptFile
from goalrunner.records.event_log import EventLog, LogInUse, is_written
from goalrunner.records.reading import TornTail, read_records
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_index import read_summary

OnTorn = Callable[[TornTail], None] | None

_CANCEL_TIMEOUT = 10.0
"""Seconds to wait for a living run to end; it does within two, unless its machine is overloaded."""
_INTERVAL = 0.1


@dataclass(frozen=True)
class OpenRun:
    """The journal of a run that no process drives, folded to its end."""

    folder: RunFolder
    journal: Journal
    clock: Clock

    def record(self, event: events.Event) -> RunState:
        """Record an event, rewrite summary and outcome, and return the state. The process that drove the run stays named."""
        self.journal.append(event)
        return self.save()

    def save(self) -> RunState:
        """Rewrite summary and outcome, and return the state."""
        state = self.journal.state
        kept = {"pid": read_summary(self.folder).get("pid", 0), "path": str(self.folder.path)}
        self.folder.write_json(self.folder.summary, {**summary_of(state), **kept})
        if state.status is not GoalStatus.RUNNING:
            outcome = self.journal.outcome(str(self.folder.path)).model_dump(mode="json")
            self.folder.write_json(self.folder.outcome, outcome)
        return state


@contextlib.contextmanager
def open_run(folder: RunFolder, environ: Mapping[str, str], on_torn: OnTorn = None) -> Iterator[OpenRun]:
    """Open a run's log for writing. Raise LogInUse if a process drives it, RecordError for a damaged one."""
    clock, redactor = SystemClock(), run_redactor(folder, environ)
    with (
        EventLog(folder.events, clock, redactor, on_torn=on_torn) as log,
        log.paused(),
        contextlib.closing(TranscriptFile(folder.transcript, redactor)) as transcript,
    ):
        journal = Journal(log, transcript, ArtifactStore(folder.artifacts, redactor))
        for record in read_records(folder.events):
            journal.replay(record)
        yield OpenRun(folder, journal, clock)


def run_redactor(folder: RunFolder, environ: Mapping[str, str]) -> Redactor:
    """Return what replaces secrets as in the run itself; a secret that its goal file no longer holds is unknown."""
    try:
        started = next(
            (record.event for record in read_records(folder.events) if isinstance(record.event, RunStarted)), None
        )
        goal = frozen_goal(folder, environ, goal_file_of(started) if started else None)
        return goal_redactor(goal, environ, withheld(goal, resolve_agent(goal, environ)))
    except (GoalError, OSError):
        return Redactor(dict(environ))


def decide(
    folder: RunFolder,
    decision: Literal["approved", "denied"],
    *,
    approval_id: str | None,
    by: str,
    reason: str = "",
    environ: Mapping[str, str],
    on_torn: OnTorn = None,
) -> tuple[Approval, RunState]:
    """Record a decision on what waits, and return it with the state. Raise UsageError if there is nothing to decide."""
    with _waiting_run(folder, environ, on_torn) as run:
        approval = _waiting(run.journal.state, approval_id)
        late = is_late(approval.expires_at, run.clock.now())
        state = run.record(
            events.ApprovalRecorded(
                approval_id=approval.id,
                decision="expired" if late else decision,
                by="" if late else by,
                reason="" if late else reason,
                guarded=run.journal.state.sandbox != "none",
                evidence_refs=approval.evidence_refs,
            )
        )
        if late:
            raise UsageError(
                f"{approval.id} of run {folder.run_id} expired at {approval.expires_at}; it can no longer be {decision}",
                f"goal resume {folder.run_id} goes on without it",
            )
        return next(item for item in reversed(state.approvals) if item.id == approval.id), state


def reply(
    folder: RunFolder,
    text: str,
    *,
    number: int | None,
    by: str,
    environ: Mapping[str, str],
    on_torn: OnTorn = None,
) -> tuple[str, str, RunState]:
    """Answer an open question, the `number`th; return it, the id of the answer's observation, and the state.

    Raise UsageError if there is no such question.
    """
    if not text.strip():
        raise UsageError("the answer is empty", 'goal answer RUN "..."')
    with _waiting_run(folder, environ, on_torn) as run:
        question = _open_question(run.journal.state, number)
        record_answer(run.journal, question, QuestionReply(text.strip(), by))
        state = run.save()
        return question, state.memory.evidence_refs[-1], state


@contextlib.contextmanager
def _waiting_run(folder: RunFolder, environ: Mapping[str, str], on_torn: OnTorn) -> Iterator[OpenRun]:
    """Open a run that may wait for a person. Raise UsageError if it is over for good, or if a process drives it."""
    state, run = load_state(folder), folder.run_id
    _refuse_final(state)
    try:
        with open_run(folder, environ, on_torn) as opened:
            _refuse_final(opened.journal.state)
            yield opened
    except LogInUse as error:
        if state.waiting:
            ids = ", ".join(item.id for item in state.waiting)
            asking = f"run {run} is active ({error.owner}) and asks for {ids} at its own terminal"
            raise UsageError(asking, "answer there") from None
        raise UsageError(
            f"run {run} is active ({error.owner}); no other process can change it", "wait for it to end"
        ) from None


def _refuse_final(state: RunState) -> None:
    run = state.goal.run_id
    if state.stop_reason in FINAL:
        ended = "is complete" if state.status is GoalStatus.COMPLETE else "was cancelled, which is final"
        raise UsageError(f"run {run} {ended}; nothing waits for a person", f"goal show {run}")


def _waiting(state: RunState, approval_id: str | None) -> Approval:
    """Return the approval of that id, or the only one that waits."""
    run = state.goal.run_id
    ids = ", ".join(item.id for item in state.waiting)
    hint = f"it waits for {ids}" if ids else f"nothing waits now; goal status {run}"
    if approval_id is None:
        if len(state.waiting) == 1:
            return state.waiting[0]
        if state.waiting:
            raise UsageError(
                f"run {run} waits for {ids}", f"name one of them: goal approve {run} {state.waiting[0].id}"
            )
        last = f"; {_decided(state.approvals[-1])}" if state.approvals else ""
        raise UsageError(f"nothing waits for a person in run {run}{last}", f"goal status {run}")
    known = next((item for item in reversed(state.approvals) if item.id == approval_id), None)
    if known is None:
        raise UsageError(f"run {run} has no approval {approval_id}", hint)
    if known.decision is not None:
        raise UsageError(_decided(known), hint)
    return known


def _decided(approval: Approval) -> str:
    match approval.decision:
        case "expired":
            return f"{approval.id} has expired"
        case "withdrawn":
            return f"{approval.id} was withdrawn: what it would have approved has changed"
        case _:
            return f"{approval.id} was {approval.decision} by {approval.by or 'a person'} at {approval.decided_at}"


def _open_question(state: RunState, number: int | None) -> str:
    run, questions = state.goal.run_id, state.memory.open_questions
    if not questions:
        raise UsageError(f"run {run} has no open question", f"goal status {run}")
    if number is None and len(questions) == 1:
        return questions[0]
    listed = "\n".join(f"{at}  {question}" for at, question in enumerate(questions, start=1))
    if number is None:
        raise UsageError(f"run {run} has {len(questions)} open questions:\n{listed}", "name one of them: --question N")
    if not 1 <= number <= len(questions):
        raise UsageError(f"run {run} has no question {number}; open are:\n{listed}")
    return questions[number - 1]


def cancel_run(folder: RunFolder, reason: str = "", environ: Mapping[str, str] = os.environ) -> RunState:
    """End a run for good, and return its last state. Raise UsageError if it is over for good already."""
    if (state := load_state(folder)).stop_reason in FINAL:
        raise UsageError(f"run {folder.run_id} is {state.status} already", f"goal show {folder.run_id}")
    message = f"cancelled by {person()}" + (f": {reason}" if reason else "")
    if is_written(folder.events):
        folder.write_json(folder.cancellation, {"said": message})
        _await_end(folder)
        if (state := load_state(folder)).stop_reason in FINAL:
            return state
    # No process drives it, or it ended for another reason meanwhile, after which it could be resumed.
    with open_run(folder, environ) as run:
        return run.record(RunEnded(stop_reason=StopReason.CANCELLED, message=message))


def _await_end(folder: RunFolder) -> None:
    """Wait until no process drives the run. Raise RecordError if that takes too long."""
    until = time.monotonic() + _CANCEL_TIMEOUT
    while is_written(folder.events):
        if time.monotonic() > until:
            raise RecordError(
                f"{folder.path} was asked to end, and is still running", "send its process a signal: kill PID"
            )
        time.sleep(_INTERVAL)
