"""Which snapshot is which round's, and the patch between them."""

from __future__ import annotations

import os
import shutil

import pytest

from goalrunner.app.previous_run import load_run
from goalrunner.app.run_snapshots import RunSnapshots, round_patch
from goalrunner.core import events
from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.observation import Snapshot
from goalrunner.core.snapshot_history import SnapshotHistory
from tests.support.finished_run import FinishedRun
from tests.support.told_run import created, numbered, started


def snapshot(digit: str) -> Snapshot:
    return Snapshot(id=digit * 64, tree=digit * 40)


START, TOOL, ONE, CHECKED, TWO = map(snapshot, "12345")


def told(*happened: events.Event) -> RunSnapshots:
    history = SnapshotHistory()
    for record in numbered(created(), started(), *happened):
        history.add(record.event)
    return RunSnapshots("k3f9-make-parse", "/src/parser", history)


def test_a_round_begins_with_what_was_there_and_ends_with_what_it_left() -> None:
    found = told(
        events.SnapshotTaken(snapshot=START, moment="start"),
        events.RoundStarted(round=1, prompt="first"),
        events.SnapshotTaken(snapshot=TOOL, moment="tool"),
        events.SnapshotTaken(snapshot=ONE, moment="round"),
        events.RoundFinished(round=1, snapshot=ONE),
        events.SnapshotTaken(snapshot=CHECKED, moment="validators"),
        events.RoundStarted(round=2, prompt="retry"),
        events.RoundFinished(round=2, snapshot=TWO),
        events.RoundStarted(round=3, prompt="retry"),
    )

    assert found.both(1) == (START, ONE)
    assert found.both(2) == (CHECKED, TWO)
    assert found.both(None) == (START, TWO)
    assert found.end(0) == (0, START)
    assert found.end(None) == (2, TWO)
    for wrong in (3, 4, -1):
        with pytest.raises(UsageError, match="the last ended round is 2"):
            found.end(wrong)
    with pytest.raises(
        UsageError, match="round 3 of run k3f9-make-parse has not ended"
    ):
        found.both(3)
    with pytest.raises(UsageError, match="round 0 is the start"):
        found.both(0)


def test_a_run_without_rounds_or_without_snapshots_says_so() -> None:
    with pytest.raises(
        UsageError, match="no round of run k3f9-make-parse has ended yet"
    ):
        told(events.SnapshotTaken(snapshot=START, moment="start")).both(None)
    with pytest.raises(
        UsageError,
        match="run k3f9-make-parse took no snapshots\nthe agent has not run, or deliverable = ",
    ):
        told(
            events.RoundStarted(round=1, prompt="first"), events.RoundFinished(round=1)
        ).both(1)


async def test_a_store_that_is_gone_and_a_snapshot_that_is_gone_are_named(
    run: FinishedRun,
) -> None:
    snapshots = RunSnapshots.of(load_run(run.folder))
    (store,) = (run.home / "stores").iterdir()
    end = snapshots.history.ends[2].id
    (store / "refs" / "snapshots" / end).unlink()
    with pytest.raises(
        WorkspaceError, match=f"snapshot {end[:12]} is no longer kept in {store}"
    ):
        await round_patch(snapshots, run.home, os.environ)

    shutil.rmtree(store)
    with pytest.raises(
        WorkspaceError,
        match=f"the snapshots of {run.workspace} are gone: there is no {store}",
    ):
        await round_patch(snapshots, run.home, os.environ)
