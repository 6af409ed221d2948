"""What an agent is answered that asks for leave. Owns the choice among its options, by their kind, never by their names."""

from __future__ import annotations

import hashlib
from typing import Any

from goalrunner.agents.acp.reading import at, items

CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""The turn is over: nobody decides any more."""


def allowed(request: Any, *, guarded: bool) -> dict[str, Any] | None:
    """The answer that lets it happen this once; None where it offers none.

    An agent that offers nothing but leave for ever gets that where nothing in this run is to be asked again (`guarded`).
    """
    return _chosen(request, ("allow_once",) if guarded else ("allow_once", "allow_always"))


def rejected(request: Any) -> dict[str, Any]:
    """The answer that forbids it, this once where that is offered."""
    return _chosen(request, ("reject_once", "reject_always")) or CANCELLED


def identity(kind: str, words: str, preview: str) -> str:
    """An action's name, the same in another process and session, where the agent's own ids are others."""
    said = "\0".join((kind, words, preview))
    return f"{kind}-{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _chosen(request: Any, kinds: tuple[str, ...]) -> dict[str, Any] | None:
    offered = items(at(request, "params", "options"))
    for kind in kinds:
        for option in offered:
            name = at(option, "optionId")
            if at(option, "kind") == kind and isinstance(name, str):
                return {"outcome": {"outcome": "selected", "optionId": name}}
    return None
