"""The transcript of a run: the messages of the agent and of models, one a line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import RecordError, record_errors
from goalrunner.core.observation import TranscriptRef
from goalrunner.records.event_log import EventLog, encode
from goalrunner.records.files import AppendFile
from goalrunner.records.redaction import Redactor


class TranscriptFile:
    """The messages of a run in a file, secrets replaced.

    The lock of the run's log covers it. Raise RecordError.
    """

    def __init__(
        self, path: Path, redactor: Redactor, log: EventLog | None = None
    ) -> None:
        """Open the file.

        With a `log`, messages become durable before the next event that waits for the
        disk; else at once.
        """
        self._redactor = redactor
        self._file = AppendFile(path, log.names if log is not None else None)
        self._waits = log is None
        if log is not None:
            log.sync_first(self._file.sync)

    def append(self, message: Message) -> TranscriptRef:
        line = encode(self._redactor.json(dict(message)))
        offset = self._file.append(line, wait=self._waits)
        sha256 = hashlib.sha256(line).hexdigest()
        return TranscriptRef(offset=offset, length=len(line), sha256=sha256)

    def read(self, ref: TranscriptRef) -> Message:
        return read_message(self._file.path, ref)

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._file.close()


def read_message(path: Path, ref: TranscriptRef) -> Message:
    """Return one message of a transcript.

    Raise RecordError if it is not what was written.
    """
    with record_errors(f"cannot read {path}", ""), path.open("rb") as file:
        file.seek(ref.offset)
        line = file.read(ref.length)
    if len(line) != ref.length or hashlib.sha256(line).hexdigest() != ref.sha256:
        raise RecordError(
            f"{path}: the message at byte {ref.offset} differs from what was recorded"
        )
    message: Message = json.loads(line)
    return message
