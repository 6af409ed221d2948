"""The adapters of a run, and the Protocols of observers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from goalrunner.core.agent_ports import Conversation
from goalrunner.core.check_ports import Checker, Judge, Validator, Workspace
from goalrunner.core.events import Record
from goalrunner.core.ports import Approver, Artifacts, Clock, Log, Transcript
from goalrunner.core.run_state import RunState


class Observer(Protocol):
    """Observes a run. An observer that raises is removed, and the run goes on."""

    def on_record(self, record: Record) -> None:
        """Handle an event that was written."""
        ...


@runtime_checkable
class TextObserver(Observer, Protocol):
    """An observer that shows the agent's text while it streams. Without one, models are asked for whole answers."""

    def on_text(self, delta: str) -> None:
        """Handle a piece of the agent's streamed text."""
        ...


@runtime_checkable
class Rejoining(Protocol):
    """An observer that needs the state of a resumed run."""

    def on_state(self, state: RunState) -> None:
        """Called once with the state that an earlier process left, before the first new event."""
        ...


@dataclass(frozen=True)
class Parts:
    """The adapters of one run."""

    conversation: Conversation
    validators: tuple[Validator, ...]
    judge: Judge | None
    log: Log
    transcript: Transcript
    artifacts: Artifacts
    clock: Clock
    workspace: Path
    scratch: Callable[[str], Path]
    watch: Workspace | None = None
    """Takes the snapshots; None if the workspace is not the deliverable."""
    checker: Checker | None = None
    """Runs the validators in the check environment; None if they run in the workspace as it is."""
    redact: Callable[[str], str] = lambda text: text
    replaced: Callable[[], dict[str, int]] = dict
    """Return how many secrets were replaced since the last call, by kind."""
    kept: Callable[[], dict[str, str]] = dict
    """Return the files about the start in the run's folder, and their SHA-256."""
    approver: Approver | None = None
    """Asks a person for approvals and answers; None if no person is available."""
