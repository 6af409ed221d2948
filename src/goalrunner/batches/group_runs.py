"""The runs of a group as its records show them, and the winner among them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from goalrunner.app.previous_run import load_run
from goalrunner.batches.batch_folder import (
    BatchFolder,
    batch_names,
    find_batch,
)
from goalrunner.batches.history import EntryState
from goalrunner.batches.names import BATCHES
from goalrunner.batches.ranking import GroupRun, ranked
from goalrunner.core.errors import RecordError, RunNotFound, UsageError
from goalrunner.core.events import ValidatorsFinished
from goalrunner.records.event_log import read_records
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.records.run_search import find_run


def group_runs(batch: BatchFolder, home: Path) -> list[GroupRun]:
    """Return the runs of a group, the best one first.

    Raise UsageError for a batch of different goals, and RecordError.
    """
    state = batch.state()
    if state.plan.kind != "group":
        raise UsageError(
            f"{batch.batch_id} is a batch of {len(state.entries)} goals, "
            "of which none is the best",
            f"goal apply {batch.batch_id} takes all verified changes; "
            f"goal watch {batch.batch_id} shows its runs",
        )
    return ranked(_run_of(entry, home) for entry in state.entries.values())


def _run_of(entry: EntryState, home: Path) -> GroupRun:
    key, name = entry.entry.key, entry.entry.name
    folder = RunFolder(home / RUNS / entry.run_id)
    if not entry.run_id:
        return GroupRun(key, name, "", entry.status)
    if not folder.events.exists():
        # The process was killed before it made the log, or `goal prune` removed it.
        return GroupRun(key, name, "", "no records")
    outcome = load_run(folder).outcome(folder)
    score = outcome.verdict.score if outcome.verdict else None
    if "judge" not in outcome.models:
        # It only repeats whether the validators passed.
        score = None
    return GroupRun(
        key,
        name,
        entry.run_id,
        # The log of the run is the proof, whatever that of the batch says.
        outcome.status.value,
        hidden_failures=_hidden_failures(folder),
        score=score,
        changes=outcome.changes,
        cost_usd=outcome.total.cost_usd,
        tokens=outcome.total.known_tokens,
    )


def _hidden_failures(folder: RunFolder) -> int:
    """Return in how many checks of a run a hidden validator was red."""
    failures = 0
    for record in read_records(folder.events):
        event = record.event
        if isinstance(event, ValidatorsFinished):
            hidden = [result for result in event.results if result.hidden]
            failures += not all(result.passed for result in hidden)
    return failures


def find_group(home: Path, reference: str) -> BatchFolder | None:
    """Return the batch of that name, or of the only name with that prefix.

    None if there is none.
    """
    with contextlib.suppress(RunNotFound):
        return find_batch(home, reference)
    return None


def run_or_batch(home: Path, reference: str) -> RunFolder | BatchFolder:
    """Return the run that is named, the best one of the group that is named, or else
    the batch of that name.

    Raise RunNotFound, and UsageError and RecordError as `winner_of` does.
    """
    try:
        return find_run(home, reference)
    except RunNotFound:
        batch = find_group(home, reference)
        if batch is None:
            raise
    return winner_of(batch, home) if batch.plan().kind == "group" else batch


def best_beside(home: Path, run: RunFolder) -> RunFolder:
    """Return the best run of the group of a run, or the run itself if it has no group.

    Raise UsageError as `winner_of` does.
    """
    for name in batch_names(home):
        batch = BatchFolder(home / BATCHES / name)
        # A damaged batch says nothing about this run.
        with contextlib.suppress(RecordError):
            if batch.plan().kind != "group":
                continue
            entries = batch.state().entries.values()
            if any(entry.run_id == run.run_id for entry in entries):
                return winner_of(batch, home)
    return run


def winner_of(batch: BatchFolder, home: Path) -> RunFolder:
    """Return the best verified run of a group.

    Raise UsageError if there is none, and RecordError.
    """
    best = group_runs(batch, home)[0]
    name = batch.batch_id
    if not best.is_verified:
        raise UsageError(
            f"no run of the group {name} is verified, so none can be taken",
            f"goal report --compare {name} shows them; "
            "goal resume RUN goes on with one of them",
        )
    return RunFolder(home / RUNS / best.run_id)
