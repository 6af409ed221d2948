"""The small changes that folds are made of: references kept, memory and budget replaced, evidence counted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goalrunner.state.run_state import KEPT, BudgetState, RunState


def with_fields(state: RunState, **changes: Any) -> RunState:
    """The state with other fields."""
    return state.model_copy(update=changes)


def with_memory(state: RunState, **changes: Any) -> RunState:
    """The state with other fields of its working memory."""
    return with_fields(state, memory=state.memory.model_copy(update=changes))


def with_budget(state: RunState, **changes: Any) -> RunState:
    """The state with other fields of its budget."""
    budget: BudgetState = state.memory.budget_state.model_copy(update=changes)
    return with_memory(state, budget_state=budget)


def with_evidence(state: RunState, ids: Sequence[str], *, counted: bool = True) -> RunState:
    """The state with more references to evidence; `counted` where they are new observations."""
    refs = state.memory.evidence_refs
    for identifier in ids:
        refs = kept(refs, identifier)
    numbered = state.observations + (len(ids) if counted else 0)
    newest = ids[-1] if ids else state.seen
    return with_fields(with_memory(state, evidence_refs=refs), observations=numbered, seen=newest)


def kept(refs: tuple[str, ...], new: str) -> tuple[str, ...]:
    """The newest references with one more."""
    return (*refs[-KEPT + 1 :], new)
