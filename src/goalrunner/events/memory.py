"""What of a run is kept beyond it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from goalrunner.model.base import Frozen

MemoryKind = Literal["event", "fact", "preference", "policy_reference"]
"""What may be promoted. (Source: the promotion rules of Goals and State.)"""


class MemoryPromoted(Frozen):
    """One fact of this run became durable, under the policy of its goal."""

    type: Literal["memory_promoted"] = "memory_promoted"
    memory_id: str
    kind: MemoryKind
    source_ref: str = Field(description="the observation or event that it rests on")
