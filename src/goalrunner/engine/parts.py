"""The adapters of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.core.agent_ports import Approver, Conversation
from goalrunner.core.events import Account
from goalrunner.core.ports import Checker, Judge, Reviewer, Validator
from goalrunner.core.record_ports import Artifacts, Log, Transcript
from goalrunner.core.run_state import RunState

if TYPE_CHECKING:
    from goalrunner.records.decision_files import DecisionFiles
    from goalrunner.records.event_log import SystemClock
    from goalrunner.snapshots.store import SnapshotStore


RefuseCall = Callable[[Account, RunState], None]
"""Raises an error before a call of an account that cannot be used now, as another run
has found out.
"""


def refuse_no_call(account: Account, state: RunState) -> None:
    """Do nothing: the run knows of no other one."""


@dataclass(frozen=True)
class Parts:
    """The adapters of one run."""

    conversation: Conversation
    validators: tuple[Validator, ...]
    judge: Judge | None
    log: Log
    transcript: Transcript
    artifacts: Artifacts
    clock: SystemClock
    workspace: Path
    scratch: Callable[[str], Path]
    snapshots: SnapshotStore | None = None
    """None if the workspace is not the deliverable, or nothing is kept."""
    checker: Checker | None = None
    """None if validators run in the workspace as it is."""
    redact: Callable[[str], str] = lambda text: text
    take_secret_counts: Callable[[], dict[str, int]] = dict
    """Returns how many secrets were replaced since the last call, by kind."""
    store_traceback: Callable[[str], str] = lambda text: "it was not stored"
    """Stores the traceback of a defect, and says where it is."""
    start_files: Callable[[], dict[str, str]] = dict
    """Returns the SHA-256 of each file in the run's folder that describes the start."""
    reviewer: Reviewer | None = None
    in_thread: Callable[..., Awaitable[Any]] = asyncio.to_thread
    """Calls a plain function in a thread, so that the event loop goes on."""
    approver: Approver | None = None
    """None if no person is available."""
    decision_files: DecisionFiles | None = None
    """The decisions of people at other terminals."""
    refuse_call: RefuseCall = refuse_no_call
