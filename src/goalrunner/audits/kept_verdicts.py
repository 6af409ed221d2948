"""Verdicts of audits outside of runs, kept in a file for later calls."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from goalrunner.core.errors import UsageError, os_errors, record_errors
from goalrunner.core.field_types import Frozen
from goalrunner.core.outcome import Usage
from goalrunner.core.verdict import GoalVerdict, ValidatorResult

Result = Literal[
    "complete", "not complete", "unreadable", "judge failed", "not audited", "skipped"
]
EvidenceSource = Literal["transcript", "runner", "both", ""]
"""Who saw the results: the writer of the transcript, the runner, or both.

Empty if there is no verdict.
"""

_HINT = "name another file with --output: verdicts are only added to a file of verdicts"
# The beginning of each line. It tells a file of verdicts from a file that must not be
# changed, and a torn line from other content.
_START = b'{"key"'


class TranscriptAudit(Frozen):
    """The audit of one transcript."""

    key: str = ""
    """Equal for the same content, goal, judge, rules and version of this program."""
    transcript: str
    result: Result
    verdict: GoalVerdict | None = None
    problem: str = ""
    """Why there is no verdict."""
    format: str = ""
    partial: str = ""
    """What of the transcript was not read; empty if nothing is missing."""
    evidence: EvidenceSource = ""
    forgeable: tuple[str, ...] = ()
    """The cited observations that may show a file which the agent wrote."""
    validators: tuple[ValidatorResult, ...] = ()
    labels: tuple[str, ...] = ()
    judge: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    was_kept: bool = Field(default=False, exclude=True)
    """Whether an earlier command made it."""

    @property
    def missing(self) -> str:
        """Why it is not complete, in words."""
        if self.problem:
            return self.problem
        if self.verdict is None or self.verdict.complete:
            return ""
        return self.verdict.missing


class KeptVerdicts:
    """Verdicts by key, and their file: one JSON object a line.

    Several processes may add to it.
    """

    def __init__(self, path: Path) -> None:
        """Read the file, and make its folder.

        Torn lines and verdicts of another version are left out. Raise UsageError if the
        file cannot be read, or has other content.
        """
        self.path = path
        self._verdicts: dict[str, TranscriptAudit] = {}
        with os_errors(f"{path}: verdicts cannot be kept there", _HINT, UsageError):
            # Verdicts quote transcripts, which may be private.
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "rb") as file:
                lines = file.read().splitlines(keepends=True)
        self._is_torn = bool(lines) and not lines[-1].endswith(b"\n")
        for number, line in enumerate(lines, 1):
            if not _may_be_verdict(line):
                raise UsageError(f"{path}:{number}  not a verdict", _HINT)
            # A verdict of another version of this program is made again.
            with contextlib.suppress(ValidationError):
                verdict = TranscriptAudit.model_validate_json(line)
                self._verdicts[verdict.key] = verdict

    def get(self, key: str) -> TranscriptAudit | None:
        return self._verdicts.get(key)

    def add(self, verdict: TranscriptAudit) -> None:
        """Append a verdict; it is durable when this returns. Raise RecordError."""
        line = f"{verdict.model_dump_json()}\n".encode(errors="replace")
        if self._is_torn:
            # A line that an earlier process left unfinished must not swallow this one.
            line = b"\n" + line
        with (
            record_errors(f"{self.path} could not be written", ""),
            self.path.open("ab") as file,
        ):
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._is_torn = False
        self._verdicts[verdict.key] = verdict


def _may_be_verdict(line: bytes) -> bool:
    """Return whether a line begins as a verdict does, or is torn before that ends."""
    text = line.rstrip(b"\n")
    is_torn = bool(text) and _START.startswith(text)
    return line.startswith(_START) or is_torn
