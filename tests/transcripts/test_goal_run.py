"""A run's own transcript: with its log beside it, what was observed is read as it was recorded."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import (
    Event,
    GoalCreated,
    GoalRecord,
    MessageRecorded,
    RoundFinished,
    RoundStarted,
    RunRules,
    ToolResultRecorded,
    ValidatorsFinished,
)
from goalrunner.core.observation import Observation
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, SystemClock
from goalrunner.records.redaction import Redactor
from goalrunner.records.transcript_file import TranscriptFile
from goalrunner.transcripts import read_transcript

AT = "2026-11-21T20:00:00Z"


class Noon(SystemClock):
    """A clock that stands still."""

    def now(self) -> datetime:
        """The same moment again."""
        return datetime(2026, 11, 21, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        """No time passes."""
        return 0.0


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run with one shell call, one validator and a response."""
    redactor = Redactor({})
    artifacts = ArtifactStore(tmp_path / "artifacts", redactor)
    with closing(TranscriptFile(tmp_path / "transcript.jsonl", redactor)) as transcript:
        asked = transcript.append({"role": "user", "content": "Go."})
        message_ref = transcript.append({"role": "assistant", "content": "I run it."})
    shell = Observation(
        id="o1",
        source="shell",
        facts=("exit 1",),
        command="pytest",
        round=1,
        output=artifacts.put(b"2 failed \xff"),
    )
    silent = Observation(
        id="o2", source="validator tests", facts=("exit 0",), command="true", round=1
    )
    response = Observation(
        id="o3",
        source="response",
        facts=("round 1",),
        round=1,
        output=artifacts.put(b"I run it."),
    )
    happened: list[Event] = [
        GoalCreated(
            goal=GoalRecord(
                goal_id="g", run_id="r", description="Go.", created_at=AT, updated_at=AT
            ),
            plan=RunRules(),
        ),
        RoundStarted(round=1, prompt="first"),
        MessageRecorded(role="user", text=asked),
        MessageRecorded(role="assistant", text=message_ref),
        ToolResultRecorded(tool_call_id="a", evidence_ref="o1", observation=shell),
        RoundFinished(round=1, response=response),
        ValidatorsFinished(round=1, results=(), observations=(silent,)),
    ]
    with EventLog(tmp_path / "events.jsonl", Noon(), redactor) as log:
        for event in happened:
            log.append(event)
    return tmp_path


def shown(path: Path) -> list[str]:
    """Each item of the trail in one line."""
    trail = read_transcript(path)
    return [
        f"{item.heading if isinstance(item, Observation) else 'claim'} > {trail.read(item)}"
        for item in trail.items
    ]


@pytest.mark.parametrize("name", ["transcript.jsonl", ""])
def test_what_was_recorded_is_read_with_its_facts(run: Path, name: str) -> None:
    assert shown(run / name) == [
        "claim > I run it.",
        "[o1] shell (exit 1) > 2 failed \ufffd",
        "[o3] response (round 1) > I run it.",
        "[o2] validator tests (exit 0) > ",
    ]


def test_without_the_log_the_messages_alone_are_read(run: Path) -> None:
    (run / "events.jsonl").unlink()
    assert shown(run / "transcript.jsonl") == ["claim > I run it."]


def test_a_changed_output_is_no_evidence(run: Path) -> None:
    for path in (run / "artifacts").rglob("*"):
        if path.is_file() and path.read_bytes().startswith(b"2 failed"):
            path.chmod(0o600)
            path.write_bytes(b"43 passed ")
    with pytest.raises(RecordError):
        shown(run)


def test_a_changed_message_is_refused(run: Path) -> None:
    path = run / "transcript.jsonl"
    path.write_bytes(path.read_bytes().replace(b"I run it.", b"I ran it."))
    with pytest.raises(RecordError):
        shown(run)


def test_a_damaged_log_is_never_passed_over(run: Path) -> None:
    path = run / "events.jsonl"
    path.write_bytes(
        path.read_bytes().replace(b'"tool_result_recorded"', b'"tool_result"', 1)
    )
    with pytest.raises(RecordError):
        read_transcript(run)


def test_an_empty_folder_holds_no_transcript(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the format of this transcript is not known"):
        read_transcript(tmp_path)
