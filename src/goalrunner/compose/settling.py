"""A run whose process was killed after its last event: outcome and summary are written from the log. Owns that alone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from goalrunner.compose.earlier import Past
from goalrunner.compose.saving import saver
from goalrunner.eventlog import is_written, read_records
from goalrunner.model.outcome import GoalOutcome, GoalStatus
from goalrunner.ports import Observer
from goalrunner.runs import RunFolder
from goalrunner.state.outcome import outcome_of


def settle(folder: RunFolder, past: Past, observers: Sequence[Observer] = ()) -> GoalOutcome | None:
    """The outcome of a run that has ended and could not say so any more; None for every other run.

    `past` is what its log says; the observers are told. Raises RecordError where it cannot be written.
    """
    if past.state.status is GoalStatus.RUNNING or _said(folder) or is_written(folder.events):
        return None
    rows = past.evidence.rows(past.state)
    outcome = outcome_of(past.state, str(folder.path)).model_copy(update={"evidence": rows})
    folder.write_json(folder.outcome, outcome.model_dump(mode="json"))
    saver(folder)(past.state)
    for record in read_records(folder.events):
        for observer in observers:
            observer.on_record(record)
    return outcome


def _said(folder: RunFolder) -> bool:
    """Whether the outcome that is there is of the run as its log ends: none is left by a run that goes on."""
    with contextlib.suppress(OSError, ValueError):
        return isinstance(json.loads(folder.outcome.read_bytes()), dict)
    return False
