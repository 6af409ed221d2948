"""The records of a run in memory, which end with the run."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import RecordError, record_errors
from goalrunner.core.observation import ArtifactRef, TranscriptRef
from goalrunner.records.event_log import RecordSequence, SystemClock, encode
from goalrunner.records.redaction import Redactor

if TYPE_CHECKING:
    from goalrunner.core.events import Event, Record
    from goalrunner.core.run_state import RunState

_LOGGER = logging.getLogger("goalrunner")


class MemoryLog(RecordSequence):
    """A log that keeps no event: the state is folded from each as it comes."""

    def append(self, event: Event) -> Record:
        """Return the record of the next event, secrets replaced. Raise RecordError."""
        record, line = self.make(event)
        self.advance(record, line)
        return record

    def sync(self) -> None:
        """Do nothing: there is no disk to wait for."""


class MemoryTranscript:
    """The messages of a run in memory; secrets are replaced."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._lines: list[bytes] = []

    def append(self, message: Message) -> TranscriptRef:
        """Add a message. Its place is its number. Raise RecordError."""
        line = encode(self._redactor.json(dict(message)))
        self._lines.append(line)
        return TranscriptRef(
            offset=len(self._lines) - 1,
            length=len(line),
            sha256=hashlib.sha256(line).hexdigest(),
        )

    def read(self, ref: TranscriptRef) -> Message:
        """Return the message at a place."""
        message: Message = json.loads(self._lines[ref.offset])
        return message


class MemoryArtifacts:
    """The whole outputs of a run in memory, by their hashes; secrets are replaced."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._outputs: dict[str, bytes] = {}

    def put(self, data: bytes) -> ArtifactRef:
        """Store bytes, secrets replaced."""
        redacted = self._redactor.data(data)
        sha256 = hashlib.sha256(redacted).hexdigest()
        self._outputs[sha256] = redacted
        return ArtifactRef(sha256=sha256, size=len(redacted))

    def adopt(
        self,
        path: Path,
        hurried: Callable[[], bool] = lambda: False,
    ) -> ArtifactRef:
        """Store the content of a file, and remove the file. Raise RecordError."""
        with record_errors(f"cannot take over {path}"):
            # A link or a pipe in its place is refused.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(handle, "rb") as file:  # noqa: PTH123 - a handle
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise RecordError(
                        f"cannot take over {path}: it is not a regular file"
                    )
                ref = self.put(file.read())
            path.unlink()
        return ref

    def read(self, ref: ArtifactRef) -> bytes:
        """Return an output. Raise RecordError if it was never stored."""
        data = self._outputs.get(ref.sha256)
        if data is None:
            raise RecordError(f"there is no output {ref.sha256}")
        return data

    def ends(self, ref: ArtifactRef, each: int) -> tuple[bytes, bytes]:
        """Return both ends of an output; of a short one all, and nothing."""
        data = self.read(ref)
        if len(data) <= 2 * each:
            return data, b""
        return data[:each], data[-each:]


class MemoryRecords:
    """The records of a run that keeps nothing. Implements the port `RunRecords`."""

    folder = None

    def __init__(self, redactor: Redactor) -> None:
        # No run has to be found by it, so it is only unlikely to occur twice.
        self.run_id = os.urandom(8).hex()
        self.log = MemoryLog(SystemClock(), redactor)
        self.transcript = MemoryTranscript(redactor)
        self.artifacts = MemoryArtifacts(redactor)
        self._scratch: Path | None = None

    def scratch(self, suffix: str = "") -> Path:
        """Return an unused path in a temporary folder, which `close` removes."""
        if self._scratch is None:
            # Only a tool that runs a command needs it, for the output.
            self._scratch = Path(tempfile.mkdtemp(prefix="goal-"))
        return self._scratch / (os.urandom(8).hex() + suffix)

    def store_traceback(self, text: str) -> str:
        """Log a traceback as an error, and say where it is."""
        _LOGGER.error("a run without records failed:\n%s", text)
        return 'the traceback is in the log of the logger "goalrunner"'

    def start_files(self) -> dict[str, str]:
        """Return none: no file describes the start."""
        return {}

    def save(self, state: RunState) -> None:
        """Do nothing."""

    def cancel_request(self) -> str | None:
        """Return None: no other process can name the run."""
        return None

    def write_outcome(self, outcome: dict[str, Any]) -> None:
        """Do nothing: the caller gets the outcome."""

    def close(self) -> None:
        """Remove the temporary folder, if there is one."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
