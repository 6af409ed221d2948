"""Answers of people from another terminal: approve, deny, answer and cancel."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
    """Record a decision on what waits; gives it, and the state. Raises UsageError where there is nothing to decide."""
    with _visited(folder, environ, on_torn) as here:
        approval = _waiting(here.journal.state, approval_id)
        late = is_late(approval.expires_at, here.clock.now())
        recorded = events.ApprovalRecorded(
            approval_id=approval.id,
            decision="expired" if late else decision,
            by="" if late else by,
            reason="" if late else reason,
            guarded=here.journal.state.sandbox != "none",
            evidence_refs=approval.evidence_refs,
        )
        here.journal.append(recorded)
        here.save()
        state = here.journal.state
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
    """Answer an open question, the `number`th; gives it, the id of the answer's observation, and the state.

    Raises UsageError where there is no such question.
    """
    if not text.strip():
        raise UsageError("the answer is empty", 'goal answer RUN "..."')
    with _visited(folder, environ, on_torn) as here:
        question = _open_question(here.journal.state, number)
        record_answer(here.journal, question, QuestionReply(text.strip(), by))
        here.save()
        state = here.journal.state
        return question, state.memory.evidence_refs[-1], state


@contextmanager
def _visited(folder: RunFolder, environ: Mapping[str, str], on_torn: OnTorn) -> Iterator[Visit]:
    state = load_state(folder)
    _refuse_over(state)
    try:
        with visit(folder, environ, on_torn) as here:
            _refuse_over(here.journal.state)
            yield here
    except LogInUse as error:
        raise _busy(state, error) from None


def _refuse_over(state: RunState) -> None:
    run = state.goal.run_id
    if state.status is GoalStatus.COMPLETE:
        raise UsageError(f"run {run} is complete; nothing waits for a person", f"goal show {run}")
    if state.stop_reason in FINAL:
        raise UsageError(f"run {run} was cancelled, which is final; nothing waits for a person", f"goal show {run}")


def _busy(state: RunState, error: LogInUse) -> UsageError:
    run = state.goal.run_id
    if state.waiting:
        asked = ", ".join(item.id for item in state.waiting)
        return UsageError(
            f"run {run} is alive ({error.owner}) and is asking for {asked} at its own terminal", "answer there"
        )
    return UsageError(f"run {run} is alive ({error.owner}); nobody else can write into it", "wait for it to end")


def _waiting(state: RunState, approval_id: str | None) -> Approval:
    run = state.goal.run_id
    ids = ", ".join(item.id for item in state.waiting)
    if approval_id is None and len(state.waiting) == 1:
        return state.waiting[0]
    if approval_id is None and state.waiting:
        raise UsageError(f"run {run} waits for {ids}", f"name one of them: goal approve {run} {state.waiting[0].id}")
    known = next((item for item in reversed(state.approvals) if item.id == approval_id), None)
    if known is None and approval_id is not None:
        raise UsageError(f"run {run} has no approval {approval_id}", _what_waits(ids, run))
    if known is None:
        last = f"; {_decided(state.approvals[-1])}" if state.approvals else ""
        raise UsageError(f"nothing waits for a person in run {run}{last}", f"goal status {run}")
    if known.decision is not None:
        raise UsageError(_decided(known), _what_waits(ids, run))
    return known


def _decided(approval: Approval) -> str:
    match approval.decision:
        case "expired":
            return f"{approval.id} has expired"
        case "withdrawn":
            return f"{approval.id} was withdrawn: what it was about is there no more"
        case _:
            return f"{approval.id} was {approval.decision} by {approval.by or 'somebody'} at {approval.decided_at}"


def _what_waits(ids: str, run: str) -> str:
    return f"it waits for {ids}" if ids else f"nothing waits now; goal status {run}"


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


PATIENCE = 10.0
"""Seconds to wait for a living run to end; it does within two, where its machine is not overloaded."""
_EVERY = 0.1


def cancel_run(folder: RunFolder, reason: str = "", environ: Mapping[str, str] = os.environ) -> RunState:
    """End a run for good; gives its last state. Raises UsageError where it is over for good already."""
    _refuse_final(folder)
    said = f"cancelled by {person()}" + (f": {reason}" if reason else "")
    if is_written(folder.events):
        folder.write_json(folder.cancellation, {"said": said})
        _await_end(folder)
        state = load_state(folder)
        if state.stop_reason in FINAL:
            return state
    # It does not live, or its process died, or it ended for another reason meanwhile, which a resume could take back.
    with visit(folder, environ) as there:
        there.journal.append(RunEnded(stop_reason=StopReason.CANCELLED, message=said))
        there.save()
        return there.journal.state


def _await_end(folder: RunFolder) -> None:
    """Wait until no process has the run any more. Raises RecordError when that takes too long."""
    until = time.monotonic() + PATIENCE
    while is_written(folder.events):
        if time.monotonic() > until:
            raise RecordError(
                f"{folder.path} was asked to end, and is still running", "send its process a signal: kill PID"
            )
        time.sleep(_EVERY)


def _refuse_final(folder: RunFolder) -> None:
    state = load_state(folder)
    if state.stop_reason in FINAL:
        raise UsageError(f"run {folder.run_id} is {state.status} already", f"goal show {folder.run_id}")


@dataclass(frozen=True)
class Visit:
    """The journal of a run, folded to its end."""

    folder: RunFolder
    journal: Journal
    clock: Clock

    def save(self) -> None:
        """Let summary and outcome say what the log says now; the process that drove the run stays named."""
        state = self.journal.state
        kept = {"pid": read_summary(self.folder).get("pid", 0), "path": str(self.folder.path)}
        self.folder.write_json(self.folder.summary, {**summary_of(state), **kept})
        if state.status is not GoalStatus.RUNNING:
            outcome = self.journal.outcome(str(self.folder.path)).model_dump(mode="json")
            self.folder.write_json(self.folder.outcome, outcome)


@contextlib.contextmanager
def visit(
    folder: RunFolder, environ: Mapping[str, str], on_torn: Callable[[TornTail], None] | None = None
) -> Iterator[Visit]:
    """Open a run's log for writing. Raises LogInUse where a process drives it, RecordError for a damaged one."""
    clock, redactor = SystemClock(), run_redactor(folder, environ)
    with EventLog(folder.events, clock, redactor, on_torn=on_torn) as log, log.paused():
        transcript = TranscriptFile(folder.transcript, redactor)
        try:
            journal = Journal(log, transcript, ArtifactStore(folder.artifacts, redactor))
            for record in read_records(folder.events):
                journal.replay(record)
            yield Visit(folder, journal, clock)
        finally:
            transcript.close()


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
