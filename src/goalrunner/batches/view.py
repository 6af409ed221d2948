"""What a person sees of a batch while it is driven or watched."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.displays import BatchDisplay, open_display
from goalrunner.batches.history import BatchEvent, BatchState
from goalrunner.batches.rows import BatchMoment
from goalrunner.batches.run_figures import RunFigures


class BatchView:
    """Reads the figures of the runs, and gives each moment to a display."""

    def __init__(self, display: BatchDisplay | None = None) -> None:
        """Use a display; by default, a table or lines on stdout."""
        self._display = display or open_display(sys.stdout)
        self._figures: RunFigures | None = None

    def begin(self, folder: BatchFolder, state: BatchState) -> None:
        """Show the batch before its first run."""
        self._figures = RunFigures(folder.home)
        self._display.begin(self._moment(state))

    def changed(self, state: BatchState, event: BatchEvent) -> None:
        """Show an event; `state` is that after it."""
        self._display.on_event(event, self._moment(state))

    def refresh(self, state: BatchState) -> None:
        """Show the figures of the running runs; called some times a second."""
        self._display.on_look(self._moment(state))

    def end(
        self, folder: BatchFolder, state: BatchState, *, is_driven: bool = False
    ) -> None:
        """Show how the batch ended; if it `is_driven`, only the view of it ends."""
        # Read anew: the process of a run may have been killed, which changes no file.
        self._figures = RunFigures(folder.home)
        self._display.finish(self._moment(state, is_driven=is_driven))

    def close(self) -> None:
        """Stop drawing. After `end`, there is nothing to stop."""
        self._display.close()

    def _moment(self, state: BatchState, *, is_driven: bool = True) -> BatchMoment:
        assert self._figures is not None, "the batch has begun"
        summaries = self._figures.of(state)
        return BatchMoment(state, summaries, is_driven, datetime.now(UTC))
