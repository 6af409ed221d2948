"""The transcript of a run: its messages, and beside it the log that says what was observed.

With the log, observations keep their ids, their facts and their whole outputs, each checked against its hash. Without
it, the file is a chat like any other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from goalrunner.core.evidence import TrailIndex
from goalrunner.core.messages import text_of
from goalrunner.core.observation import Claim, Observation, Trail
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.reading import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.transcripts.source import Source

NAME = "the transcript.jsonl of a run"


def recognises(source: Source) -> bool:
    """Whether a run's log lies beside the file."""
    return source.path.name == "transcript.jsonl" and _log(source.path).is_file()


def read(source: Source, deliverable: Literal["workspace", "response"]) -> Trail:
    """The trail of the run. Raises RecordError when log, transcript or artifacts are not what was written.

    What the run kept of its responses is in the log; `deliverable` adds none.
    """
    index = TrailIndex()
    for record in read_records(_log(source.path)):
        index.add(record)
    # Nothing is written through it, so there is nothing to replace.
    artifacts = ArtifactStore(source.path.with_name("artifacts"), Redactor({}))

    def text(item: Observation | Claim) -> str:
        if isinstance(item, Observation):
            return artifacts.read(item.output).decode("utf-8", errors="replace") if item.output else ""
        return text_of(read_message(source.path, item.text).get("content")) if item.text else ""

    return Trail(items=tuple(index.items), read=text)


def _log(transcript: Path) -> Path:
    return transcript.with_name("events.jsonl")
