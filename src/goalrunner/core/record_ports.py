"""Protocols of the records of a run: its log, its messages and its outputs.

A run is kept in a folder, or in memory until it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from goalrunner.core.agent_ports import Message
from goalrunner.core.events import Event, Record
from goalrunner.core.observation import ArtifactRef, TranscriptRef


class Log(Protocol):
    """The events of a run, numbered, each with its time; secrets are replaced."""

    @property
    def elapsed(self) -> float:
        """Seconds of active time."""

    def append(self, event: Event) -> Record:
        """Add one event, and return its record. Raise RecordError."""

    def paused(self) -> AbstractContextManager[None]:
        """Stop the active time while the context is open."""

    def sync(self) -> None:
        """Wait until everything before is durable. Raise RecordError."""


class Transcript(Protocol):
    """The messages of a run; secrets are replaced."""

    def append(self, message: Message) -> TranscriptRef:
        """Add a message, and return its place. Raise RecordError."""

    def read(self, ref: TranscriptRef) -> Message:
        """Return the message at a place. Raise RecordError."""


class Artifacts(Protocol):
    """The whole outputs of a run, by their hashes; secrets are replaced."""

    def put(self, data: bytes) -> ArtifactRef:
        """Store bytes. Raise RecordError."""

    def adopt(
        self, path: Path, hurried: Callable[[], bool] = lambda: False
    ) -> ArtifactRef:
        """Store the content of a file, and remove the file.

        Once `hurried()` is true, the remaining content is left out. Raise RecordError.
        """

    def read(self, ref: ArtifactRef) -> bytes:
        """Return an output. Raise RecordError."""

    def ends(self, ref: ArtifactRef, each: int) -> tuple[bytes, bytes]:
        """Return both ends of an output, of so many bytes at most.

        A shorter output is the first one as a whole. Raise RecordError.
        """
