"""Everything that a driver works with, and the Protocol of observers."""

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
    """Watches a run and never changes it. One that raises is told nothing more, and the run goes on."""

    def on_record(self, record: Record) -> None:
        """An event was written."""
        ...

    def on_text(self, delta: str) -> None:
        """A piece of the agent's text, as it streams."""
        ...


@runtime_checkable
class Rejoining(Protocol):
    """An observer that wants to know where a run stands that goes on."""

    def on_state(self, state: RunState) -> None:
        """An earlier process left it like this; told once, before its first new event."""
        ...


@dataclass(frozen=True)
class Parts:
    """The adapters that the driver is handed; compose makes them."""

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
    """Takes the snapshots; None where the workspace is no deliverable."""
    checker: Checker | None = None
    """Runs the validators in the check environment; None if they run in the workspace as it is."""
    redact: Callable[[str], str] = lambda text: text
    replaced: Callable[[], dict[str, int]] = dict
    """How many secrets were replaced since it was last asked, by kind."""
    kept: Callable[[], dict[str, str]] = dict
    """What the run's folder says of its start: each file and its SHA-256."""
    approver: Approver | None = None
    """Who is asked where something waits for a person; None: nobody is there."""
