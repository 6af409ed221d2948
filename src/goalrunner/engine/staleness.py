"""Outdated evidence: why an observation no longer counts. See `core.freshness`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from goalrunner.core.errors import some
from goalrunner.core.freshness import changed_after_start, depends_on
from goalrunner.core.observation import OWNER, RESPONSE, Observation, Snapshot
from goalrunner.core.snapshot_history import SnapshotHistory

Compare = Callable[[Snapshot | None, Snapshot | None], Awaitable[Sequence[str]]]
"""Returns the paths that differ between two snapshots, sorted.

It returns none if a snapshot is unknown.
"""

_LISTED = 3  # paths named in a reason


async def why_stale(
    item: Observation, history: SnapshotHistory, final: Snapshot, compare: Compare
) -> str:
    """Return why an observation is outdated at `final`, in words; empty if it is not.

    A file tool's observation depends only on its own path, a command's on the whole
    workspace. The response and a person's answer depend on no snapshot.
    """
    if item.reported_by:
        return await _why_report_is_stale(item, history, final, compare)
    if item.source in (RESPONSE, OWNER):
        return ""
    after = history.find(item.after)
    if after is None:
        return _unknown_files(item)
    changed_later = await compare(after, final)
    if item.path is not None:
        is_changed = item.path in changed_later
        return f"{item.path} changed after {item.id}" if is_changed else ""
    changed_meanwhile = await compare(history.find(item.before), after)
    during = _changed_during(item, history, changed_meanwhile)
    if during:
        paths = some(during, _LISTED)
        return (
            f"{item.id} itself changed {paths}; run the check alone, after the change"
        )
    return _changed_since(item, history, changed_later)


async def _why_report_is_stale(
    item: Observation, history: SnapshotHistory, final: Snapshot, compare: Compare
) -> str:
    """Return why an observation that an agent reported is outdated; empty if not.

    No snapshots were taken before and after it, so the snapshots of its round count.
    """
    before, after = history.find(item.before), history.ends.get(item.round)
    if after is None or before is None:
        return _unknown_files(item)
    changed_later = await compare(after, final)
    changed_in_round = await compare(before, after)
    during = _changed_during(item, history, changed_in_round)
    if not during:
        return _changed_since(item, history, changed_later)
    paths = some(during, _LISTED)
    if item.started is not None:
        return f"{paths} changed after {item.id} began"
    return (
        f"{paths} changed in the round in which {item.reported_by} reported {item.id}"
    )


def _unknown_files(item: Observation) -> str:
    return f"it is not known on which files {item.id} was seen"


def _changed_during(
    item: Observation, history: SnapshotHistory, differing: Sequence[str]
) -> Sequence[str]:
    """Return the paths that changed between the start of a tool and its snapshot."""
    times = history.touched.get(item.round)
    return changed_after_start(item, times, differing, history.written)


def _changed_since(
    item: Observation, history: SnapshotHistory, changed_paths: Sequence[str]
) -> str:
    relevant = [
        path for path in changed_paths if depends_on(item, path, history.written)
    ]
    return f"{some(relevant, _LISTED)} changed after {item.id}" if relevant else ""
