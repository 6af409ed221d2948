"""The append-only records of a run: events and transcript. Owns durability; folds nothing."""

from __future__ import annotations

from goalrunner.eventlog.append import AppendFile
from goalrunner.eventlog.following import follow_records
from goalrunner.eventlog.line import encode
from goalrunner.eventlog.lock import LogInUse, WriterLock, is_written
from goalrunner.eventlog.log import EventLog
from goalrunner.eventlog.reading import LogDamage, LogEnd, TornTail, read_end, read_lines, read_places, read_records
from goalrunner.eventlog.transcript import TranscriptFile, read_message, read_messages

__all__ = [
    "AppendFile",
    "EventLog",
    "LogDamage",
    "LogEnd",
    "LogInUse",
    "TornTail",
    "TranscriptFile",
    "WriterLock",
    "encode",
    "follow_records",
    "is_written",
    "read_end",
    "read_lines",
    "read_message",
    "read_messages",
    "read_places",
    "read_records",
]
