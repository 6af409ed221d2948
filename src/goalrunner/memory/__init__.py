"""What is kept beyond a run: facts that a person promoted under the goal's own policy. Owns their file; decides no goal."""

from __future__ import annotations

from goalrunner.memory.file import Damage, MemoryFile, find_item, list_items
from goalrunner.memory.item import MemoryItem
from goalrunner.memory.promotion import Request, promote
from goalrunner.memory.recall import Recalled, recall

__all__ = [
    "Damage",
    "MemoryFile",
    "MemoryItem",
    "Recalled",
    "Request",
    "find_item",
    "list_items",
    "promote",
    "recall",
]
