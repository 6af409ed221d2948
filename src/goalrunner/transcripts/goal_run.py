"""The reader of the transcripts of this program's own runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from goalrunner.core.evidence_index import EvidenceIndex
from goalrunner.core.observation import Trail
from goalrunner.core.trail_builder import Deliverable
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.records.transcript_file import read_message
from goalrunner.transcripts.source import TranscriptSource


class GoalRunReader:
    """The transcript of a run of this program, with the log of the run beside it."""

    DESCRIPTION = "folder of a run of this program, or its transcript.jsonl"

    def matches(self, source: TranscriptSource) -> bool:
        path = source.path
        # A path like "." has no name that could be replaced.
        if path.name != "transcript.jsonl":
            return False
        return path.with_name("events.jsonl").is_file()

    def read(self, source: TranscriptSource, deliverable: Deliverable) -> Trail:
        """Return the trail of the run.

        Observations keep their ids, facts and whole outputs, each checked against its
        hash in the log. The log contains the responses too, so `deliverable` has no
        effect. Raise RecordError if log, transcript or artifacts were changed.
        """
        path = source.path
        index = EvidenceIndex()
        for record in read_records(path.with_name("events.jsonl")):
            index.add(record)
        # Nothing is written, so there is nothing to redact.
        artifacts = ArtifactStore(path.with_name("artifacts"), Redactor({}))
        trail = index.trail(artifacts.read, partial(read_message, path))
        return replace(trail, stale=index.stale)
