"""A clock that a test advances."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from goalrunner.records.files import SystemClock


@dataclass
class SteppingClock(SystemClock):
    """A clock whose two hands are moved by `advance(seconds)`."""

    start: datetime = field(default_factory=lambda: datetime(2026, 11, 21, 12, 0, tzinfo=UTC))
    seconds: float = 0.0

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return 1000.0 + self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
