"""Where the records of a run are: in its folder, or in memory (`memory_records`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from goalrunner.core.errors import RecordError
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import (
    EventLog,
    LogEnd,
    LogMirror,
    SystemClock,
    no_mirror,
)
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import TRACEBACK, RunFolder
from goalrunner.records.run_summaries import RunPlace, summary_writer
from goalrunner.records.transcript_file import TranscriptFile

if TYPE_CHECKING:
    from goalrunner.core.record_ports import Artifacts, Log, Transcript
    from goalrunner.core.run_state import RunState


class RunRecords(Protocol):
    """What a run records, and where; the engine knows only log, texts and outputs."""

    run_id: str

    @property
    def folder(self) -> RunFolder | None:
        """The run's folder; None if nothing of the run is kept."""

    @property
    def log(self) -> Log: ...

    @property
    def transcript(self) -> Transcript: ...

    @property
    def artifacts(self) -> Artifacts: ...

    def scratch(self, suffix: str = "") -> Path:
        """Return an unused path for a temporary file. Raise RecordError."""

    def store_traceback(self, text: str) -> str:
        """Store the traceback of a defect, and say where it is, for people."""

    def start_files(self) -> dict[str, str]:
        """Return the SHA-256 of each file that describes the start, by its path."""

    def save(self, state: RunState) -> None:
        """Store the summary of a state. Raise RecordError."""

    def cancel_request(self) -> str | None:
        """Return what was said in a request to cancel the run; None without one."""

    def write_outcome(self, outcome: dict[str, Any]) -> None:
        """Store the outcome. Raise RecordError."""

    def close(self) -> None:
        """Close files, and remove temporary ones. Closing twice does nothing."""


class FolderRecords:
    """The records of a run in its folder. Implements the port `RunRecords`."""

    def __init__(
        self,
        folder: RunFolder,
        redactor: Redactor,
        place: RunPlace,
        end: LogEnd | None = None,
        start_files: Callable[[], dict[str, str]] = dict,
        mirror: LogMirror = no_mirror,
    ) -> None:
        """Open the files, and lock the log. Raise RecordError.

        `end` is where the log of an earlier process ends; None: it is read. `mirror`
        gets the lines of the log before each effect.
        """
        self.folder = folder
        self.run_id = folder.run_id
        self.log = EventLog(folder.events, SystemClock(), redactor, end, mirror)
        self.transcript = TranscriptFile(folder.transcript, redactor, self.log)
        self.artifacts = ArtifactStore(folder.artifacts, redactor, self.log)
        self.start_files = start_files
        self.scratch = folder.scratch_file
        self.save = summary_writer(folder, place)
        self.write_outcome = folder.write_outcome

    def store_traceback(self, text: str) -> str:
        """Write a traceback into the folder, and say where it is."""
        try:
            path = self.folder.scratch_file(TRACEBACK)
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            # A full disk must not hide the error itself.
            return f"its traceback could not be written: {error.strerror}"
        except RecordError as error:
            return f"its traceback could not be written: {error.message}"
        return f"the traceback is in {path}"

    def cancel_request(self) -> str | None:
        """Return what `goal cancel` said, if it was called."""
        request = self.folder.cancellation
        if not request.exists():
            return None
        return str(json.loads(request.read_bytes())["said"])

    def close(self) -> None:
        """Close the files, and remove temporary ones but tracebacks."""
        self.log.close()
        self.transcript.close()
        self.folder.clear_scratch()
