"""The pure rules of an integration: which goals come onto the branch of a batch, in
which order, and which decisions about them still hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from goalrunner.batches.history import (
    BatchEvent,
    BatchState,
    EntryIntegrated,
    EntryState,
)

Decisions = Mapping[str, EntryIntegrated]
"""Whether the change of an entry is on a branch, by key."""

NOTHING_CHANGED = "it changed no files"
NOTHING_NEW = "the branch begins with its change"
"""The reasons of goals that have nothing to bring."""


def is_left_out(decision: EntryIntegrated) -> bool:
    """Return whether a change is left out that the branch should have."""
    nothing_to_bring = decision.reason in (NOTHING_CHANGED, NOTHING_NEW)
    return not decision.commit and not nothing_to_bring


def branch_name(batch_id: str) -> str:
    """Return the name of the branch of a batch, unless another one is chosen."""
    return f"goal/{batch_id}"


def decisions_on(
    branch: str, events: Iterable[BatchEvent]
) -> dict[str, EntryIntegrated]:
    """Return the last decision about each entry for a branch of this name."""
    decisions: dict[str, EntryIntegrated] = {}
    for event in events:
        if isinstance(event, EntryIntegrated) and event.branch == branch:
            decisions[event.key] = event
    return decisions


def lasting_decisions(
    decisions: Decisions, keys: Collection[str], commits: Collection[str] | None
) -> dict[str, EntryIntegrated]:
    """Return the decisions about the entries of one repository that still hold.

    `commits` are those of the branch; None if there is no branch. A decision to take a
    change holds while its commit is on the branch: a person may have removed it. If a
    person removed the whole branch, no decision holds, and the integration begins anew.
    A branch onto which no change was taken was never made: then all of them hold.
    """
    in_repository = {key: decisions[key] for key in decisions if key in keys}
    if commits is None:
        was_made = any(decision.commit for decision in in_repository.values())
        return {} if was_made else in_repository
    # A decision without a commit is to leave a change out, and always holds.
    lasting_commits = {"", *commits}
    return {
        key: decision
        for key, decision in in_repository.items()
        if decision.commit in lasting_commits
    }


def integration_order(state: BatchState, decisions: Decisions) -> tuple[str, ...]:
    """Return the keys of the complete entries without a decision.

    They are in the order of the plan, but each comes after those that it depends on.
    """
    order: dict[str, None] = {}

    def add(entry: EntryState) -> None:
        if entry.entry.key in order:
            return
        # This ends: the submission refuses goals that wait for each other.
        for key in entry.entry.after:
            add(state.entries[key])
        order[entry.entry.key] = None

    for entry in state.entries.values():
        add(entry)
    undecided = []
    for key in order:
        if state.entries[key].is_complete and key not in decisions:
            undecided.append(key)
    return tuple(undecided)


def missing_dependency(state: BatchState, key: str, decisions: Decisions) -> str:
    """Return why an entry is left out because of one that it depends on, or nothing.

    Its goal file says with `after` that it needs the other one's change.
    """
    for other in state.entries[key].entry.after:
        decision = decisions.get(other)
        name = state.entries[other].entry.name
        # A goal that had nothing to bring is no obstacle to those after it.
        if decision is None or is_left_out(decision):
            return f"it comes after {name}, which is not on the branch"
    return ""
