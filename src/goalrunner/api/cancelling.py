"""Ending a run from another process: a living one is asked, any other is ended here. Owns asking and waiting."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from goalrunner.compose import glance, person, visit
from goalrunner.errors import RecordError, UsageError
from goalrunner.eventlog import is_written
from goalrunner.events import Cancelled
from goalrunner.model.outcome import StopReason
from goalrunner.runs import RunFolder
from goalrunner.state import RunState
from goalrunner.state.resumption import FINAL

PATIENCE = 10.0
"""Seconds to wait for a living run to end; it does within two, where its machine is not overloaded."""
_EVERY = 0.1


def cancel_run(folder: RunFolder, reason: str = "", environ: Mapping[str, str] = os.environ) -> RunState:
    """End a run for good; gives its last state. Raises UsageError where it is over for good already."""
    _refuse_final(folder)
    said = f"cancelled by {person()}" + (f": {reason}" if reason else "")
    if is_written(folder.events):
        folder.write_json(folder.cancellation, {"said": said})
        _await_end(folder)
        state, _ = glance(folder)
        if state.stop_reason in FINAL:
            return state
    # It does not live, or its process died, or it ended for another reason meanwhile, which a resume could take back.
    with visit(folder, environ) as there:
        there.journal.append(Cancelled(reason=said, stop_reason=StopReason.CANCELLED))
        there.save()
        return there.journal.state


def _await_end(folder: RunFolder) -> None:
    """Wait until no process has the run any more. Raises RecordError when that takes too long."""
    until = time.monotonic() + PATIENCE
    while is_written(folder.events):
        if time.monotonic() > until:
            raise RecordError(
                f"{folder.path} was asked to end, and is still running", "send its process a signal: kill PID"
            )
        time.sleep(_EVERY)


def _refuse_final(folder: RunFolder) -> None:
    state, _ = glance(folder)
    if state.stop_reason in FINAL:
        raise UsageError(f"run {folder.run_id} is {state.status} already", f"goal show {folder.run_id}")
