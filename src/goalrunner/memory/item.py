"""One thing that is remembered. Owns its shape; reads and writes nothing."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from goalrunner.events.memory import MemoryKind
from goalrunner.model.base import Frozen
from goalrunner.policy import Sensitivity


class MemoryItem(Frozen):
    """One line of a memory file. (Source: the promotion rules of Goals and State.)"""

    memory_id: str = Field(pattern=r"^m[0-9a-f]{6,32}$", description='"m3f9a2c", never given twice')
    kind: MemoryKind
    text: str = Field(min_length=1)
    run_id: str = Field(description="the run that it stems from")
    source_ref: str = Field(description='the observation or event of that run which it rests on: "o7", "e12"')
    owner: str = Field(min_length=1, description="whose runs are told")
    permission: str = Field(description="who allowed it to be kept, or what")
    sensitivity: Sensitivity = "low"
    expires_at: str | None = Field(default=None, description="ISO 8601, UTC; None: never")
    promoted_by: str = Field(description="user@host")
    promoted_at: str = Field(description="ISO 8601, UTC")
    replaces: str = Field(default="", description="id of the item that this one corrects")

    def is_expired(self, now: datetime) -> bool:
        """Whether it is no longer to be told. A date that cannot be read is over: what is unclear is a no."""
        if self.expires_at is None:
            return False
        try:
            return datetime.fromisoformat(self.expires_at) <= now
        except (ValueError, TypeError):
            return True
