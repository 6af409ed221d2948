"""Many goals at once: a batch runs each of them in a copy, several at a time, with one
budget. Several runs of one goal are a batch as well.

`plan` is what was submitted, `batch_folder` holds it on disk, `history` is what has
happened since, `scheduler` starts the runs, and `worker` is the process of one.

A batch is shown by `rows` (what each entry does), `table` and `lines` (the text),
`displays` and `live_table` (while it is driven) and `values` (JSON).
"""

from __future__ import annotations

import os
from pathlib import Path

from goalrunner.records.run_folder import RUNS

BATCHES = "batches"
"""The folder in GOAL_HOME of the batches."""
PLAN = "batch.json"
"""The file that makes a folder a batch."""


def named_batch(home: Path, reference: str | None) -> str | None:
    """Return the batch of that name, or of the only name with that prefix; None if
    there is none, or if it may be a run.

    Here, because `goal status RUN` asks, and must not import what reads a batch.
    """
    # A path names no batch, but it would be joined as one.
    if not reference or os.sep in reference:
        return None
    if (home / BATCHES / reference / PLAN).is_file():
        return reference
    names = _beginning_with(reference, home / BATCHES)
    is_run = bool(names and _beginning_with(reference, home / RUNS))
    return names[0] if len(names) == 1 and not is_run else None


def _beginning_with(prefix: str, folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.startswith(prefix)]  # noqa: PTH208
    except OSError:
        # No batch was submitted, or no run has begun.
        return []
