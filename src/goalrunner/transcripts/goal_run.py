"""The transcript of a run, with the log beside it that has the observations.

With the log, observations keep their ids, facts and whole outputs, each checked against its hash. Without it the file is an
ordinary chat.
"""

from __future__ import annotations

from functools import partial

from goalrunner.core.observation import Trail
from goalrunner.core.summary import EvidenceIndex
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.reading import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.transcripts.source import Deliverable, Source


def matches(source: Source) -> bool:
    """Return whether a run's log lies beside the file."""
    return source.path.name == "transcript.jsonl" and source.path.with_name("events.jsonl").is_file()


def read(source: Source, deliverable: Deliverable) -> Trail:
    """Return the trail of the run. Raise RecordError if log, transcript or artifacts were changed.

    The log has the responses too, so `deliverable` adds none.
    """
    index = EvidenceIndex()
    for record in read_records(source.path.with_name("events.jsonl")):
        index.add(record)
    # Nothing is written, so there is nothing to redact.
    artifacts = ArtifactStore(source.path.with_name("artifacts"), Redactor({}))
    return index.trail(artifacts.read, partial(read_message, source.path))
