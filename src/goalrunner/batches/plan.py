"""What a batch was asked to do. It is written once and does not change."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from goalrunner.core.field_types import Frozen


class BatchEntry(Frozen):
    """One goal of a batch, as it was when the batch was submitted."""

    key: str
    """Its number in the batch, from "1": the name of its file in the batch's folder."""
    name: str
    """A short name for people, unique in the batch."""
    source: str
    """The goal file, absolute. Relative paths in the goal start from its folder.

    Empty: the goal was in no file.
    """
    objective: str
    workspace: str
    """The folder that the run works in, or rather a copy of it; absolute."""
    clone: bool = False
    """Whether the copy is a clone even where an overlay is possible."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What replaces keys of the goal file, by dotted key: `agent.use`."""
    after: tuple[str, ...] = ()
    """The keys of the entries that must be complete before this one begins."""


class BatchLimits(Frozen):
    """The limits that all runs of a batch share. None is no limit."""

    cost_usd: float | None = None
    """US dollars, known ones of all runs together."""
    tokens: int | None = None
    until: str | None = None
    """The moment at which the batch stops, in ISO 8601 with a time zone."""
    max_failures: int | None = None
    """After so many goals that ended without success, no further one begins."""


class BatchPlan(Frozen):
    """A batch: its goals, and how they are run."""

    batch_id: str
    kind: Literal["batch", "group"] = "batch"
    """A group is several runs of one goal, of which one is wanted."""
    created_at: str
    entries: tuple[BatchEntry, ...]
    jobs: int
    """The most runs at the same time."""
    limits: BatchLimits = BatchLimits()
    retries: int = 0
    """How often a goal whose run failed is resumed."""
    at_least: int | None = None
    """The complete goals that make the batch a success; None: all of them."""
    ends_at_first: bool = False
    """Whether the other runs are ended when one is complete."""

    def entry(self, key: str) -> BatchEntry:
        """Return the entry of that key. Raise KeyError."""
        for entry in self.entries:
            if entry.key == key:
                return entry
        raise KeyError(key)
