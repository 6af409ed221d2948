"""The branches of a session of Claude Code.

Each row names its parent. A message that the user withdrew stays in the file, and the
next one is a second child of the same parent.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any

from goalrunner.core.messages import at, items, text

__all__ = ["Branches"]

_NO_ROW = -1
_MESSAGES = ("user", "assistant")


class Branches:
    """Which rows of a session belong to the conversation that ends with its last row.

    `of_rows` reads all rows. The numbers of rows are their places among these.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}
        """Id of a row -> its node. Ids are the only texts that are kept."""
        self._parents = array("l")
        """By node: the node before it, or -1."""
        self._row_numbers = array("l")
        self._messages = array("l")
        """By node: the number of its message at the API; 0 for other rows."""
        self._message_numbers: dict[str, int] = {}
        self._results: set[int] = set()
        self._later_parents: dict[int, str] = {}
        """By node: the id of a parent that was not read yet."""
        self._roots: set[int] = set()
        """Prompts without a parent. They begin anew if other rows have parents."""
        self._has_links = False
        self._leaf = _NO_ROW
        self.repeated: set[int] = set()
        """The numbers of rows whose id an earlier row has."""

    @classmethod
    def of_rows(cls, rows: Iterable[Any]) -> Branches:
        """Return the branches of the rows of a session."""
        branches = cls()
        for number, row in enumerate(rows):
            branches._add(number, row)
        for node, parent_id in branches._later_parents.items():
            # A row may name a parent that is missing in the file: a program that was
            # stopped, or a damaged line. The row before it is its best substitute.
            branches._parents[node] = branches._nodes.get(parent_id, node - 1)
        if branches._has_links:
            for node in branches._roots:
                branches._parents[node] = _NO_ROW
        return branches

    def _add(self, number: int, row: Any) -> None:
        identifier = text(at(row, "uuid"))
        # Side chains are conversations of sub-agents, with branches of their own.
        if not identifier or at(row, "isSidechain"):
            return
        is_message = row.get("type") in _MESSAGES
        node = self._nodes.get(identifier)
        if node is not None:
            self.repeated.add(number)
        else:
            node = self._add_node(number, identifier, row)
        if is_message:
            self._leaf = node

    def _add_node(self, number: int, identifier: str, row: dict[str, Any]) -> int:
        node = len(self._parents)
        self._nodes[identifier] = node
        self._row_numbers.append(number)
        self._messages.append(self._message_number(row))
        # After a compaction, only `logicalParentUuid` names the row before it.
        parent_id = text(row.get("parentUuid")) or text(row.get("logicalParentUuid"))
        parent = self._nodes.get(parent_id, node - 1)
        self._parents.append(parent)
        if parent_id:
            self._has_links = True
            if parent_id not in self._nodes:
                self._later_parents[node] = parent_id
        elif _is_prompt(row):
            self._roots.add(node)
        if _has_results(row):
            self._results.add(node)
        return node

    def _message_number(self, row: dict[str, Any]) -> int:
        identifier = text(at(row, "message", "id"))
        if row.get("type") != "assistant" or not identifier:
            return 0
        return self._message_numbers.setdefault(
            identifier, len(self._message_numbers) + 1
        )

    def withdrawn(self) -> set[int]:
        """Return the numbers of the rows on branches that the user has left."""
        remaining = set(self._path())
        for node, parent in enumerate(self._parents):
            # Results of parallel calls are children of different rows, and only one of
            # them is on the path. A person can go back to a prompt only.
            is_parallel = node in self._results or self._is_same_message(node, parent)
            if parent in remaining and is_parallel:
                remaining.add(node)
        rows = enumerate(self._row_numbers)
        return {number for node, number in rows if node not in remaining}

    def _is_same_message(self, node: int, parent: int) -> bool:
        message = self._messages[node]
        return bool(message) and message == self._messages[parent]

    def _path(self) -> Iterator[int]:
        """Yield the nodes from the last message to the root."""
        node = self._leaf
        # A damaged file may have a circle of parents.
        for _ in range(len(self._parents)):
            if node == _NO_ROW:
                return
            yield node
            node = self._parents[node]


def _is_prompt(row: dict[str, Any]) -> bool:
    """Return whether a row may be the first one of a conversation."""
    if row.get("type") != "user" or row.get("isMeta") or row.get("isCompactSummary"):
        return False
    return not _has_results(row)


def _has_results(row: dict[str, Any]) -> bool:
    blocks = items(at(row, "message", "content"))
    return any(at(block, "type") == "tool_result" for block in blocks)
