"""Protocols of people, stores, clock and ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from goalrunner.core.events import Event, Record
from goalrunner.core.observation import ArtifactRef, EvidenceRow, TranscriptRef
from goalrunner.core.run_state import Approval


@dataclass(frozen=True)
class ApprovalAnswer:
    """What a person said of something that waits."""

    decision: Literal["approved", "denied"]
    by: str = ""
    """user@host"""
    reason: str = ""
    typed: bool = False
    """Whether it was typed at a terminal, which a command of the agent may reach unless it is in a sandbox."""


@dataclass(frozen=True)
class ApprovalRequest:
    """What a person is shown."""

    approval: Approval
    preview: str = ""
    """A unified diff: of the file that would be written, for a completion of all since the start; empty for a command."""
    changed: tuple[str, ...] = ()
    """Paths that differ from the start of the run, for a completion."""
    evidence: tuple[EvidenceRow, ...] = ()
    """What a completion rests on: a row for each citation, and for each validator."""


@dataclass(frozen=True)
class QuestionReply:
    """What a person said to a question."""

    text: str
    by: str = ""
    """user@host"""


class Approver(Protocol):
    """Asks a person. None as an answer means that no person is available, and the run waits."""

    async def approve(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Whether it may be done. May take as long as a person takes; cancellation ends the question."""
        ...

    async def answer(self, question: str) -> QuestionReply | None:
        """What a person says to a question."""
        ...


Message = Mapping[str, Any]
"""A chat message in OpenAI's shape: role, content (str), tool_calls, tool_call_id, name."""


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        ...


class Ids(Protocol):
    """Where names come from."""

    def run_id(self, objective: str) -> str:
        """A short, unused id that a person can read and type: `k3f9-make-parse`."""
        ...


class Log(Protocol):
    """The append-only log of a run; appending is durable when it returns."""

    def append(self, event: Event) -> Record:
        """Write one event and give it its place. Raises RecordError when it cannot be written whole."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Return a context whose duration is not active time, such as waiting for a person."""
        ...


class Transcript(Protocol):
    """The chat of a run, whole; what events refer to."""

    def append(self, message: Message) -> TranscriptRef:
        """Write one message durably and say where it stands."""
        ...

    def read(self, ref: TranscriptRef) -> Message:
        """Read one message back. Raises RecordError when it is not what was written."""
        ...


class Artifacts(Protocol):
    """Large outputs, whole, by hash."""

    def put(self, data: bytes) -> ArtifactRef:
        """Keep bytes durably; the same bytes twice are one file."""
        ...

    def adopt(self, path: Path, hurried: Callable[[], bool] = lambda: False) -> ArtifactRef:
        """Keep a file's content (secrets replaced) and remove the file. Can be called in a thread.

        As soon as `hurried` says so, of what is not kept yet the two ends are, with the omission marked.
        """
        ...

    def read(self, ref: ArtifactRef) -> bytes:
        """The bytes. Raises RecordError when they are gone or do not match their hash."""
        ...

    def ends(self, ref: ArtifactRef, each: int) -> tuple[bytes, bytes]:
        """The first and the last `each` bytes; all of them and nothing where it is no longer than both."""
        ...

    def path(self, ref: ArtifactRef) -> Path:
        """Where the bytes lie."""
        ...
