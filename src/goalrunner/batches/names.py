"""The names of batches, for commands that must start fast: this imports no pydantic."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from goalrunner.records.run_folder import RUNS

BATCHES = "batches"
"""The folder in GOAL_HOME of the batches."""
PLAN = "batch.json"
"""The file that makes a folder a batch."""
LOG = "events.jsonl"
"""The file with the events of a batch, a line each."""

# As `event_log.encode` writes it. In a text, such as the reason of an end, quotes have
# a backslash before them.
_RUN_ID = re.compile(rb'"run_id":"([^"\\]+)"')


def named_batch(home: Path, reference: str | None) -> str | None:
    """Return the batch of that name, or of the only name with that prefix.

    None if there is none, or if it may be a run.
    """
    # A path names no batch, but it would be joined as one.
    if not reference or os.sep in reference:
        return None
    # The method of Path raises an error in a folder that may not be read; the commands
    # for runs report that one.
    if os.path.isfile(home / BATCHES / reference / PLAN):  # noqa: PTH113
        return reference
    names = _beginning_with(reference, home / BATCHES)
    is_run = bool(names and _beginning_with(reference, home / RUNS))
    return names[0] if len(names) == 1 and not is_run else None


def batch_completions(home: Path, prefix: str) -> list[str]:
    """Return the names of batches that begin like this, for the shell."""
    return sorted(_beginning_with(prefix, home / BATCHES))


def _beginning_with(prefix: str, folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.startswith(prefix)]  # noqa: PTH208
    except OSError:
        # No batch was submitted, or no run has begun.
        return []


def batches_of_runs(home: Path) -> dict[str, str]:
    """Return the batch of each run that belongs to one, by run id.

    A log that cannot be read is left out; `goal list --batch` reports it.
    """
    batches: dict[str, str] = {}
    for batch in _beginning_with("", home / BATCHES):
        with suppress(OSError):
            log = (home / BATCHES / batch / LOG).read_bytes()
            # To parse the events, this would have to import pydantic.
            for run_id in _RUN_ID.findall(log):
                batches[run_id.decode()] = batch
    return batches
