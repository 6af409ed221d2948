"""When an observation no longer counts, by the paths that changed."""

from __future__ import annotations

import pytest

from goalrunner.core import events
from goalrunner.core.observation import Observation, Snapshot
from goalrunner.core.snapshot_history import SnapshotHistory
from goalrunner.engine.staleness import why_stale

ONE, TWO, THREE = (Snapshot(id=digit * 64, tree=digit * 40) for digit in "123")


def history(**ends: Snapshot | None) -> SnapshotHistory:
    """All three snapshots; `round4` is the one at the end of round 4."""
    found = SnapshotHistory()
    for snapshot in (ONE, TWO, THREE):
        found.add(events.SnapshotTaken(snapshot=snapshot, moment="tool"))
    for snapshot in filter(None, ends.values()):
        found.add(events.RoundFinished(round=4, snapshot=snapshot))
    return found


async def changed(old: Snapshot | None, new: Snapshot | None) -> tuple[str, ...]:
    """From one to two a.py, from two to three four files."""
    by_pair = {
        (ONE, TWO): ("a.py",),
        (TWO, THREE): ("a.py", "b.py", "c.py", "d.py"),
        (ONE, THREE): ("b.py",),
    }
    return () if old is None or new is None else by_pair.get((old, new), ())


@pytest.mark.parametrize(
    ("before", "after", "path", "said"),
    [
        (THREE, THREE, None, ""),
        (None, THREE, None, ""),
        (TWO, TWO, None, "a.py, b.py, c.py and 1 more changed after o1"),
        (
            ONE,
            TWO,
            None,
            "o1 itself changed a.py; run the check alone, after the change",
        ),
        (ONE, TWO, "a.py", "a.py changed after o1"),
        (ONE, TWO, "z.py", ""),
        (ONE, None, None, "it is not known on which files o1 was seen"),
    ],
)
async def test_what_an_observation_depends_on(
    before: Snapshot | None, after: Snapshot | None, path: str | None, said: str
) -> None:
    item = Observation(
        id="o1",
        source="shell",
        before=before and before.id,
        after=after and after.id,
        path=path,
        round=1,
    )
    assert await why_stale(item, history(), THREE, changed) == said


async def test_a_response_is_seen_on_no_snapshot_and_never_stale() -> None:
    assert (
        await why_stale(
            Observation(id="o1", source="response", round=1), history(), THREE, changed
        )
        == ""
    )


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (THREE, THREE, ""),
        (TWO, TWO, "a.py, b.py, c.py and 1 more changed after o1"),
        (ONE, TWO, "a.py changed in the round in which claude reported o1"),
        (THREE, None, "it is not known on which files o1 was seen"),
        (None, THREE, "it is not known on which files o1 was seen"),
    ],
)
async def test_what_is_only_reported_rests_on_its_whole_round(
    start: Snapshot | None, end: Snapshot | None, said: str
) -> None:
    before = start and start.id
    item = Observation(
        id="o1",
        source="shell",
        before=before,
        path="z.py",
        round=4,
        reported_by="claude",
    )
    assert await why_stale(item, history(round4=end), THREE, changed) == said


@pytest.mark.parametrize("source", ["response", "owner"])
async def test_no_name_exempts_what_is_only_reported(source: str) -> None:
    item = Observation(
        id="o1", source=source, before=ONE.id, round=4, reported_by="claude"
    )
    assert await why_stale(item, history(round4=TWO), THREE, changed) != ""
