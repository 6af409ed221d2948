"""What people do to a run from another process: decide, answer, cancel. Written into its log, as their commands do."""

from __future__ import annotations

import os

from goalrunner.app.previous_run import load_state
from goalrunner.core import events
from goalrunner.core.events import Decision
from goalrunner.core.observation import Observation
from goalrunner.core.outcome import StopReason
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, SystemClock
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder


def decide_approval(folder: RunFolder, decision: Decision, *, reason: str = "") -> str:
    """Approve or deny what waits; gives its id."""
    state = load_state(folder)
    waiting = state.waiting[0]
    recorded = events.ApprovalRecorded(
        approval_id=waiting.id,
        decision=decision,
        by="ann@desk",
        reason=reason,
        guarded=False,
    )
    append(folder, recorded)
    return waiting.id


def answer_question(folder: RunFolder, answer: str) -> str:
    """Answer the first open question; gives the id of the observation that holds the answer."""
    state = load_state(folder)
    question = state.memory.open_questions[0]
    ref = ArtifactStore(folder.artifacts, Redactor({})).put(answer.encode())
    identifier = f"o{state.observations + 1}"
    observation = Observation(
        id=identifier, source="answer", round=state.round, output=ref
    )
    append(
        folder,
        events.QuestionAnswered(
            question=question,
            answer=answer,
            evidence_ref=identifier,
            observation=observation,
            by="ann@desk",
        ),
    )
    return identifier


def cancel_run(folder: RunFolder) -> None:
    """Cancel a run that is not living, for good."""
    append(
        folder,
        events.RunEnded(
            message="ann@desk cancelled it", stop_reason=StopReason.CANCELLED
        ),
    )


def append(folder: RunFolder, event: events.Event) -> None:
    """Write one event into the log of a run that is not living."""
    with EventLog(folder.events, SystemClock(), Redactor(os.environ)) as log:
        log.append(event)
