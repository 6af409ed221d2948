"""How a run's summary is kept up to date. Owns what is in it beside the state: the process, and the folder."""

from __future__ import annotations

import os
from collections.abc import Callable

from goalrunner.runs import RunFolder
from goalrunner.state import RunState
from goalrunner.state.outcome import summary_of


def saver(folder: RunFolder) -> Callable[[RunState], None]:
    """What rewrites summary.json from a state. Raises RecordError when called and it cannot be written."""
    owner = {"pid": os.getpid(), "path": str(folder.path)}
    # The log says all of it, and outcome.json, which lasts, is written into the same folder last.
    return lambda state: folder.write_json(folder.summary, {**summary_of(state), **owner}, lasting=False)
