"""The transcript of a run of this program, with the log of the run beside it."""

from __future__ import annotations

from functools import partial

from goalrunner.core.observation import Trail
from goalrunner.core.summary import EvidenceIndex
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.event_log import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.transcripts.source import Deliverable, Source

DESCRIPTION = "folder of a run of this program, or its transcript.jsonl"


def matches(source: Source) -> bool:
    """Return whether it is the folder of a run, or a run's log lies beside the file."""
    path = source.path
    return path.name == "transcript.jsonl" and path.with_name("events.jsonl").is_file()


def read(source: Source, deliverable: Deliverable) -> Trail:
    """Return the trail of the run. Raise RecordError if log, transcript or artifacts were changed.

    With the log, observations keep their ids, facts and whole outputs, each checked against its hash. It has the responses
    too, so `deliverable` adds none.
    """
    path = source.path
    index = EvidenceIndex()
    for record in read_records(path.with_name("events.jsonl")):
        index.add(record)
    # Nothing is written, so there is nothing to redact.
    artifacts = ArtifactStore(path.with_name("artifacts"), Redactor({}))
    return index.trail(artifacts.read, partial(read_message, path))
