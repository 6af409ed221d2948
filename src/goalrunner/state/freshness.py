"""When an observation no longer counts: one rule, for a run under way and for one that is looked at again. Pure.

Owns the rule and its words; how two snapshots are compared is the caller's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from goalrunner.model.observation import OWNER, RESPONSE, Observation
from goalrunner.model.snapshot import Snapshot
from goalrunner.state.change_history import ChangedPaths

Compare = Callable[[Snapshot | None, Snapshot | None], Awaitable[ChangedPaths]]
"""Gives the paths that differ in what counts, between one snapshot and another; none where one is unknown."""


async def why_stale(
    item: Observation, taken: Mapping[str, Snapshot], ends: Mapping[int, str], final: Snapshot, compare: Compare
) -> str:
    """Why an observation does not count at `final`, in words; empty where it does.

    `taken` are the snapshots by id, `ends` by round the id of the one at its end.

    A file tool's observation depends on its own path alone, a command's on everything before, during and after it. What
    was seen on no snapshot at all is the response, which is evidence of what it says, and what a person answered. Nobody
    watched while an external agent did what it reports: its whole round stands for the command.
    """
    if item.source in (RESPONSE, OWNER) and not item.reported_by:
        return ""
    end = ends.get(item.round) if item.reported_by else item.after
    before, after = taken.get(item.before or ""), taken.get(end or "")
    if after is None or (before is None and item.reported_by):
        return f"it is not known on which files {item.id} was seen"
    later = await compare(after, final)
    if item.path is not None and not item.reported_by:
        return f"{item.path} changed after {item.id}" if later.has(item.path) else ""
    during = await compare(before, after)
    if during and item.reported_by:
        return f"{_some(during)} changed in the round in which {item.reported_by} reported {item.id}"
    if during:
        return f"{item.id} itself changed {_some(during)}; run the check alone, after the change"
    return f"{_some(later)} changed after {item.id}" if later else ""


def _some(paths: ChangedPaths) -> str:
    more = paths.count - len(paths.first)
    return ", ".join(paths.first) + (f" and {more} more" if more else "")
