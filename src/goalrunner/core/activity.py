"""What a run is doing between two events, for live views.

A contextvar holds the receiver, so that code deep in a call can report an activity
without a parameter in every function above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


# Two equal commands may run at once; each ends on its own.
@dataclass(frozen=True, eq=False)
class CommandStarted:
    """A command has started; `output` is the file that its output goes to."""

    name: str
    """Name of the validator or tool."""
    command: str
    output: Path


@dataclass(frozen=True)
class CommandEnded:
    """A command has ended, or was cancelled."""

    started: CommandStarted


@dataclass(frozen=True)
class RetryScheduled:
    """A model call failed and is repeated after a pause.

    `reason` is "429 rate limit", for example.
    """

    reason: str
    seconds: float
    retry: int
    """Number of this retry, from 1."""
    retries: int
    """Maximum number of retries."""


@dataclass(frozen=True)
class AgentSilent:
    """An external agent shows no sign of life.

    Its turn ends after `limit` seconds. 0 seconds: it works again.
    """

    seconds: float
    limit: float


@dataclass(frozen=True)
class PersonNeeded:
    """A person should be notified that the run has ended or waits for them.

    Without a sound if `bell` is False.
    """

    text: str
    bell: bool = True


@dataclass(frozen=True)
class Remark:
    """A note for people that is not part of the run's records."""

    text: str


Activity = (
    CommandStarted | CommandEnded | RetryScheduled | AgentSilent | PersonNeeded | Remark
)


@runtime_checkable
class ActivityObserver(Protocol):
    """An observer of a run that shows what happens between two events."""

    def on_activity(self, activity: Activity) -> None:
        """Handle an activity."""


_receiver: ContextVar[Callable[[Activity], None] | None] = ContextVar(
    "goal-activity", default=None
)


def context_with(receiver: Callable[[Activity], None]) -> Context:
    """Return a copy of the current context in which activities go to `receiver`."""
    context = copy_context()
    context.run(_receiver.set, receiver)
    return context


def report_activity(activity: Activity) -> None:
    receiver = _receiver.get()
    if receiver is not None:
        receiver(activity)


@contextmanager
def running(name: str, command: str, output: Path) -> Iterator[Path]:
    """Report a command as running while the context is open; yield its output file."""
    started = CommandStarted(name, command, output)
    report_activity(started)
    try:
        yield output
    # Also after an error or a cancellation: a live view must not show it for ever.
    finally:
        report_activity(CommandEnded(started))
