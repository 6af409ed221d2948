"""Protocols of people, stores, clock and observers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from goalrunner.core.events import Event, Record
from goalrunner.core.observation import ArtifactRef, EvidenceRow, TranscriptRef
from goalrunner.core.run_state import Approval, RunState


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
        """Ask for the decision on an action; cancellation withdraws the question."""

    async def answer(self, question: str) -> QuestionReply | None:
        """Ask a question."""


Message = Mapping[str, Any]
"""A chat message in OpenAI's shape: role, content (str), tool_calls, tool_call_id, name."""


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> datetime:
        """Return the current time in UTC."""

    def monotonic(self) -> float:
        """Seconds that only ever grow."""


class Log(Protocol):
    """The append-only log of a run. An appended event outlives the process; `sync` makes all of them outlive a power cut."""

    def append(self, event: Event) -> Record:
        """Write one event and give it its place. Raises RecordError when it cannot be written whole."""

    def sync(self) -> None:
        """Wait until everything recorded is durable; to be called before an effect that has no event of its own."""

    def paused(self) -> AbstractContextManager[None]:
        """Return a context whose duration is not active time, such as waiting for a person."""


class Transcript(Protocol):
    """The chat of a run, whole; what events refer to."""

    def append(self, message: Message) -> TranscriptRef:
        """Write one message and say where it stands."""

    def read(self, ref: TranscriptRef) -> Message:
        """Return a message. Raise RecordError if it was changed."""


class Artifacts(Protocol):
    """Large outputs, whole, by hash."""

    def put(self, data: bytes) -> ArtifactRef:
        """Store bytes durably; equal bytes are one file."""

    def adopt(self, path: Path, hurried: Callable[[], bool] = lambda: False) -> ArtifactRef:
        """Store a file's content (secrets replaced) and remove the file. Can be called in a thread.

        Once `hurried` returns True, only both ends of the rest are stored, with the omission marked.
        """

    def read(self, ref: ArtifactRef) -> bytes:
        """Return the bytes. Raise RecordError if they are missing or do not match their hash."""

    def ends(self, ref: ArtifactRef, each: int) -> tuple[bytes, bytes]:
        """Return the first and the last `each` bytes, or all bytes and an empty end of a short artifact."""


class Observer(Protocol):
    """Observes a run. An observer that raises is removed, and the run goes on."""

    def on_record(self, record: Record) -> None:
        """Handle an event that was written."""


@runtime_checkable
class TextObserver(Observer, Protocol):
    """An observer that shows the agent's text while it streams. Without one, models are asked for whole answers."""

    def on_text(self, delta: str) -> None:
        """Handle a piece of the agent's streamed text."""


@runtime_checkable
class Rejoining(Protocol):
    """An observer that needs the state of a resumed run."""

    def on_state(self, state: RunState) -> None:
        """Handle the state that an earlier process left, once before the first new event."""
