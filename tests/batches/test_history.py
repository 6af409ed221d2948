"""The log of a batch, and the state that its events lead to."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from goalrunner.batches.batch_folder import (
    BatchFolder,
    batch_names,
    find_batch,
    remove_old_batches,
)
from goalrunner.batches.history import (
    BatchEvent,
    BatchResumed,
    BatchStopped,
    EntryEnded,
    EntrySkipped,
    EntryStarted,
    batch_state,
)
from goalrunner.batches.plan import BatchEntry, BatchLimits, BatchPlan
from goalrunner.core.errors import RecordError, RunNotFound, UsageError

AT = "2026-01-01T00:00:00+00:00"


def plan_of(*names: str, **fields: object) -> BatchPlan:
    entries = [
        BatchEntry(
            key=str(number),
            name=name,
            source=f"/p/{name}.toml",
            objective=name,
            workspace="/p",
        )
        for number, name in enumerate(names, 1)
    ]
    values = {"batch_id": "night", "created_at": AT, "entries": entries, "jobs": 2}
    return BatchPlan.model_validate(values | fields)


def test_a_retry_of_an_entry_is_the_same_run_and_counts_its_failures() -> None:
    events: list[BatchEvent] = [
        EntryStarted(at=AT, key="1", run_id="r1"),
        EntryEnded(at=AT, key="1", status="failed", message="no answer"),
        EntryStarted(at=AT, key="1", run_id="r1"),
        EntryEnded(at=AT, key="1", status="complete"),
        EntrySkipped(at=AT, key="2", reason="a is not complete"),
    ]
    state = batch_state(plan_of("a", "b"), events)
    first, second = state.entries.values()
    assert (first.starts, first.failures, first.run_id) == (2, 1, "r1")
    assert first.is_complete
    assert (second.status, second.message) == ("skipped", "a is not complete")
    assert (state.complete, state.is_success) == (1, False)


@pytest.mark.parametrize(
    ("fields", "is_success"),
    [({}, False), ({"at_least": 1}, True), ({"kind": "group"}, True)],
)
def test_a_batch_succeeds_with_all_goals_and_a_group_with_one(
    fields: dict[str, object], is_success: bool
) -> None:
    events: list[BatchEvent] = [EntryEnded(at=AT, key="1", status="complete")]
    assert batch_state(plan_of("a", "b", **fields), events).is_success is is_success


def test_a_resume_lifts_the_stop_and_has_new_limits() -> None:
    events: list[BatchEvent] = [
        BatchStopped(at=AT, reason="the budget"),
        BatchResumed(at=AT, limits=BatchLimits(cost_usd=9), jobs=5),
    ]
    state = batch_state(plan_of("a"), events)
    assert (state.stopped, state.limits.cost_usd, state.jobs) == (None, 9, 5)


def test_the_log_is_read_as_it_was_written_without_a_torn_line(tmp_path: Path) -> None:
    folder = BatchFolder.create(tmp_path, plan_of("a"), {"1": "objective = 'a'\n"})
    with folder.writing() as log:
        log.append(EntryStarted(at=AT, key="1", run_id="r1"))
        written = log.state
    with folder.log.open("ab") as file:
        file.write(b'{"type": "entry_en')
    assert folder.state() == written
    with folder.writing() as log:
        log.append(EntryEnded(at=AT, key="1", status="complete"))
    assert folder.state().is_success
    assert folder.goal_file("1").read_text() == "objective = 'a'\n"


def test_one_process_drives_a_batch(tmp_path: Path) -> None:
    folder = BatchFolder.create(tmp_path, plan_of("a"), {})
    with (
        folder.writing(),
        pytest.raises(UsageError, match="driven by another process"),
        folder.writing(),
    ):
        pass


def test_a_log_that_another_program_changed_is_not_written(tmp_path: Path) -> None:
    folder = BatchFolder.create(tmp_path, plan_of("a"), {})
    forged = EntryEnded(at=AT, key="1", status="complete").model_dump_json()
    with folder.writing() as log:
        with folder.log.open("a") as file:
            file.write(forged + "\n")
        with pytest.raises(RecordError, match="another program has changed") as raised:
            log.append(EntryStarted(at=AT, key="1", run_id="k3f9"))
        assert log.state.complete == 0
    assert raised.value.hint == "goal batch --resume night goes on"


def test_a_batch_is_found_by_a_prefix_and_its_name_is_not_taken_twice(
    tmp_path: Path,
) -> None:
    folder = BatchFolder.create(tmp_path, plan_of("a"), {})
    assert find_batch(tmp_path, "ni") == folder
    with pytest.raises(RunNotFound, match="no batch"):
        find_batch(tmp_path, "day")
    with pytest.raises(UsageError, match="there is a batch night already"):
        BatchFolder.create(tmp_path, plan_of("a"), {})


def test_a_damaged_log_or_plan_is_reported(tmp_path: Path) -> None:
    folder = BatchFolder.create(tmp_path, plan_of("a"), {})
    folder.log.write_text("{}\n")
    with pytest.raises(RecordError, match="is damaged"):
        folder.state()
    folder.plan_file.write_text("[]")
    with pytest.raises(RecordError, match="is damaged"):
        folder.plan()


def test_a_batch_is_removed_when_it_is_old_and_no_run_of_it_is_left(
    tmp_path: Path,
) -> None:
    folder = BatchFolder.create(tmp_path, plan_of("a", "b"), {})
    with folder.writing() as log:
        log.append(EntryStarted(at=AT, key="1", run_id="r1"))
    (tmp_path / "runs" / "r1").mkdir(parents=True)
    now = time.time() + 60
    assert remove_old_batches(tmp_path, (), now, dry_run=False) == 0
    assert remove_old_batches(tmp_path, {"r1"}, now - 3600, dry_run=False) == 0
    assert remove_old_batches(tmp_path, {"r1"}, now, dry_run=True) == 1
    assert folder.state().entries["1"].run_id == "r1"
    assert remove_old_batches(tmp_path, {"r1"}, now, dry_run=False) == 1
    assert batch_names(tmp_path) == []
