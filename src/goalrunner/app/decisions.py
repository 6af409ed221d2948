"""Decisions of people about a run, from any terminal."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from goalrunner.app.goal_models import goal_redactor
from goalrunner.app.previous_run import load_run, load_state, refuse_final
from goalrunner.app.run_snapshots import RunSnapshots, round_patch
from goalrunner.app.sandbox import person
from goalrunner.app.stored_goal import frozen_goal
from goalrunner.core.agent_ports import ApprovalRequest
from goalrunner.core.errors import GoalError, RecordError, UsageError, shortened
from goalrunner.core.events import QuestionAnswered, RunEnded
from goalrunner.core.outcome import FINAL, GoalStatus, StopReason
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.run_summary import RunSummary
from goalrunner.core.user_messages import LONGEST_USER_TEXT
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.person_decisions import answer_in, decision_on, record_given
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.decision_files import (
    DecisionFiles,
    GivenAnswer,
    GivenApproval,
    GivenDecision,
    GivenNote,
)
from goalrunner.records.event_log import EventLog, SystemClock, read_records
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_summaries import read_summary
from goalrunner.records.transcript_file import TranscriptFile
from goalrunner.records.writer_lock import LogInUse, has_writer

# Seconds to wait for an active run to end. It needs two, but its machine may be
# overloaded.
_CANCEL_TIMEOUT = 10.0
# Seconds in which an active run that asks a person takes a decision over.
_TAKEN_WITHIN = 3.0
_LOOK = 0.1  # seconds between two looks whether it did
_PREVIEW = 200_000  # bytes of a diff that is shown to a person


@contextlib.contextmanager
def _open_run(folder: RunFolder, environ: Mapping[str, str]) -> Iterator[RunJournal]:
    """Open the journal of a run that no process drives.

    Write summary and outcome at the end. Raise LogInUse.
    """
    redactor = run_redactor(folder, environ)
    files = DecisionFiles(folder.decisions)
    with (
        EventLog(folder.events, SystemClock(), redactor) as log,
        log.paused(),
        contextlib.closing(TranscriptFile(folder.transcript, redactor)) as transcript,
    ):
        journal = RunJournal(
            log,
            transcript,
            ArtifactStore(folder.artifacts, redactor),
            folder=folder.path,
        )
        for record in read_records(folder.events):
            journal.replay(record)
        _take_over(journal, files)
        yield journal
        summary = RunSummary.of(journal.state)
        summary.pid, summary.path = read_summary(folder).get("pid", 0), str(folder.path)
        folder.write_json(folder.summary, summary.values())
        if journal.state.status is not GoalStatus.RUNNING:
            folder.write_outcome(journal.outcome().model_dump(mode="json"))


def _take_over(journal: RunJournal, files: DecisionFiles) -> None:
    """Record the decisions that were written for a process which has ended.

    If the run has ended permanently, they have no effect.
    """
    if journal.state.stop_reason in FINAL:
        return
    for path, decision in files.pending():
        if decision.kind != "approval":
            continue
        for approval in journal.state.waiting:
            if approval.id == decision.approval_id:
                now = SystemClock().now()
                answer = answer_in(decision)
                journal.append(decision_on(approval, answer, now, journal.state))
                break
        files.remove(path)
    record_given(journal, files)


def run_redactor(folder: RunFolder, environ: Mapping[str, str]) -> Redactor:
    """Return the redactor of a run.

    A secret that its goal file no longer has is not replaced.
    """
    try:
        goal = frozen_goal(folder, environ, load_run(folder).goal_file)
        return goal_redactor(goal, environ)
    except (GoalError, OSError):
        # The values of variables are replaced in any case.
        return Redactor(dict(environ))


def record_decision(
    folder: RunFolder,
    decision: Literal["approved", "denied"],
    *,
    approval_id: str | None,
    by: str,
    reason: str = "",
    environ: Mapping[str, str],
) -> tuple[Approval, RunState]:
    """Record a decision on an approval; return the approval and the state.

    The approval that is returned has no decision if the process of the run has not
    taken it over yet. Raise UsageError if none waits.
    """
    chosen_id = waiting(_open_state(folder), approval_id).id
    given_approval = GivenApproval(
        approval_id=chosen_id, decision=decision, by=by, reason=reason
    )
    state = _decide(folder, given_approval, environ)
    recorded = next(item for item in reversed(state.approvals) if item.id == chosen_id)
    is_ours = (recorded.decision, recorded.by) == (decision, by)
    if recorded.decision not in (None, "expired") and not is_ours:
        # Another person was faster. This raises the error about that.
        waiting(state, chosen_id)
    if recorded.decision == "expired":
        raise UsageError(
            f"{recorded.id} of run {folder.run_id} expired at {recorded.expires_at}; "
            f"it can no longer be {decision}",
            f"goal resume {folder.run_id} continues without it",
        )
    return recorded, state


async def request_of(
    folder: RunFolder, approval: Approval, home: Path, environ: Mapping[str, str]
) -> ApprovalRequest:
    """Return what a person sees before the decision.

    This is the command or the diff, changed paths, and evidence.
    """
    is_result = approval.kind == "complete"
    loaded = load_run(folder)
    preview, changed_paths = "", tuple[str, ...]()
    # The artifact or the snapshots may be gone.
    with contextlib.suppress(GoalError):
        if approval.preview is not None:
            store = ArtifactStore(folder.artifacts, Redactor({}))
            preview = store.ends(approval.preview, _PREVIEW)[0].decode(errors="replace")
        elif is_result:
            patch = await round_patch(RunSnapshots.of(loaded), home, environ)
            preview = patch.text
            changed_paths = tuple(change.path for change in patch.changes)
    checks = loaded.state.changed_checks
    # A later round may have changed the checks again.
    if approval.kind == "checks" and checks and checks.key == approval.snapshot:
        return ApprovalRequest(approval, preview, checks.paths, checks=checks)
    evidence = loaded.outcome(folder).evidence if is_result else ()
    return ApprovalRequest(approval, preview, changed_paths, evidence)


def reply(
    folder: RunFolder,
    text: str,
    *,
    number: int | None,
    by: str,
    environ: Mapping[str, str],
) -> tuple[str, str, RunState]:
    """Answer an open question.

    Return the question, the id of the answer's observation, and the state. The id is
    empty if the process of the run has not taken the answer over yet. Raise UsageError.
    """
    if not text.strip():
        raise UsageError("the answer is empty", 'goal answer RUN "..."')
    question = open_question(_open_state(folder), number)
    answer = GivenAnswer(question=question, text=text.strip(), by=by)
    state = _decide(folder, answer, environ)
    is_open = question in state.memory.open_questions
    return question, "" if is_open else _answer_of(folder, question), state


def give_note(
    folder: RunFolder, text: str, *, by: str, environ: Mapping[str, str]
) -> RunState:
    """Give the agent a note with its next prompt; return the state.

    Raise UsageError if it is empty.
    """
    if not text.strip():
        raise UsageError("the note is empty", 'goal note RUN "..."')
    _open_state(folder)
    note = GivenNote(
        note_id=os.urandom(8).hex(),
        text=shortened(text.strip(), LONGEST_USER_TEXT),
        by=by,
    )
    return _decide(folder, note, environ)


def _answer_of(folder: RunFolder, question: str) -> str:
    """Return the id of the observation with the last answer to a question.

    Empty while it has none.
    """
    evidence = ""
    for record in read_records(folder.events):
        event = record.event
        if isinstance(event, QuestionAnswered) and event.question == question:
            evidence = event.evidence_ref
    return evidence


def _open_state(folder: RunFolder) -> RunState:
    """Return the state of a run. Raise UsageError if it has ended permanently."""
    state = load_state(folder)
    refuse_final(state)
    return state


def _decide(
    folder: RunFolder, decision: GivenDecision, environ: Mapping[str, str]
) -> RunState:
    """Let a decision be recorded; return the state after it.

    If a process drives the run, that process takes the decision over, and it may do so
    later.
    """
    files = DecisionFiles(folder.decisions)
    path = files.give(decision)
    try:
        until = time.monotonic() + _TAKEN_WITHIN
        while path.exists() and time.monotonic() < until:
            # If no process drives the run, opening it takes the decision over.
            with contextlib.suppress(LogInUse), _open_run(folder, environ):
                pass
            if path.exists():
                time.sleep(_LOOK)
        state = load_state(folder)
        if path.exists():
            refuse_final(state)
    except BaseException:
        # A decision that the person was not told of must not be taken over later.
        files.remove(path)
        raise
    return state


def waiting(state: RunState, approval_id: str | None) -> Approval:
    """Return the approval of that id, or the only one that waits.

    Raise UsageError if there is none, or several.
    """
    run, ids = state.goal.run_id, ", ".join(item.id for item in state.waiting)
    matching = [item for item in state.waiting if approval_id in (None, item.id)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(
            f"run {run} waits for {ids}",
            f"name one of them: goal approve {run} {matching[0].id}",
        )
    raise UsageError(
        f"run {run} {_why_not_waiting(state, approval_id)}",
        f"it waits for {ids}" if ids else f"nothing waits now; goal status {run}",
    )


def _why_not_waiting(state: RunState, approval_id: str | None) -> str:
    """Return why an approval, by default the last one, does not wait."""
    for decided in reversed(state.approvals):
        if approval_id in (None, decided.id):
            by = f" by {decided.by} at {decided.decided_at}" if decided.by else ""
            return (
                f"does not wait for {decided.id}, which was already decided: "
                f"{decided.decision}{by}"
            )
    return f"has no approval {approval_id or ''}".rstrip()


def open_question(state: RunState, number: int | None) -> str:
    """Return the question of that number, or the only one.

    Raise UsageError if there is none, or if there are several.
    """
    run, questions = state.goal.run_id, state.memory.open_questions
    if not questions:
        raise UsageError(f"run {run} has no open question", f"goal status {run}")
    if number is None and len(questions) == 1:
        return questions[0]
    if number is not None and 1 <= number <= len(questions):
        return questions[number - 1]
    lines = ""
    for listed_number, question in enumerate(questions, start=1):
        lines += f"\n{listed_number}  {question}"
    raise UsageError(
        f"the open questions of run {run} are:{lines}",
        "name one of them: --question N",
    )


def cancel_run(
    folder: RunFolder, reason: str = "", environ: Mapping[str, str] = os.environ
) -> RunState:
    """End a run permanently, and return its last state.

    Raise UsageError if it has ended permanently already.
    """
    _open_state(folder)
    message = f"cancelled by {person()}" + (f": {reason}" if reason else "")
    if has_writer(folder.events):
        folder.write_json(folder.cancellation, {"said": message})
        _await_end(folder)
        state = load_state(folder)
        if state.stop_reason in FINAL:
            return state
    # No process drives it, or it ended for another reason meanwhile, after which it
    # could be resumed.
    with _open_run(folder, environ) as journal:
        journal.append(RunEnded(stop_reason=StopReason.CANCELLED, message=message))
    return journal.state


def _await_end(folder: RunFolder) -> None:
    """Wait until no process drives the run. Raise RecordError after ten seconds."""
    until = time.monotonic() + _CANCEL_TIMEOUT
    while has_writer(folder.events):
        if time.monotonic() > until:
            pid = read_summary(folder).get("pid")
            at_once = f"; to end it at once: kill {pid}" if pid else ""
            raise RecordError(
                f"run {folder.run_id} is still active, {_CANCEL_TIMEOUT:.0f} s after "
                "the request to end",
                "a program that drives its own agent ends it after the agent's "
                f"turn{at_once}",
            )
        time.sleep(0.1)
