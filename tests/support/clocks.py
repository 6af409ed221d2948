"""Clocks that a test advances, and deadlines that depend on the load of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from goalrunner.records.event_log import SystemClock


@dataclass
class SteppingClock(SystemClock):
    """A clock whose two hands are moved by `advance(seconds)`."""

    start: datetime = field(
        default_factory=lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    )
    seconds: float = 0.0

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 1000.0 + self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def leaping(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that lets the clock of all runs leap, so that a deadline passes without a wait."""
    leaps: list[float] = []
    monkeypatch.setattr(
        SystemClock, "monotonic", lambda self: time.monotonic() + sum(leaps)
    )
    return leaps.append


def deadlines() -> Iterator[float]:
    """Yield longer and longer deadlines, until one falls after the moment that a test is about.

    How soon a process says its first word depends on the load of the machine.
    """
    yield from (0.3, 1.2, 5.0, 20.0)
