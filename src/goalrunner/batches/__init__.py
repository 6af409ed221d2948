"""Many goals at once: a batch runs each of them in a copy, several at a time, with one
budget. Several runs of one goal are a batch as well.

`plan` is what was submitted, `batch_folder` holds it on disk, `history` is what has
happened since, `scheduler` starts the runs, and `worker` is the process of one.

A batch is shown by `rows` (what each entry does), `table` and `lines` (the text),
`displays` and `live_table` (while it is driven) and `values` (JSON).
"""

import os

BATCHES = "batches"
"""The folder in GOAL_HOME of the batches."""
PLAN = "batch.json"
"""The file that makes a folder a batch."""


def is_batch(home: str | os.PathLike[str], reference: str) -> bool:
    """Return whether a batch has that name.

    Here, because `goal status RUN` asks, and must not import what reads a batch.
    """
    # A path names no batch, but it would be joined as one.
    if not reference or os.sep in reference:
        return False
    return os.path.isfile(os.path.join(home, BATCHES, reference, PLAN))  # noqa: PTH113, PTH118
