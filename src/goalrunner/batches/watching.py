"""`goal watch BATCH`: a batch that another process drives, as it goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from goalrunner.batches.batch_folder import BatchFolder, find_batch
from goalrunner.batches.displays import BatchView
from goalrunner.batches.history import BatchEvent, after, batch_state
from goalrunner.batches.run_figures import moment_of
from goalrunner.cli import output
from goalrunner.core.errors import ExitCode

_POLL_INTERVAL = 0.2
"""Seconds between two looks at the log of a batch."""


def watch_batch(home: Path, reference: str) -> int:
    """Show a batch until no process drives it, and return its exit code.

    Ctrl-C ends the view alone. Raise RunNotFound and RecordError.
    """
    folder = find_batch(home, reference)
    view = BatchView()
    state = batch_state(folder.plan(), ())
    with closing(view):
        view.begin(folder, state)
        try:
            for event in _events(folder):
                if event is None:
                    view.refresh(state)
                else:
                    state = after(state, event)
                    view.changed(state, event)
        except KeyboardInterrupt:
            view.end(folder, state, is_driven=folder.is_driven)
            return int(ExitCode.INTERRUPTED)
        view.end(folder, state)
    return moment_of(folder).exit_code


def _events(folder: BatchFolder) -> Iterator[BatchEvent | None]:
    """Yield all events of a batch until no process drives it; None between two looks.

    Raise ReaderGone if the reader of a pipe has closed it.
    """
    count = 0
    while True:
        # Read first: the last events of a scheduler are written before it ends.
        is_driven = folder.is_driven
        events = list(folder.events())
        yield from events[count:]
        count = len(events)
        if not is_driven:
            return
        yield None
        output.say("")
        time.sleep(_POLL_INTERVAL)
